// A rate in percent.
// error: not_a_dropout_rate
// error: int
// error: dropout\(x, 0.1\)
#include <weft/ops/dropout.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = dropout(x, 20);
#else
  auto y = dropout(x, 0.2);
#endif
}

// Dropout of integers.
// error: elements_not_floating
// error: int
// error: float or double
#include <weft/ops/dropout.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<std::int32_t, dims<dyn<"batch">, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = dropout(x, 0.2);
#else
  auto y = dropout(cast<float>(x), 0.2);
#endif
}

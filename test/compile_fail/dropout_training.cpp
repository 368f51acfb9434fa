// keep_prob and training.
// error: arguments_are_not_taken
// error: dropout: takes a value and a rate, options are named: dropout\(x, 0\.1, \{\.seed = 7\}\); a
#include <weft/ops/dropout.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = dropout(x, 0.5f, true);
#else
  auto y = dropout(x, 0.5f);
#endif
}

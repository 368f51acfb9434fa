// A seed as a number.
// error: along the first axis; random_options: seed, as in shuffle\(x, \{\.seed = 7\}\)
#include <weft/ops/shuffle.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = shuffle(x, 1);
#else
  auto y = shuffle(x, {.seed = 1});
#endif
}

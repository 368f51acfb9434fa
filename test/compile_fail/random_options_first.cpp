// Options before the mean.
// error: random_normal<float, dims<3>>\(g, mean, stddev, \{\.seed = 7\}\)
#include <weft/graph/random.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto y = random_normal<float, dims<3>>(g, {.seed = 7});
#else
  auto y = random_normal<float, dims<3>>(g, 0, 1, {.seed = 7});
#endif
}

// Extents as numbers.
// error: random_arguments_are_not_taken
// error: random_normal: write random_normal<float, dims<3, 4>>\(graph, mean, stddev\)
#include <weft/graph/random.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto y = random_normal<float, 3, 4>(g);
#else
  auto y = random_normal<float, dims<3, 4> >(g);
#endif
}

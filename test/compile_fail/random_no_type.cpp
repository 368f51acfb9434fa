// No type.
// error: random_arguments_are_not_taken
// error: random_uniform: write random_uniform<float, dims<3, 4>>\(graph, low, high\)
#include <weft/graph/random.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto y = random_uniform<dims<3, 4>>(g);
#else
  auto y = random_uniform<float, dims<3, 4>>(g);
#endif
}

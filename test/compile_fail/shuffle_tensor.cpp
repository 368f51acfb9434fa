// A tensor has no steps, in each of which it could be shuffled anew.
// error: value_not_in_a_graph
// error: shuffle: takes a value of a graph that has an axis
#include <weft/ops/shuffle.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 2>> x;
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto y = shuffle(x);
#else
  auto y = shuffle(constant(g, x));
#endif
}

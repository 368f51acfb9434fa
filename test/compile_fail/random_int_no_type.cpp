// Integers of extents and no type.
// error: random_arguments_are_not_taken
// error: random_int: write random_int<std::int32_t, dims<3, 4>>\(graph, low, high\)
#include <weft/graph/random.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto y = random_int<dims<3>>(g, 0, 10);
#else
  auto y = random_int<std::int32_t, dims<3>>(g, 0, 10);
#endif
}

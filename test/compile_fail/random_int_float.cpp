// Integers of a type that has fractions.
// error: random_elements_not_integers
// error: random_int: has extents, dims<\.\.\.>, and is of an integer type
#include <weft/graph/random.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto y = random_int<float, dims<3>>(g, 0, 10);
#else
  auto y = random_int<std::int32_t, dims<3>>(g, 0, 10);
#endif
}

// A bool for the direction.
// error: arguments_are_not_taken
// error: sort: the axis is a template argument, the direction is one: sort<1>\(x,
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = sort(t, true);
#else
  auto y = sort(t, direction::descending);
#endif
}

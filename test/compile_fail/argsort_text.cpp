// A text for the direction.
// error: arguments_are_not_taken
// error: argsort: the axis is a template argument, the direction is one: argsort<1>\(x,
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = argsort(t, "DESCENDING");
#else
  auto y = argsort(t, direction::descending);
#endif
}

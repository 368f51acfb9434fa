// Both values of select are numbers.
// error: selected_values_are_numbers
// error: <int, int>
// error: select: one of the two values is a tensor or a node
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = select(x > 0, 1, 0);
#else
  auto y = cast<float>(x > 0);
#endif
}

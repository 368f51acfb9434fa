// let of a number.
// error: operand_is_not_a_tensor
// error: let: takes an expression, then a name: let\(x \* 2, \\?"twice\\?"\); constant\(graph, 0\.5f\) makes a
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = let(2.0f);
#else
  auto y = let(x * 2);
#endif
}

// Branches with a parameter, and no operand.
// error: cond: takes a scalar of bool, and two functions that return expressions of the same elements
#include <weft/control_flow.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = cond(x > 0.0f, [](auto x) { return x; }, [](auto x) { return -x; });
#else
  auto y = cond(x > 0.0f, [](auto x) { return x; }, [](auto x) { return -x; }, x);
#endif
}

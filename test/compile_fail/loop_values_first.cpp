// The loop variable before the condition.
// error: while_loop: takes a condition that returns a scalar of bool, and a body that returns the loop
#include <weft/control_flow.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop(x, [](auto x) { return x < 8.0f; }, [](auto x) { return x * 2.0f; });
#else
  auto y = while_loop([](auto x) { return x < 8.0f; }, [](auto x) { return x * 2.0f; }, x);
#endif
}

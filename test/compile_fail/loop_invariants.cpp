// Nothing in a loop changes.
// error: loop_has_no_variable
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop([](auto x) { return sum(x) < 9.f; }, [](auto x) { return x + x; }, invariant(x));
#else
  auto y = while_loop([](auto x) { return sum(x) < 9.f; }, [](auto x) { return x + x; }, x);
#endif
}

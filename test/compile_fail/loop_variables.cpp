// A loop variable becomes longer in each iteration.
// error: loop_variables_change
// error: dims<4>
// error: dims<8>
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop([](auto x) { return sum(x) < 9.f; }, [](auto x) { return concat<0>(x, x); }, x);
#else
  auto y = while_loop([](auto x) { return sum(x) < 9.f; }, [](auto x) { return x + x; }, x);
#endif
}

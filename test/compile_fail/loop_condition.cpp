// The condition of a loop is a number.
// error: predicate_is_not_a_scalar_bool
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop([](auto x) { return 9.f - sum(x); }, [](auto x) { return x + x; }, x);
#else
  auto y = while_loop([](auto x) { return 9.f - sum(x) > 0.f; }, [](auto x) { return x + x; }, x);
#endif
}

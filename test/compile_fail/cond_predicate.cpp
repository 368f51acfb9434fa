// A branch is taken by elements.
// error: predicate_is_not_a_scalar_bool
// error: dims<4>
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = cond(x > 0.f, [](auto x) { return x; }, [](auto x) { return -x; }, x);
#else
  auto y = cond(mean(x) > 0.f, [](auto x) { return x; }, [](auto x) { return -x; }, x);
#endif
}

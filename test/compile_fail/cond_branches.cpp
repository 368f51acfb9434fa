// The branches of cond yield other extents.
// error: branches_differ
// error: dims<4>
// error: dims<2, 2>
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = cond(sum(x) > 0.f, [](auto x) { return x; }, [](auto x) { return reshape<dims<2, 2>>(x); }, x);
#else
  auto y = cond(sum(x) > 0.f, [](auto x) { return x; }, [](auto x) { return x * 2.f; }, x);
#endif
}

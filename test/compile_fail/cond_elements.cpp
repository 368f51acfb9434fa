// One branch of cond yields two values, and the other one.
// error: branches_differ
// error: tuple
#include <tuple>
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = cond(sum(x) > 0.f, [](auto x) { return std::tuple{x, x}; }, [](auto x) { return x; }, x);
#else
  auto y = cond(sum(x) > 0.f, [](auto x) { return std::tuple{x, x}; }, [](auto x) { return std::tuple{x, -x}; }, x);
#endif
}

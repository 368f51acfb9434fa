// A branch yields a number.
// error: result_is_not_an_expression
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = cond(sum(x) > 0.f, [](auto x) { return sum(x); }, [](auto) { return 0.f; }, x);
#else
  auto y = cond(sum(x) > 0.f, [](auto x) { return sum(x); }, [](auto) { return tensor<float>(0); }, x);
#endif
}

// A scalar has no rows.
// error: scalar_has_no_rows
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<5>>(g, "x");
  auto y = placeholder<float>(g, "y");
#ifdef WEFT_SHOULD_FAIL
  auto z = scan([](auto x, auto y) { return x * y; }, rows(x), rows(y));
#else
  auto z = scan([](auto x, auto y) { return x * y; }, rows(x), invariant(y));
#endif
}

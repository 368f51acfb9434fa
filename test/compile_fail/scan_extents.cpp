// The values that are scanned together have different numbers of rows.
// error: scanned_extents_differ
// error: dims<5, 4>
// error: dims<4, 4>
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<5, 4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = placeholder<float, dims<4, 4>>(g, "y");
#else
  auto y = placeholder<float, dims<5, 4>>(g, "y");
#endif
  auto z = scan([](auto x, auto y) { return x * y; }, rows(x), rows(y));
}

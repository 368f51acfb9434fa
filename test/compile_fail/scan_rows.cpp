// A scan has nothing to go over.
// error: scan_has_no_rows
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<5, 4>>(g, "x");
  auto h = placeholder<float, dims<4>>(g, "h");
#ifdef WEFT_SHOULD_FAIL
  auto y = scan([](auto h, auto x) { return h + sum<0>(x); }, h, invariant(x));
#else
  auto y = scan([](auto h, auto x) { return h + x; }, h, rows(x));
#endif
}

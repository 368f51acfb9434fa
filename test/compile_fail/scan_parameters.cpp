// The body of a scan takes no parameter for what it carries.
// error: subgraph_takes_other_parameters
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<5, 4>>(g, "x");
  auto h = placeholder<float, dims<4>>(g, "h");
#ifdef WEFT_SHOULD_FAIL
  auto y = scan([](auto x) { return x + 1.f; }, h, rows(x));
#else
  auto y = scan([](auto h, auto x) { return h + x; }, h, rows(x));
#endif
}

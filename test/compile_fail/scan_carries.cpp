// A body returns what it stacks before what it carries.
// error: loop_variables_change
// error: dims<4>
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<5, 4>>(g, "x");
  auto h = placeholder<float, dims<4>>(g, "h");
#ifdef WEFT_SHOULD_FAIL
  auto all = scan([](auto h, auto x) { return std::tuple{sum(h * x), h + x}; }, h, rows(x));
#else
  auto all = scan([](auto h, auto x) { return std::tuple{h + x, sum(h * x)}; }, h, rows(x));
#endif
}

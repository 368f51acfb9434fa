// A condition takes more parameters than there are operands.
// error: subgraph_takes_other_parameters
// error: dims<4>
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
  auto n = placeholder<int>(g, "n");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop([](auto i, auto, auto n) { return i < n; },
                      [](auto i, auto x) { return std::tuple{i + 1, x + x}; }, tensor<int>(0), x);
#else
  auto y = while_loop([](auto i, auto n) { return i < n; },
                      [](auto i, auto, auto x) { return std::tuple{i + 1, x + x}; }, tensor<int>(0), invariant(n), x);
#endif
}

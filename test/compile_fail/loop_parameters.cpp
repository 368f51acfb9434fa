// The body of a loop takes no parameter for an invariant.
// error: subgraph_takes_other_parameters
// error: dims<2, 2>
#include <weft/control_flow.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<1, 2>>(g, "x");
  auto w = placeholder<float, dims<2, 2>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto y = while_loop([](auto x, auto) { return sum(x) < 9.f; }, [](auto x) { return x + x; }, x, invariant(w));
#else
  auto y = while_loop([](auto x, auto) { return sum(x) < 9.f; }, [](auto x, auto w) { return matmul(x, w); }, x,
                      invariant(w));
#endif
}

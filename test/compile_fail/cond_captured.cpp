// Branches that are given nothing, and capture.
// error: subgraph_takes_other_parameters
// error: cond: takes a scalar of bool, and two functions that return expressions of the same
#include <weft/graph/cond.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = cond(sum(x) > 0, [](auto v) { return v; }, [] { return 1.0f; }, x);
#else
  auto y = cond(sum(x) > 0, [](auto v) { return v; }, [](auto v) { return -v; }, x);
#endif
}

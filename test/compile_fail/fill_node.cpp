// A fill with a value that a step computes.
// error: filled_with_no_number
// error: fill<T, dims<\.\.\.>>\(g, number\): extents are a dims; broadcast_to<dims<\.\.\.>>\(x\) takes a node
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = fill<float, dims<2, 3>>(g, x);
#else
  auto y = broadcast_to<dims<2, 3>>(x);
#endif
}

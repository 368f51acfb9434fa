// Stacked operands of other extents.
// error: stacked_extents_differ
// error: stack: needs a place for the axis, and operands of one type and equal extents
#include <weft/ops/arrays.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
  tensor<float, dims<3>> b;
#ifdef WEFT_SHOULD_FAIL
  auto y = stack<0>(x, b);
#else
  auto y = stack<0>(x, x + b);
#endif
}

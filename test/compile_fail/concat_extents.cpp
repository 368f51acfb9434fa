// The joined tensors have other extents beside the axis.
// error: extents_beside_axis_differ
// error: dims<3, 4>
// error: dims<2, 5>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
  tensor<float, dims<2, 5>> y;
#ifdef WEFT_SHOULD_FAIL
  auto z = concat<0>(x, y);
#else
  auto z = concat<0>(x, slice<0, 0, 2>(x));
#endif
}

// A new axis behind the last but one.
// error: new_axis_out_of_range
// error: dims<2, 3>, 3
// error: expand_dims: the axis is one of the result's
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = expand_dims<3>(x);
#else
  auto y = expand_dims<2>(x);
#endif
}

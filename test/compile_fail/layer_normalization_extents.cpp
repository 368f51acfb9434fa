// The scale of a layer normalization has other extents than the last axes of the value.
// error: last_axes_differ
// error: dims<16>
// error: scale and offset of the last extents of x
#include <weft/ops/normalization.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 8, 16>> x;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<16>> scale, offset;
#else
  tensor<float, dims<8, 16>> scale, offset;
#endif
  tensor<float, dims<4, 8, 16>> y = layer_normalization<2>(x, scale, offset);
}

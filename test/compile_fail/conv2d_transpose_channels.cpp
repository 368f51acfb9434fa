// Filters of a convolution, whose last extent is not the channels of the images.
// error: conv2d_transpose_channels_differ
// error: conv2d_transpose: needs images \[batch, height, width, in\] and filters \[height, width, out, in\]
#include <weft/ops/conv2d_transpose.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 7, 7, 64>> images;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<4, 4, 64, 32>> filters;
#else
  tensor<float, dims<4, 4, 32, 64>> filters;
#endif
  auto y = conv2d_transpose<conv2d_transpose_options{.stride = 2}>(images, filters);
}

// Filters as conv2d takes them.
// error: depthwise_channels_differ
// error: depthwise_conv2d: needs images \[batch, height, width, channels\]
#include <weft/ops/depthwise_conv2d.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 7, 7, 8>> images;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<3, 3, 1, 8>> filters;
#else
  tensor<float, dims<3, 3, 8, 1>> filters;
#endif
  auto y = depthwise_conv2d(images, filters);
}

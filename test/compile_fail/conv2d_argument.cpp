// The stride of a convolution as an argument.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<1, 4, 4, 1>> x;
  tensor<float, dims<3, 3, 1, 2>> w;
#ifdef WEFT_SHOULD_FAIL
  auto y = conv2d(x, w, 2);
#else
  auto y = conv2d<conv2d_options{.stride = 2}>(x, w);
#endif
}

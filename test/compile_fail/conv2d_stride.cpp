// A convolution with a stride of 0.
// error: conv2d_options_out_of_range
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<1, 28, 28, 1>> images;
  tensor<float, dims<5, 5, 1, 8>> filters;
#ifdef WEFT_SHOULD_FAIL
  auto features = conv2d<conv2d_options{.stride = {0, 1}}>(images, filters);
#else
  auto features = conv2d<conv2d_options{.stride = {2, 1}}>(images, filters);
#endif
}

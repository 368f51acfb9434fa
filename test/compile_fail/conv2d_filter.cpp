// A filter is larger than the image, and there is no padding.
// error: filter_is_larger_than_image
// error: 4, 28, 1
// error: 5, 5, 1, 8
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<1, 4, 28, 1>> images;
  tensor<float, dims<5, 5, 1, 8>> filters;
#ifdef WEFT_SHOULD_FAIL
  auto features = conv2d<conv2d_options{.pad = padding::valid}>(images, filters);
#else
  auto features = conv2d<conv2d_options{.pad = padding::same}>(images, filters);
#endif
}

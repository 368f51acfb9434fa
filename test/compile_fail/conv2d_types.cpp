// Images and filters of a convolution have other element types.
// error: element_types_differ
// error: float
// error: double
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<1, 28, 28, 1>> images;
#ifdef WEFT_SHOULD_FAIL
  tensor<double, dims<5, 5, 1, 8>> filters;
#else
  tensor<float, dims<5, 5, 1, 8>> filters;
#endif
  auto features = conv2d(images, filters);
}

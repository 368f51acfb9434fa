// A convolution of integers.
// error: conv2d_undefined_for
// error: int
// error: float, double, half or bfloat16
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  using element = std::int32_t;
#else
  using element = half;
#endif
  tensor<element, dims<1, 28, 28, 1>> images;
  tensor<element, dims<5, 5, 1, 8>> filters;
  auto features = conv2d(images, filters);
}

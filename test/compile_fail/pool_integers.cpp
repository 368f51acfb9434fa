// A pool of integers.
// error: pool_undefined_for
// error: int
// error: images of floating-point numbers
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  using element = std::int32_t;
#else
  using element = bfloat16;
#endif
  tensor<element, dims<1, 28, 28, 1>> images;
  auto halved = max_pool2d<2>(images);
}

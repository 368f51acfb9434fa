// The new size among the arguments.
// error: resize_bilinear<64, 64>\(images\)
#include <weft/ops/resize.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 7, 7, 3>> images;
#ifdef WEFT_SHOULD_FAIL
  auto y = resize_bilinear(images, 64, 64);
#else
  auto y = resize_bilinear<64, 64>(images);
#endif
}

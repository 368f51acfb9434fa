// Bytes cannot be interpolated.
// error: not_floating
// error: resize_bilinear<height, width>: needs float or double images
#include <weft/ops/resize.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<std::uint8_t, dims<2, 7, 7, 3>> images;
#ifdef WEFT_SHOULD_FAIL
  auto y = resize_bilinear<64, 64>(images);
#else
  auto y = resize_bilinear<64, 64>(cast<float>(images));
#endif
}

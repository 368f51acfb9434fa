// One image instead of a batch of them.
// error: images_are_not_of_rank_4
// error: resize_nearest<height, width>: needs images \[batch, height, width, channels\]
#include <weft/ops/resize.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<7, 7, 3>> image;
#ifdef WEFT_SHOULD_FAIL
  auto y = resize_nearest<14, 14>(image);
#else
  auto y = resize_nearest<14, 14>(expand_dims<0>(image));
#endif
}

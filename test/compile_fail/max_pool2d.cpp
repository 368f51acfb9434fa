// The window of a pool is larger than the image.
// error: window_is_larger_than_image
// error: 7, 7, 64
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 7, 7, 64>>(g, "images");
#ifdef WEFT_SHOULD_FAIL
  auto pooled = max_pool2d<8>(images);
#else
  auto pooled = max_pool2d<7>(images);
#endif
}

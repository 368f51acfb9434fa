// The window of a pool is larger than an image whose height alone is known at run time only.
// error: window_is_larger_than_image
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<1, dyn<"height">, 7, 64>>(g, "images");
#ifdef WEFT_SHOULD_FAIL
  auto pooled = max_pool2d<8>(images);
#else
  auto pooled = max_pool2d<7>(images);
#endif
}

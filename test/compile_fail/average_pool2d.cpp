// The padding of a pool is as wide as its window, which could then lie in the padding alone.
// error: pool_options_out_of_range
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 7, 7, 64>>(g, "images");
#ifdef WEFT_SHOULD_FAIL
  auto pooled = avg_pool2d<2, 2, padding::of(2)>(images);
#else
  auto pooled = avg_pool2d<2, 2, padding::of(1)>(images);
#endif
}

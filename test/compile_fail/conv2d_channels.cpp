// The filters of a convolution have other channels than the images.
// error: conv2d_channels_differ
// error: 28, 28, 1
// error: 5, 5, 32, 64
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "images");
#ifdef WEFT_SHOULD_FAIL
  auto filters = variable<float, dims<5, 5, 32, 64>>(g, "filters", init::zeros{});
#else
  auto filters = variable<float, dims<5, 5, 1, 64>>(g, "filters", init::zeros{});
#endif
  auto features = conv2d(images, filters);
}

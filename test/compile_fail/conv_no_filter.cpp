// A number of filters, as in layers.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto im = placeholder<float, dims<8, 28, 28, 1>>(g, "im");
#ifdef WEFT_SHOULD_FAIL
  auto y = conv2d(im, 8);
#else
  auto y = conv2d(im, variable<float, dims<3, 3, 1, 8>>(g, "c"));
#endif
}

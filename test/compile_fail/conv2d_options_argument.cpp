// Options of a convolution as an argument in braces.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
  auto w = variable<float, dims<5, 5, 1, 8>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto y = conv2d(x, w, {.stride = 2});
#else
  auto y = conv2d<conv2d_options{.stride = 2}>(x, w);
#endif
}

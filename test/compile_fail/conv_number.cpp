// A stride in brackets.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto im = placeholder<float, dims<8, 28, 28, 1>>(g, "im");
  auto f = variable<float, dims<5, 5, 1, 4>>(g, "f");
#ifdef WEFT_SHOULD_FAIL
  auto y = conv2d<2>(im, f);
#else
  auto y = conv2d<conv2d_options{.stride = 2}>(im, f);
#endif
}

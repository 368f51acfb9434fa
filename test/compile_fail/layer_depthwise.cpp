// A depthwise layer that names its channels gets others.
// error: features_differ
// error: depthwise_conv2d: needs a node \[batch, height, width, channels\]
#include <weft/nn.hpp>
#include <weft/nn/depthwise_conv2d.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 6>>(g);
#else
  auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 12>>(g);
#endif
  nn::depthwise_conv2d<3, 1, conv2d_options{.stride = 2}, 12>()(x);
}

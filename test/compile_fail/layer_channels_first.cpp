// Images with channels first, as PyTorch has them.
// error: conv2d_channels_differ|features_differ
// error: conv2d: needs a node \[batch, height, width, channels\]
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<dyn<"batch">, 3, 32, 32>>(g);
#else
  auto x = placeholder<float, dims<dyn<"batch">, 32, 32, 3>>(g);
#endif
  auto y = nn::conv2d<5, 32, conv2d_options{}, 3>()(x);
}

// The channels of the images are no multiple of the layer's groups.
// error: conv2d_groups_do_not_fit
// error: grouped_conv2d: needs a node \[batch, height, width, channels\]
#include <weft/nn.hpp>
#include <weft/nn/grouped_conv2d.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 6>>(g);
#else
  auto x = placeholder<float, dims<dyn<"batch">, 8, 8, 12>>(g);
#endif
  nn::grouped_conv2d<3, 16, 4>()(x);
}

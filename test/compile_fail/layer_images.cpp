// Rows of pixels where a layer takes images.
// error: images_are_not_of_rank_4
// error: conv2d: needs a node \[batch, height, width, channels\]
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<dyn<"batch">, 784>>(g);
#else
  auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g);
#endif
  auto y = nn::conv2d<5, 32>()(x);
}

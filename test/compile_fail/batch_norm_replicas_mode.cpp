// Replicas of batch normalization are normalized without a mode.
// error: mode_is_missing
// error: batch_norm: needs a mode
#include <vector>

#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  const std::vector replicas{placeholder<float, dims<8, 4>>(g), placeholder<float, dims<8, 4>>(g)};
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::batch_norm<>()(replicas);
#else
  auto y = nn::batch_norm<>()(replicas, nn::mode::training);
#endif
}

// Replicas of batch normalization have different numbers of channels.
// error: channels_of_replicas_differ
// error: batch_norm: needs nodes \[\.\.\., channels\] .* the same channels in all replicas
#include <tuple>

#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto first = placeholder<float, dims<8, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto second = placeholder<float, dims<6, 5>>(g);
#else
  auto second = placeholder<float, dims<6, 4>>(g);
#endif
  auto [y0, y1] = nn::batch_norm<>()(std::tuple(first, second), nn::mode::training);
}

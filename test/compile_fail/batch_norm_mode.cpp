// Batch normalization is called without a mode.
// error: mode_is_missing
// error: batch_norm: needs a mode
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::batch_norm<>()(x);
#else
  auto y = nn::batch_norm<>()(x, nn::mode::training);
#endif
}

// A batch normalization of one axis.
// error: no_axis_beside_channels
// error: dims<16>
// error: needs x of \[..., channels\]
#include <weft/ops/normalization.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<16>> scale, offset;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<16>> x;
#else
  tensor<float, dims<1, 16>> x;
#endif
  auto [y, mean, variance] = batch_normalization_training(x, scale, offset);
}

// A residual of other extents than the value that is normalized.
// error: residual_differs
// error: dims<4, 8, 8, 16>
// error: dims<4, 4, 4, 16>
// error: the residual has the extents
#include <weft/ops/normalization.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 8, 8, 16>> x;
  tensor<float, dims<16>> scale, offset;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<4, 4, 4, 16>> residual;
#else
  tensor<float, dims<4, 8, 8, 16>> residual;
#endif
  auto [y, mean, variance] = batch_normalization_training(x, scale, offset, residual, {.relu = true});
}

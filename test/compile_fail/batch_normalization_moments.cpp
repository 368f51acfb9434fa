// A batch normalization by moments that are of other channels.
// error: channels_differ
// error: dims<4, 16>
// error: dims<8>
// error: moments, scale and offset of \[channels\]
#include <weft/ops/normalization.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 16>> x;
  tensor<float, dims<16>> mean, scale, offset;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<8>> variance;
#else
  tensor<float, dims<16>> variance;
#endif
  tensor<float, dims<4, 16>> y = batch_normalization(x, mean, variance, scale, offset);
}

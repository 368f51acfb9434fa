// The scale of a batch normalization is of other channels than the value.
// error: channels_differ
// error: 28, 28, 16
// error: dims<32>
// error: scale and offset of \[channels\]
#include <weft/ops/normalization.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 16>>(g, "images");
  auto offset = variable<float, dims<16>>(g, "offset", init::zeros{});
#ifdef WEFT_SHOULD_FAIL
  auto scale = variable<float, dims<32>>(g, "scale", init::ones{});
#else
  auto scale = variable<float, dims<16>>(g, "scale", init::ones{});
#endif
  auto [y, mean, variance] = batch_normalization_training(images, scale, offset);
}

// The images of a convolution are rows.
// error: images_are_not_of_rank_4
// error: 784
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  auto filters = variable<float, dims<5, 5, 1, 32>>(g, "filters", init::zeros{});
#ifdef WEFT_SHOULD_FAIL
  auto features = conv2d(images, filters);
#else
  auto features = conv2d(reshape<dims<dyn<"batch">, 28, 28, 1>>(images), filters);
#endif
}

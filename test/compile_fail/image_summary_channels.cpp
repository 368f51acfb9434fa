// An image has two channels.
// error: summarized_value_is_not_an_image
// error: image_summary: it is of
#include <weft/summary.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 2>>(g, "images");
#else
  auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 3>>(g, "images");
#endif
  auto s = image_summary("images", images);
}

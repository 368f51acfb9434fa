// Height and width are known at run time only, and with a stride the result's have no name.
// error: conv2d_extents_are_dynamic
// error(g++): height
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<1, dyn<"height">, dyn<"width">, 3>>(g, "images");
  auto filters = variable<float, dims<3, 3, 3, 8>>(g, "filters", init::zeros{});
#ifdef WEFT_SHOULD_FAIL
  auto features = conv2d<conv2d_options{.stride = 2}>(images, filters);
#else
  auto features = conv2d<conv2d_options{.stride = 1}>(images, filters);
#endif
}

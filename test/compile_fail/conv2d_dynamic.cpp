// Height and width of the filters are known at run time only.
// error: filter_extents_are_dynamic
// error(g++): height
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto images = placeholder<float, dims<1, dyn<"height">, dyn<"width">, 3>>(g, "images");
#ifdef WEFT_SHOULD_FAIL
  auto filters = placeholder<float, dims<dyn<"height">, 3, 3, 8>>(g, "filters");
#else
  auto filters = placeholder<float, dims<3, 3, 3, 8>>(g, "filters");
#endif
  auto features = conv2d<conv2d_options{.stride = 2}>(images, filters);
}

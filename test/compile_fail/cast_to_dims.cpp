// cast to extents.
// error: type_is_not_an_element_type
// error: dims<6>
// error: cast: the element type is a template argument: cast<float>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = cast<dims<6>>(x);
#else
  auto y = reshape<dims<6>>(x);
#endif
}

// Extents of a reshape without dims.
// error: extents_are_not_a_template_argument
// error: dims<3, 2>
// error: reshape: extents are written in a dims: reshape<dims<3, 2>>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = reshape<3, 2>(x);
#else
  auto y = reshape<dims<3, 2>>(x);
#endif
}

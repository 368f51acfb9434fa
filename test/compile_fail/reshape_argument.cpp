// Extents are given as an argument.
// error: extents_are_not_a_template_argument
// error: dims<2, 3>
// error: reshape: extents are a template argument: reshape<dims<3, 2>>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = reshape(x, {3, 2});
#else
  auto y = reshape<dims<3, 2>>(x);
#endif
}

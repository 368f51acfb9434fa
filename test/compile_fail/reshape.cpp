// A reshape to another number of elements.
// error: reshape_changes_elements
// error: dims<2, 6>
// error: dims<3, 5>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 6>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = reshape<dims<3, 5>>(x);
#else
  auto y = reshape<dims<3, 4>>(x);
#endif
}

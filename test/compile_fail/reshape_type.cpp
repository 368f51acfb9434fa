// reshape with an element type.
// error: arguments_are_not_taken
// error: reshape: takes extents alone: reshape<dims<3, 2>>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = reshape<float, dims<12>>(t);
#else
  auto y = reshape<dims<12>>(t);
#endif
}

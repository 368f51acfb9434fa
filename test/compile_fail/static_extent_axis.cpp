// The extent of an axis that is not there.
// error: axis_out_of_range
// error: static_extent<X, axis>\(\): needs an axis of X
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 784>> x;
#ifdef WEFT_SHOULD_FAIL
  const int width = static_extent<decltype(x), 2>();
#else
  const int width = static_extent<decltype(x), -1>();
#endif
  return width;
}

// A slice behind the end of a named extent.
// error: slice_is_out_of_range
// error: slice: slice<axis, begin, size, step>\(x\) lies within the axis
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"n">, 3>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = slice<0, dyn<"n">, 1>(x);
#else
  auto y = slice<0, dyn<"n"> - extent<1>, 1>(x);
#endif
}

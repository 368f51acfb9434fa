// A computed slice that is longer than its axis.
// error: slice_is_out_of_range<.*dims<8, 3>, 1, 0, 4, 1>
// error: slice: slice<axis, size>\(x, begin\) has an axis of that size
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<8, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = slice<1, 4>(x, 0);
#else
  auto y = slice<1, 2>(x, 1);
#endif
}

// A slice that begins at a fraction.
// error: slice_does_not_begin_at_an_index<.*node<float
// error: slice: slice<axis, size>\(x, begin\) has an axis of that size, and begins at an integer scalar
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<8, 3>>(g);
  auto i = placeholder<float>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = slice<0, 2>(x, i);
#else
  auto y = slice<0, 2>(x, cast<std::int32_t>(i));
#endif
}

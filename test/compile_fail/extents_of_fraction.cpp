// An extent of 2.5.
// error: extents_are_not_valid|not yet supported
// error(g++): placeholder<T, dims<\.\.\.>>: at most 8 integers, none negative; dyn<\\?"name\\?"> is an extent
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<2.5, 3>>(g, "x");
#else
  auto x = placeholder<float, dims<2, 3>>(g, "x");
#endif
}

// None as an extent.
// error: extents_are_not_valid
// error: placeholder<T, dims<\.\.\.>>: at most 8 integers, none negative; dyn<\\?"name\\?"> is an extent
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<nullptr, 3>>(g, "x");
#else
  auto x = placeholder<float, dims<dyn<"n">, 3>>(g, "x");
#endif
}

// An axis of an extent that is not known.
// error: extent_is_not_an_int
// error: unstack: needs an axis whose extent is a number, not a name
#include <weft/ops/arrays.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"n">, 2>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = unstack<0>(x);
#else
  auto y = unstack<1>(x);
#endif
}

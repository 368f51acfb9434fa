// An extent that has a name is asked for as a number that the compiler knows.
// error: extent_is_not_an_int
// error: static_extent<X, axis>\(\): needs an axis of X whose extent is a number, not a name
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 784>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  static_cast<void>(static_extent<decltype(x), 0>());
#else
  static_cast<void>(static_extent<decltype(x), 1>());
#endif
}

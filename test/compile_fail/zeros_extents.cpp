// Zeros of extents that are known at run time.
// error: extents_are_not_given
// error: zeros: extents known at run time are given: \(shape\(7, 3\)\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto x = zeros<float, dims<dyn<"n">, 3>>();
#else
  auto x = zeros<float, dims<dyn<"n">, 3>>(shape(7, 3));
#endif
}

// Extents of two names meet.
// error: elementwise_shapes_differ
// error: operator\+: needs extents that broadcast and numbers of one type: cast<T>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  auto z = placeholder<float, dims<dyn<"rows">, 4>>(g, "z");
#ifdef WEFT_SHOULD_FAIL
  auto y = x + z;
#else
  auto y = x + x;
#endif
}

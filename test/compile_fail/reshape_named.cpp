// A reshape that loses a named extent.
// error: reshape_changes_elements
// error: reshape: needs extents, dims<\.\.\.>, of as many elements, at most one of them -1
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"b">, dyn<"t">, 8>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = reshape<dims<dyn<"b">, 8>>(x);
#else
  auto y = reshape<dims<dyn<"b"> * dyn<"t">, 8>>(x);
#endif
}

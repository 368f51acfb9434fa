// Extents of a placeholder without dims.
// error: extents_are_not_in_a_dims
// error: <784, 10>
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, 784, 10>(g, "x");
#else
  auto x = placeholder<float, dims<784, 10> >(g, "x");
#endif
}

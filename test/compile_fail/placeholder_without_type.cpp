// A placeholder without an element type.
// error: types_are_not_element_and_dims
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder(g, "x");
#else
  auto x = placeholder<float>(g, "x");
#endif
}

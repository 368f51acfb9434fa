// Extents of a placeholder as an argument.
// error: types_are_not_element_and_dims
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float>(g, {784, 10});
#else
  auto x = placeholder<float, dims<784, 10> >(g);
#endif
}

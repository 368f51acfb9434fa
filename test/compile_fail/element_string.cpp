// Strings as elements.
// error: types_are_not_element_and_dims
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
#include <string>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<std::string>(g, "x");
#else
  auto x = placeholder<std::int32_t>(g, "x");
#endif
}

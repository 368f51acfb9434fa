// cast without its type.
// error: type_is_not_an_element_type
// error: cast: the element type is a template argument: cast<float>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = cast(x);
#else
  auto y = cast<double>(x);
#endif
}

// A tensor is made of extents in braces.
// error: values_need_extents
// error: tensor: extents known at run time are given before the values: tensor<\.\.\.> t\{shape\(\.\.\.\), \{values\}\}
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<dyn<"rows">, 3>> x({4, 3});
#else
  tensor<float, dims<dyn<"rows">, 3>> x(shape(4, 3));
#endif
}

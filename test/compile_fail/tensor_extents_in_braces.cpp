// Extents in braces.
// error: tensor: extents known at run time are given before the values: tensor<\.\.\.> t\{shape\(\.\.\.\),
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<dyn<"n">, 3>> t({2, 3});
#else
  tensor<float, dims<dyn<"n">, 3>> t(shape(2, 3));
#endif
}

// Operands of two element types are joined.
// error: element_types_differ<float, int>
// error: one type
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
  tensor<std::int32_t, dims<3, 4>> y;
#ifdef WEFT_SHOULD_FAIL
  auto z = concat<0>(x, y);
#else
  auto z = concat<0>(x, cast<float>(y));
#endif
}

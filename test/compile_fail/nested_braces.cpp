// Values of a matrix in nested braces.
// error: values_are_nested
// error: dims<2, 2>
// error: tensor: values stand in one list, row after row: \{1, 2, 3, 4\}
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<2, 2>> x{{1, 2}, {3, 4}};
#else
  tensor<float, dims<2, 2>> x{1, 2, 3, 4};
#endif
}

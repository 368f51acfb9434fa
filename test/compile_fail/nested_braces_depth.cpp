// Braces are nested less deep than the tensor has axes.
// error: nesting_differs
// error: dims<2, 1, 2>
// error: values in braces are one list, row after row, or nested as the extents are
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<2, 1, 2>> x{{1, 2}, {3, 4}};
#else
  tensor<float, dims<2, 1, 2>> x{{{1, 2}}, {{3, 4}}};
#endif
}

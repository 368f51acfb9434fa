// Operands of different element types.
// error: element_types_differ
// error: float
// error: double
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> a;
#ifdef WEFT_SHOULD_FAIL
  tensor<double, dims<3>> b;
#else
  tensor<float, dims<3>> b;
#endif
  auto c = a * b;
}

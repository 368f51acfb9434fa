// An axis is a fraction.
// error: axes_are_not_integers|invalid explicitly-specified argument for template parameter 'Axes'
// error(g++): sum: needs axes of the operand and numbers: cast<float>\(x\)
// max-lines: 21
#include <weft/ops/boolean_mask.hpp>  // whose overloads clang counts up, too
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = sum<1.0>(x);
#else
  auto y = sum<1>(x);
#endif
}

// As in Python: the approximation is an argument.
// error: takes one value: gelu\(x\); gelu_tanh\(x\) is the approximation
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto z = gelu(x, true);
#else
  auto z = gelu_tanh(x);
#endif
}

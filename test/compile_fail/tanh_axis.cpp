// An axis in the brackets of an elementwise function.
// error: arguments_are_not_taken
// error: it takes tensors or nodes of float or double, no axes, types or options: exp\(x\), pow\(x,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = tanh<1>(t);
#else
  auto y = tanh(t);
#endif
}

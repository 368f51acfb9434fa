// Two arguments to relu.
// error: arguments_are_not_taken
// error: it takes tensors or nodes of float or double, no axes, types or options: exp\(x\), pow\(x,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = relu(t, 0.1f);
#else
  auto y = relu(t);
#endif
}

// exp in an element type.
// error: arguments_are_not_taken
// error: it takes tensors or nodes of float or double, no axes, types or options:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = exp<double>(t);
#else
  auto y = exp(cast<double>(t));
#endif
}

// pow with one argument.
// error: arguments_are_not_taken
// error: it takes tensors or nodes of float or double, no axes, types or options: exp\(x\), pow\(x,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = pow(x);
#else
  auto y = pow(x, 2.0f);
#endif
}

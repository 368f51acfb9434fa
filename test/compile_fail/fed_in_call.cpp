// An integer is fed to a placeholder of float, in the call of a run.
// error: fed_number_differs
// error: int
// error: float
// error: with: the value is not a tensor, tensor_view or number of the node
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto y = s.eval(x * x, with(x, 2));
#else
  auto y = s.eval(x * x, with(x, 2.0f));
#endif
  static_cast<void>(y);
}

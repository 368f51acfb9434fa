// An integer behind a tensor is taken for an axis, a fraction or a number before it is not.
// error: axis_is_not_a_template_argument
// error: <int>
// error: max: axes are template arguments: max<1>\(x\); maximum\(x
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = max(x, 0);
#else
  auto y = maximum(x, 0) + max(x, 0.f) + max(0, x) + min(1.5, x);
#endif
}

// The larger of two by max.
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
  auto y = maximum(x, 0);
#endif
}

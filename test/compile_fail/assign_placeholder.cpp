// A placeholder is assigned to.
// error: assigned_value_is_not_a_variable
// error: dims<3>
// error: assign: only a variable is written: assign\(w, value\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto w = variable<float, dims<3>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto a = assign(x, x * 2);
#else
  auto a = assign(w, x * 2);
#endif
}

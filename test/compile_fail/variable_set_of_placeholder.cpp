// A placeholder is set.
// error: value_is_not_of_a_variable
// error: set: it writes a variable: set\(w, value\); a placeholder is fed: with\(x, value\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  s.set(x, tensor<float, dims<4, 3>>());
#else
  auto y = s.eval(x, with(x, tensor<float, dims<4, 3>>()));
#endif
}

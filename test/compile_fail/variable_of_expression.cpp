// An expression is written to the handle of a variable, where a step would write to the variable.
// error: value_is_not_a_variable
// error: dims<3>
// error: a variable is written by assign\(variable, value\), in a step
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  w = w + 1;
#else
  assign(w, w + 1);
#endif
}

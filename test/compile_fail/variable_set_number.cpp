// A number is assigned to the handle of a variable.
// error: value_is_not_a_variable
// error: <float>
// error: a variable is written by assign\(variable, value\), in a step
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  w = 0.5f;
#else
  auto a = assign(w, tensor<float>(0.5f));
#endif
}

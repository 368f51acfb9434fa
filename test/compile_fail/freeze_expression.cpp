// The frozen value is not a variable.
// error: frozen_value_is_not_a_variable
// error: freeze: it takes variables, one by one
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  freeze(w * 2.0f);
#else
  freeze(w);
#endif
}

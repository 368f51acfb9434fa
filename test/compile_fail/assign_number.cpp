// A number is assigned to a variable.
// error: assigned_extents_differ
// error: dims<3>
// error: assign: a number is assigned to a scalar that holds it
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto a = assign(w, 0.5f);
#else
  auto a = assign(w, tensor<float, dims<3>>{0.5f, 0.5f, 0.5f});
#endif
}

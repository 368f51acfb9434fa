// A gradient with respect to integers.
// error: gradient_of_non_floating
// error: int
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<int, dims<3>>(g, "x");
#else
  auto x = placeholder<float, dims<3>>(g, "x");
#endif
  auto y = sum(cast<float>(x) * 2);
  auto [dx] = gradients(y, x);
}

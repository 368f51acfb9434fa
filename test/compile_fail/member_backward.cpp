// A member that PyTorch has.
// error: no member named 'backward'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto loss = sum(x);
#ifdef WEFT_SHOULD_FAIL
  loss.backward();
#else
  auto [dx] = gradients(loss, x);
#endif
}

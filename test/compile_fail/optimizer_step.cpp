// step() of an optimizer, as in PyTorch.
// error(clang++): no member named 'step' in 'weft::adam'
// error(g++): 'struct weft::adam' has no member named 'step'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  adam optimizer;
#ifdef WEFT_SHOULD_FAIL
  optimizer.step();
#else
  auto train = optimizer.minimize(w * w);
#endif
}

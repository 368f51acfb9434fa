// Gradients with respect to nothing.
// error: gradients: the xs follow y, one by one: auto \[dw, db\] = gradients\(loss, w, b\);
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto loss = w * w;
#ifdef WEFT_SHOULD_FAIL
  auto dw = gradients(loss);
#else
  auto [dw] = gradients(loss, w);
#endif
}

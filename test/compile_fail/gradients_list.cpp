// The xs of gradients in braces.
// error: y, and the xs one by one: auto \[dw, db\] = gradients\(loss, w, b\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto b = variable<float>(g, "b");
#ifdef WEFT_SHOULD_FAIL
  auto slopes = gradients(w * b, {w, b});
#else
  auto slopes = gradients(w * b, w, b);
#endif
}

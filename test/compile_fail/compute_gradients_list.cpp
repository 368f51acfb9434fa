// Variables in braces.
// error(clang++): no matching function for call to 'compute_gradients'
// error(g++): too many arguments to function 'auto weft::compute_gradients\(const Expr&, const V& \.\.\.\) \[with
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto v = variable<float>(g, "v");
#ifdef WEFT_SHOULD_FAIL
  auto grads = compute_gradients(w * v, {w, v});
#else
  auto grads = compute_gradients(w * v, w, v);
#endif
}

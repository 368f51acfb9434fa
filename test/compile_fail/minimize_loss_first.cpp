// The loss before the optimizer.
// error: takes an optimizer first: minimize\(adam\{\}, loss\), or adam\{\}\.minimize\(loss\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto train = minimize(w * w, adam{});
#else
  auto train = minimize(adam{}, w * w);
#endif
}

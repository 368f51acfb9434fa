// minimize() without an optimizer.
// error: takes an optimizer first: minimize\(adam\{\}, loss\), or adam\{\}\.minimize\(loss\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto loss = w * w;
#ifdef WEFT_SHOULD_FAIL
  auto train = minimize(loss);
#else
  auto train = minimize(gradient_descent{}, loss);
#endif
}

// A run of a node.
// error: arguments_are_not_fetch_and_with
// error: run: it takes a list and pairs: run\(fetch\(loss, train\), with\(images, x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
  auto w = variable<float>(g, "w");
  auto train = gradient_descent{}.minimize(w * x);
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  s.run(train, with(x, 1.0f));
#else
  s.run(fetch(train), with(x, 1.0f));
#endif
}

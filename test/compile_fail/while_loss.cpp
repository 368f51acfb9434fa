// A loop while a loss is large.
// error: value_needs_a_session
// error: not a number: session\.eval\(x\) computes a graph's value; sum\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto loss = w * w;
  auto train = gradient_descent{}.minimize(loss);
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  while (loss > 0.1f) s.run(fetch(train));
#else
  while (s.eval(loss) > 0.1f) s.run(fetch(train));
#endif
}

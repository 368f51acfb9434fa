// A tensor is fetched from a session.
// error: fetched_value_not_in_a_graph
// error: a tensor needs no session
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  tensor<float, dims<3>> x{1, 2, 3};
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  s.run(fetch(x));
#else
  s.run(fetch(constant(g, x)));
#endif
}

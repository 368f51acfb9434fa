// A graph's value is added to a tensor in place.
// error: value_needs_a_session
// error: operator\+=: the elements that it writes keep their extents and type
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
  session s(g);
  tensor<float, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  x += w;
#else
  x += s.eval(w);
#endif
}

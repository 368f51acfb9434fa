#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto h = relu(x);
#else
  auto h = let(relu(x));
#endif
  h = tanh(h);
}
// error: expression_is_assigned<weft::expression<weft::formula::tanh
// error: auto h = let\(relu\(x\)\) is a node

// A node is an index.
// error: indices_do_not_fit
// error: dims<2, 3>
// error: tensor: an element has one integer for each axis
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
  graph g;
  auto i = placeholder<int>(g, "i");
#ifdef WEFT_SHOULD_FAIL
  float y = x(i, 0);
#else
  float y = x(1, 0);
#endif
}

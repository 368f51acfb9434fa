// An element is written through a view that reads only.
// error(g\+\+): assignment of read-only location
// error(clang\+\+): function 'operator\(\)<int, int>' which returns const-qualified type
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  const tensor_view<const float, dims<2, 3>> y(x);
#else
  const tensor_view<float, dims<2, 3>> y(x);
#endif
  y(0, 0) = 1;
}

// Extents as an argument, and no dims.
// error: broadcast_to<dims<2, 3>>\(x\), broadcast_to<dims<dyn<"n">, 3>>\(x, shape\(2, 3\)\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = broadcast_to(x, shape(2, 3));
#else
  auto y = broadcast_to<dims<2, 3>>(x);
#endif
}

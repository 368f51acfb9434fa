// A broadcast of a tensor to an extent that its own do not tell.
// error: broadcast_to: over tensors say how large extents are: broadcast_to<dims<\.\.\.>>\(x, shape\(2, 3\)\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = broadcast_to<dims<dyn<"b">, 3>>(x);
#else
  auto y = broadcast_to<dims<dyn<"b">, 3>>(x, shape(2, 3));
#endif
}

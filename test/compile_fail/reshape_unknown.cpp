// A reshape of a tensor to extents that its own do not tell.
// error: reshaped_extents_are_unknown
// error: reshape: .*over tensors .*reshape<dims<\.\.\.>>\(x, shape\(2, 3\)\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<dyn<"b"> * dyn<"t">>> x(shape(6));
#ifdef WEFT_SHOULD_FAIL
  auto y = reshape<dims<dyn<"b">, dyn<"t">>>(x);
#else
  auto y = reshape<dims<dyn<"b">, dyn<"t">>>(x, shape(2, 3));
#endif
}

// A lambda is an elementwise operation.
// error: operation_is_not_a_type
// error: elementwise: the operation is a type with apply and gradient:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = elementwise([](float v) { return v * v; }, x);
#else
  auto y = square(x);
#endif
}

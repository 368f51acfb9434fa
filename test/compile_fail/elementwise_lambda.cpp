// A lambda as an elementwise function.
// error: operation_is_not_a_type
// error: elementwise: the operation is a type with apply and gradient: elementwise<softplus>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = elementwise<[](auto v) { return v * v + 1; }>(t);
#else
  auto y = square(t) + 1.0f;
#endif
}

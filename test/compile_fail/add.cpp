// The extents of two operands do not broadcast.
// error: elementwise_shapes_differ
// error: operator\+
// error: 784.*100
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 784>> a;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<100>> b;
#else
  tensor<float, dims<784>> b;
#endif
  auto c = a + b;
}

// The inner extents of a matrix product with a transposed operand differ.
// error: matmul_shapes_differ
// error: dims<784, 10>
// error: dims<100, 784>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<100, 784>> a;
  tensor<float, dims<784, 10>> b;
#ifdef WEFT_SHOULD_FAIL
  auto c = matmul<transpose_of::b>(a, b);
#else
  auto c = matmul<transpose_of::none>(a, b);
#endif
}

// A product of matrices by *.
// error: elementwise_shapes_differ
// error: dims<3, 4>
// error: dims<4, 5>
// error: operator\*: needs extents that broadcast and numbers of one type:
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> a;
  tensor<float, dims<4, 5>> b;
#ifdef WEFT_SHOULD_FAIL
  auto y = a * b;
#else
  auto y = matmul(a, b);
#endif
}

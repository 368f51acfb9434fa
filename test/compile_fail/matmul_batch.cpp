// Products of many matrices: as many of the one as of the other.
// error: matmul_shapes_differ
// error: dims<8, 3, 4>
// error: dims<6, 4, 5>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<8, 3, 4>> a;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<6, 4, 5>> b;
#else
  tensor<float, dims<8, 4, 5>> b;
#endif
  auto c = matmul(a, b);
}

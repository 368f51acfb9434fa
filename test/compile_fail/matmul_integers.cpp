// A matrix product of integers.
// error: matmul_undefined_for
// error: int
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  using element = std::int32_t;
#else
  using element = bfloat16;
#endif
  tensor<element, dims<3, 4>> a;
  tensor<element, dims<4, 5>> b;
  auto product = matmul(a, b);
}

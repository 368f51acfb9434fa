// A gradient of a value that is kept in a storage type.
// error: not_floating
// error: bfloat16
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<bfloat16, dims<3, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto y = matmul(x, x);
#else
  auto y = cast<float>(matmul(x, x));
#endif
  auto [dx] = gradients(y, x);
}

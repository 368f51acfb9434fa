// An identity of one extent.
// error: identity_is_not_a_matrix
// error: eye<T, dims<rows, columns>>\(\): two extents
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto x = eye<float, dims<3>>();
#else
  auto x = eye<float, dims<3, 3>>();
#endif
}

// Two numbers where extents are a template argument.
// error: tensor<T, dims<2, 3>>\{1, 2, 3, 4, 5, 6\}, or \{shape\(2, 3\)\} for zeros
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<2, 3>> t(2, 3);
#else
  tensor<float, dims<2, 3>> t;
#endif
}

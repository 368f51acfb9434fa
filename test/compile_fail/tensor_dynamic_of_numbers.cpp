// Two numbers in place of shape(2, 3).
// error: tensor<T, dims<2, 3>>\{1, 2, 3, 4, 5, 6\}, or \{shape\(2, 3\)\} for zeros
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<dyn<"n">, 3>> t(2, 3);
#else
  tensor<float, dims<dyn<"n">, 3>> t(shape(2, 3));
#endif
}

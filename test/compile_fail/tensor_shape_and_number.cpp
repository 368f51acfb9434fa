// One number for all elements.
// error: tensor<T, dims<2, 3>>\{1, 2, 3, 4, 5, 6\}, or \{shape\(2, 3\)\} for zeros
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<dyn<"n">>> t(shape(3), 1.0f);
#else
  tensor<float, dims<dyn<"n">>> t(shape(3), {1, 1, 1});
#endif
}

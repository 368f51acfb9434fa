// A view of a temporary.
// error: view_of_a_temporary
// error: tensor_view: made of a pointer and shape\(\.\.\.\), or of a named tensor, vector, span or row-major matrix
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  tensor_view<const float, dims<3>> y(eval(x + 1));
#else
  auto z = eval(x + 1);
  tensor_view<const float, dims<3>> y(z);
#endif
}

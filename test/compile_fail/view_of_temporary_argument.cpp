// A view of a temporary, as an argument.
// error: view_of_a_temporary
// error: tensor_view: the tensor ends before the view: give it a name
#include <weft/weft.hpp>
using namespace weft;

inline float first(tensor_view<const float, dims<3>> x) { return x(0); }

int main() {
  tensor<float, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  first(eval(x + 1));
#else
  auto z = eval(x + 1);
  first(z);
#endif
}

// A view is made of a std::vector.
// error: view_is_not_made_of
// error: std::vector<float
// error: tensor_view: it is made of a pointer and shape\(\.\.\.\)
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  std::vector<float> values(3);
#ifdef WEFT_SHOULD_FAIL
  tensor_view<const float, dims<3>> x(values);
#else
  tensor_view<const float, dims<3>> x(values.data());
#endif
}

// A tensor is made of a std::vector.
// error: tensor_is_not_made_of
// error: std::vector<float
// error: tensor: write values in braces, shape\(\.\.\.\) for zeros, or tensor_view<T
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  std::vector<float> values(3);
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<3>> x(values);
#else
  tensor<float, dims<3>> x(tensor_view<float, dims<3>>(values.data()));
#endif
}

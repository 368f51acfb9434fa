// A view writes a vector that is const.
// error: elements_are_read_only
// error: std::vector<float
// error: tensor_view: made of a pointer and shape\(\.\.\.\), or of a named tensor, vector, span or row-major matrix
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  const std::vector<float> values(3);
#ifdef WEFT_SHOULD_FAIL
  tensor_view<float, dims<3>> x(values);
#else
  tensor_view<const float, dims<3>> x(values);
#endif
}

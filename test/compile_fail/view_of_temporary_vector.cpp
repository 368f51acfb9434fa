// A view of a temporary vector.
// error: view_of_a_temporary
// error: tensor_view: made of a pointer and shape\(\.\.\.\), or of a named tensor, vector, span or row-major matrix
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor_view<const float, dims<3>> x(std::vector<float>(3));
#else
  std::vector<float> values(3);
  tensor_view<const float, dims<3>> x(values);
#endif
}

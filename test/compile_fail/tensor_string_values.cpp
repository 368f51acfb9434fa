// Values of text.
// error: tensor_is_not_made_of
// error: tensor: elements are numbers, not text: \{1, 2, 3\}
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<2>> x{"1", "2"};
#else
  tensor<float, dims<2>> x{1, 2};
#endif
}

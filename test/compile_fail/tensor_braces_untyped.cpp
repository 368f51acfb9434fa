// Values in braces without a type.
// error: tensor<.*dims<2, 3>>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor t{1.0f, 2.0f};
#else
  tensor<float, dims<2> > t{1.0f, 2.0f};
#endif
}

// A tensor without a type, made of two numbers.
// error: a tensor says its type and its extents: tensor<float, dims<2, 3>>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor t(2, 3);
#else
  tensor<float, dims<2, 3> > t;
#endif
}

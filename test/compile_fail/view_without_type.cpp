// A view without its type.
// error: extents_are_not_valid
// error: tensor_view<T, dims<\.\.\.>>: at most 8 integers, none negative
#include <weft/weft.hpp>
using namespace weft;

int main() {
  float values[3]{};
#ifdef WEFT_SHOULD_FAIL
  tensor_view x(values, shape(3));
#else
  tensor_view<float, dims<3> > x(values, shape(3));
#endif
}

// A view that reads only is written in place.
// error: elements_are_read_only
// error: operator\*=: the elements that it writes keep their extents and type
#include <weft/weft.hpp>
using namespace weft;

int main() {
  float values[3]{};
#ifdef WEFT_SHOULD_FAIL
  const tensor_view<const float, dims<3>> x(values);
#else
  const tensor_view<float, dims<3>> x(values);
#endif
  x *= 2;
}

// A view that reads only becomes one that writes.
// error: elements_are_read_only
// error: tensor_view<const float, (weft::)?dims<3>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  float values[3]{};
  tensor_view<const float, dims<3>> x(values);
#ifdef WEFT_SHOULD_FAIL
  tensor_view<float, dims<3>> y(x);
#else
  tensor_view<const float, dims<3>> y(x);
#endif
}

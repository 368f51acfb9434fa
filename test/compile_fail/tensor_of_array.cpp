// An array has fewer elements than the extents say.
// error: number_of_values_differs
// error: dims<2, 3>, ?5
#include <array>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  std::array<float, 5> values{};
#else
  std::array<float, 6> values{};
#endif
  tensor<float, dims<2, 3>> x(values);
}

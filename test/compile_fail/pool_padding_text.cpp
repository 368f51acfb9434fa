// A padding as text.
// error: arguments_are_not_taken
// error: max_pool2d: the padding is padding::same or padding::valid: max_pool2d<3, 2,
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto im = placeholder<float, dims<8, 28, 28, 1>>(g, "im");
#ifdef WEFT_SHOULD_FAIL
  auto y = max_pool2d<2, 2, "SAME">(im);
#else
  auto y = max_pool2d<2, 2, padding::same>(im);
#endif
}

// Paddings in braces.
// error: an axis, what is before and behind: pad<1, 0, 3>\(x\), one axis after another
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = pad(x, {{1, 1}, {0, 0}});
#else
  auto y = pad<0, 1, 1>(x);
#endif
}

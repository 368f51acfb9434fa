// As in Python: the axis is an argument.
// error: axes are template arguments: all<1>\(x > 0\)
#include <weft/ops/reductions.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = all(x > 0, 1);
#else
  auto y = all<1>(x > 0);
#endif
}

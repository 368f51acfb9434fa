// A conversion by the language's cast.
// error: value_is_not_one_number
// error: dims<3>
// error: not one number, as x\(i, \.\.\.\), sum\(x\), mean\(x\) are: cast<T>\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<int, dims<3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = (float)x;
#else
  auto y = cast<float>(x);
#endif
}

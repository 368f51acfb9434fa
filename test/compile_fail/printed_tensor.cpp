// A tensor is printed.
// error: value_is_not_one_number
// error: dims<2, 7>
// error: not one number, as x\(i, \.\.\.\), sum\(x\), mean\(x\) are: cast<T>\(x\)
#include <iostream>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 7>> x;
#ifdef WEFT_SHOULD_FAIL
  std::cout << x;
#else
  for (float v : x) std::cout << v;
#endif
}

// Tensors are ordered, in a condition.
// error: value_is_not_one_number
// error: dims<3>
// error: not a number: session\.eval\(x\) computes a graph's value; sum\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> a, b;
#ifdef WEFT_SHOULD_FAIL
  if (a < b) return 1;
#else
  if (a == b) return 1;
#endif
}

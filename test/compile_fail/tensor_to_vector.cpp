// A std::vector is initialized by a tensor.
// error: std::vector<T>\(t\.begin\(\), t\.end\(\)\)
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3>> t;
#ifdef WEFT_SHOULD_FAIL
  std::vector<float> v = t;
#else
  std::vector<float> v(t.begin(), t.end());
#endif
}

// A std::vector is initialized by a fetched tensor.
// error: std::vector<T>\(t\.begin\(\), t\.end\(\)\)
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto b = variable<float, dims<3>>(g, "b");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  std::vector<float> v = s.eval(b);
#else
  auto t = s.eval(b);
  std::vector<float> v(t.begin(), t.end());
#endif
}

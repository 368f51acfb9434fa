// A loop over the rows of a node.
// error: value_is_not_a_range
// error: dims<3>
// error: a loop runs over elements of a tensor: session\.eval\(x\), eval\(x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = variable<float, dims<3>>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  for (auto row : x) static_cast<void>(row);
#else
  for (auto row : s.eval(x)) static_cast<void>(row);
#endif
}

// let of tensors.
// error: value_not_in_a_graph
// error: dims<2, 3>
// error: let: it makes a node in a graph; eval\(x\) computes with tensors
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = let(x * 2);
#else
  auto y = eval(x * 2);
#endif
}

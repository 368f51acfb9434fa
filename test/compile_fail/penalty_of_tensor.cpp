// A penalty of a tensor, which nothing trains.
// error: penalty_of_non_node
// error: l2_penalty: it takes variables of float or double, one by one
#include <weft/train/decay.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
  tensor<float, dims<3>> x{1, 2, 3};
#ifdef WEFT_SHOULD_FAIL
  auto loss = l2_penalty(x);
#else
  auto loss = l2_penalty(w - x);
#endif
}

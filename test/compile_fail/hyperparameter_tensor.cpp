// A learning rate that is a tensor.
// error: value_not_in_a_graph
// error: an optimizer's hyperparameter is a number, or a scalar of the graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
  tensor<float> rate = 0.5f;
#ifdef WEFT_SHOULD_FAIL
  auto train = momentum{.learning_rate = rate}.minimize(sum(w));
#else
  auto train = momentum{.learning_rate = rate()}.minimize(sum(w));
#endif
}

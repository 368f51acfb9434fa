// A learning rate as text.
// error: hyperparameter_is_not_a_number
// error: an optimizer's hyperparameter is a number, or a scalar of the graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w");
  auto loss = mean(square(matmul(x, w)));
#ifdef WEFT_SHOULD_FAIL
  auto train = adam{.learning_rate = "0.1"}.minimize(loss);
#else
  auto train = adam{.learning_rate = 0.1f}.minimize(loss);
#endif
}

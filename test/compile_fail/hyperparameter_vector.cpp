// A learning rate for each element.
// error: hyperparameter_is_not_scalar<weft::dims<3>
// error: an optimizer's hyperparameter is a number, or a scalar of the graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
  auto rates = placeholder<float, dims<3>>(g, "rates");
  auto rate = placeholder<float>(g, "rate");
#ifdef WEFT_SHOULD_FAIL
  auto train = momentum{.learning_rate = rates}.minimize(sum(w));
#else
  auto train = momentum{.learning_rate = rate * 0.5f}.minimize(sum(w));
#endif
}

// The average of what is no variable.
// error: averaged_value_is_not_a_variable
// error: exponential_moving_average: the training comes first, the variables, of float or double, follow one by one
#include <weft/train/moving_average.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto loss = let(w * w);
  auto train = adam{}.minimize(loss);
#ifdef WEFT_SHOULD_FAIL
  auto averages = exponential_moving_average{}.apply(train, loss);
#else
  auto averages = exponential_moving_average{}.apply(train, w);
#endif
}

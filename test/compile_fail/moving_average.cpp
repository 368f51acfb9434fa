// Averages of variables, as TensorFlow has them, without the training.
// error: average_does_not_name_the_training
// error: exponential_moving_average: the training comes first, the variables, of float or double, follow one by one
#include <weft/train/moving_average.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = adam{}.minimize(w * w);
#ifdef WEFT_SHOULD_FAIL
  auto averages = exponential_moving_average{.decay = 0.99}.apply(w);
#else
  auto averages = exponential_moving_average{.decay = 0.99}.apply(train, w);
#endif
}

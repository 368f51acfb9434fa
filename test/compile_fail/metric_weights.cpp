// Weights that are not one for each value.
// error: weights_do_not_fit_values
// error: update: takes a tensor, a number or what a step has fetched
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  metrics::mean cost;
  tensor<float, dims<4>> losses;
#ifdef WEFT_SHOULD_FAIL
  cost.update(losses, tensor<float, dims<3>>());
#else
  cost.update(losses, tensor<float, dims<4>>());
#endif
}

// An error of numbers of other extents.
// error: metric_extents_differ
// error: update: takes labels and predictions of equal extents
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  metrics::mean_squared_error error;
  tensor<float, dims<4, 1>> predictions;
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<4>> labels;
#else
  tensor<float, dims<4, 1>> labels;
#endif
  error.update(labels, predictions);
}

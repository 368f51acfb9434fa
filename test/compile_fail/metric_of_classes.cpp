// The k largest scores, of predictions that are classes.
// error: predictions_do_not_fit_labels
// error: update: takes labels \[...\] of integers; predictions are scores \[..., classes\]
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  metrics::top_k_accuracy top(5);
  tensor<int, dims<4>> labels;
#ifdef WEFT_SHOULD_FAIL
  tensor<int, dims<4>> predictions;
#else
  tensor<float, dims<4, 10>> predictions;
#endif
  top.update(labels, predictions);
}

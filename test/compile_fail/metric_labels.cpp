// Predictions of other extents than the labels.
// error: predictions_do_not_fit_labels
// error: <dims<3>, (weft::)?dims<4, 10>>|dims<3>, weft::dims<4, 10>
// error: update: takes labels \[...\] of integers; predictions are integers \[...\] or scores \[..., classes\]
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  metrics::accuracy accuracy;
  tensor<float, dims<4, 10>> logits;
#ifdef WEFT_SHOULD_FAIL
  tensor<int, dims<3>> labels;
#else
  tensor<int, dims<4>> labels;
#endif
  accuracy.update(labels, logits);
}

// Probabilities in place of classes.
// error: predictions_are_not_classes<float>
// error: update: takes labels \[...\] of integers
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4>> probabilities;
  tensor<int, dims<4>> labels;
#ifdef WEFT_SHOULD_FAIL
  metrics::accuracy accuracy;
  accuracy.update(labels, probabilities);
#else
  metrics::binary_counts counts;
  counts.update(labels, probabilities);
#endif
}

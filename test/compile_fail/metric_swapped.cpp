// Predictions before labels.
// error: labels_are_not_classes
// error: <float>
// error: update: takes labels \[...\] of integers
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  metrics::accuracy accuracy;
  tensor<float, dims<4, 10>> logits;
  tensor<int, dims<4>> labels;
#ifdef WEFT_SHOULD_FAIL
  accuracy.update(logits, labels);
#else
  accuracy.update(labels, logits);
#endif
}

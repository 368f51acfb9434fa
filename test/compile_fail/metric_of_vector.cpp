// A std::vector in place of a tensor.
// error: metric_operand_is_not_a_tensor
// error: update: takes labels and predictions of equal extents, tensors
#include <vector>
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  metrics::mean_absolute_error error;
  std::vector<float> labels(4), predictions(4);
#ifdef WEFT_SHOULD_FAIL
  error.update(labels, predictions);
#else
  using view = tensor_view<const float, dims<4> >;
  error.update(view(labels.data()), view(predictions.data()));
#endif
}

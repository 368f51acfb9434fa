// A value of a graph in place of what a step has fetched of it.
// error: value_needs_a_session
// error: update: takes labels \[...\] of integers
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto logits = placeholder<float, dims<4, 10>>(g, "logits");
  session s(g);
  metrics::accuracy accuracy;
  tensor<int, dims<4>> labels;
  tensor<float, dims<4, 10>> x;
#ifdef WEFT_SHOULD_FAIL
  accuracy.update(labels, logits);
#else
  accuracy.update(labels, s.eval(logits, with(logits, x)));
#endif
}

// A tensor is summarized in a step.
// error: summarized_value_not_in_a_graph
// error: histogram_summary: it is of an expression in a graph
#include <weft/summary.hpp>
using namespace weft;

int main() {
  graph g;
  tensor<float, dims<3>> values;
  auto w = variable(g, "w", values);
#ifdef WEFT_SHOULD_FAIL
  auto s = histogram_summary("w", values);
#else
  auto s = histogram_summary("w", w);
#endif
}

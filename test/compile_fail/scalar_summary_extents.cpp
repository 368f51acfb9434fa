// The value that is summarized as a number has extents.
// error: summarized_value_is_not_a_scalar
// error: scalar_summary: it is of a scalar in a graph
#include <weft/summary.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float, dims<3>>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto s = scalar_summary("w", w);
#else
  auto s = scalar_summary("w", mean(w));
#endif
}

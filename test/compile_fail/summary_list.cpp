// Summaries in braces.
// error: one by one: merge_summaries\(scalar_summary\("loss", loss\), \.\.\.\)
#include <weft/summary.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto a = scalar_summary("a", w);
  auto b = scalar_summary("b", w);
#ifdef WEFT_SHOULD_FAIL
  auto y = merge_summaries({a, b});
#else
  auto y = merge_summaries(a, b);
#endif
}

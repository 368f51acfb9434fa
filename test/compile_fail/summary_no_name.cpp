// A summary without a tag.
// error: a tag and a value of the graph: histogram_summary\("weights", w\)
#include <weft/summary.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto y = histogram_summary(w);
#else
  auto y = histogram_summary("w", w);
#endif
}

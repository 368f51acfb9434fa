// The value before the tag.
// error: a tag and a scalar of the graph: scalar_summary\("loss", loss\)
#include <weft/summary.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto y = scalar_summary(w, "loss");
#else
  auto y = scalar_summary("loss", w);
#endif
}

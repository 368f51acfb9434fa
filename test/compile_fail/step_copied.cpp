// A copy of a prepared step.
// error: a step is prepared, or moved: it holds the buffers of its runs
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  session s(g);
  auto step = s.prepare(fetch(w));
#ifdef WEFT_SHOULD_FAIL
  auto other = step;
#else
  auto& other = step;
#endif
}

// A step is called with fewer values than it has feeds.
// error: number_of_fed_values_differs<1, 2>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x"), y = placeholder<float>(g, "y");
  session s{g};
  auto step = s.prepare(fetch(x + y), feed(x, y));
#ifdef WEFT_SHOULD_FAIL
  auto z = step(1.0f);
#else
  auto z = step(1.0f, 2.0f);
#endif
}

// A step is prepared of a node instead of a list of what it fetches.
// error: arguments_are_not_fetch_and_feed
// error: dims<3>
// error: prepare: it takes two lists: prepare\(fetch\(loss, train\), feed\(images
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto loss = sum(x);
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto step = s.prepare(loss, feed(x));
#else
  auto step = s.prepare(fetch(loss), feed(x));
#endif
}

// A step is prepared with a placeholder that is not in a list.
// error: arguments_are_not_fetch_and_feed
// error: prepare: it takes two lists: prepare\(fetch\(loss, train\), feed\(images
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto step = s.prepare(fetch(x * 2), x);
#else
  auto step = s.prepare(fetch(x * 2), feed(x));
#endif
}

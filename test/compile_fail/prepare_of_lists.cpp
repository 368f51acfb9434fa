// Lists in braces, as in Python.
// error: arguments_are_not_fetch_and_feed
// error: prepare: it takes two lists: prepare\(fetch\(loss, train\), feed\(images
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto loss = sum(x);
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto step = s.prepare({loss, loss}, {x});
#else
  auto step = s.prepare(fetch(loss, loss), feed(x));
#endif
}

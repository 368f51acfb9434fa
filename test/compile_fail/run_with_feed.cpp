// A run with a list of placeholders in place of values.
// error: arguments_are_not_fetch_and_with
// error: run: it takes a list and pairs: run\(fetch\(loss, train\), with\(images, x\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto y = s.run(fetch(x * 2), feed(x));
#else
  auto y = s.run(fetch(x * 2), with(x, 1.0f));
#endif
}

// An evaluation with a value that says no placeholder.
// error: arguments_are_not_fetch_and_with
// error: eval: values are given in pairs: eval\(loss, with\(images, x\), with\(labels
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  auto y = s.eval(x * 2, 1.0f);
#else
  auto y = s.eval(x * 2, with(x, 1.0f));
#endif
}

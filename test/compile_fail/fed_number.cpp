// A number is fed to a placeholder that is no scalar.
// error: fed_number_differs
// error: 784
// error: a step takes a tensor, tensor_view
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<784>>(g, "x");
#else
  auto x = placeholder<float>(g, "x");
#endif
  session s{g};
  auto step = s.prepare(fetch(sum(x)), feed(x));
  auto y = step(1.0f);
}

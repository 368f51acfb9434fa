// A tensor of another element type is fed.
// error: fed_value_differs
// error: int
// error: float
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  tensor<int, dims<3>> value;
#else
  tensor<float, dims<3>> value;
#endif
  auto step = s.prepare(fetch(sum(x)), feed(x));
  auto y = step(value);
}

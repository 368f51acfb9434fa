// A tensor of other extents is fed.
// error: fed_value_differs
// error: 784
// error: 100
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 784>>(g, "x");
  session s{g};
  auto step = s.prepare(fetch(sum(x)), feed(x));
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<5, 100>> batch;
#else
  tensor<float, dims<5, 784>> batch;
#endif
  auto y = step(batch);
}

// A step is called with too many values.
// error: number_of_fed_values_differs
// error: <2, 1>
// error: a step takes a tensor, tensor_view\(pointer
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  session s{g};
  auto step = s.prepare(fetch(sum(x)), feed(x));
  tensor<float, dims<1, 4>> value;
#ifdef WEFT_SHOULD_FAIL
  auto y = step(value, value);
#else
  auto y = step(value);
#endif
}

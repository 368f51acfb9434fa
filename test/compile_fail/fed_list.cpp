// Values in braces are fed.
// error: fed_value_is_not_a_tensor
// error: a step: values in braces are fed as a tensor: step\(tensor<T
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  session s{g};
  auto step = s.prepare(fetch(sum(x)), feed(x));
#ifdef WEFT_SHOULD_FAIL
  auto y = step({1, 2, 3, 4});
#else
  auto y = step(tensor<float, dims<1, 4>>{1, 2, 3, 4});
#endif
}

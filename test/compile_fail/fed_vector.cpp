// A std::vector is fed to a step.
// error: fed_value_is_not_a_tensor
// error: std::vector<float
// error: a step takes a tensor, tensor_view\(pointer
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  session s{g};
  auto step = s.prepare(fetch(sum(x)), feed(x));
  std::vector<float> values(8);
#ifdef WEFT_SHOULD_FAIL
  auto y = step(values);
#else
  auto y = step(tensor_view<const float, dims<dyn<"batch">, 4>>(values.data(), shape(2, 4)));
#endif
}

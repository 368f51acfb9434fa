// Gradients without variables.
// error: applied_value_is_not_a_gradient
// error: apply_gradients: it takes what compute_gradients\(\) returns, each gradient an expression
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w");
  auto loss = mean(square(matmul(x, w)));
#ifdef WEFT_SHOULD_FAIL
  auto train = adam{}.apply_gradients(gradients(loss, w));
#else
  auto train = adam{}.apply_gradients(compute_gradients(loss, w));
#endif
}

// minimize of nothing.
// error: minimized_value_is_not_a_node
// error: minimize: the loss must be a float or double scalar in a graph, use mean\(\) or sum\(\);
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w");
  auto loss = mean(square(matmul(x, w)));
#ifdef WEFT_SHOULD_FAIL
  auto train = gradient_descent{.learning_rate = 0.1f}.minimize();
#else
  auto train = gradient_descent{.learning_rate = 0.1f}.minimize(loss);
#endif
}

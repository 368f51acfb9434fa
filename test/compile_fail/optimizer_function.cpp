// An optimizer's formula calls a function that is not rounded alike everywhere.
// error: function_not_exact
// error: made of \+ - \* /, sqrt\(x\), abs\(x\), max\(x, y\), min\(x, y\) and comparisons
// error: optimizer_function\.cpp:15:
// max-lines: 12
#include <weft/weft.hpp>
using namespace weft;

struct exponential_descent {
  hyperparameter learning_rate = 0.1;
  static constexpr const char* name = "exponential_descent";
  template <class V>
  void update(V& variable, V gradient) const {
#ifdef WEFT_SHOULD_FAIL
    variable -= learning_rate * exp(gradient);
#else
    variable -= learning_rate * (1 + gradient + 0.5 * gradient * gradient);
#endif
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(exponential_descent{}, w * w);
}

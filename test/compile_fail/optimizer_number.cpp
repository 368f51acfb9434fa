// An optimizer's formula takes a hyperparameter from a number.
// error: number_has_no_type
// error: <float>
// error: hyperparameters and constants alone: V\(1\) - beta
// max-lines: 9
#include <weft/weft.hpp>
using namespace weft;

struct damped_descent {
  hyperparameter learning_rate = 0.1, damping = 0.5;
  static constexpr const char* name = "damped_descent";
  template <class V>
  void update(V& variable, V gradient) const {
#ifdef WEFT_SHOULD_FAIL
    variable -= learning_rate * gradient * (1 - damping);
#else
    variable -= learning_rate * gradient * (V(1) - damping);
#endif
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(damped_descent{}, w * w);
}

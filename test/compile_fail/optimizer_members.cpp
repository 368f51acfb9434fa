// A hyperparameter of an optimizer is a double.
// error: optimizer_members_are_not_hyperparameters
// error: an optimizer's members are hyperparameters
#include <weft/weft.hpp>
using namespace weft;

struct own_descent {
#ifdef WEFT_SHOULD_FAIL
  double learning_rate = 0.1;
#else
  hyperparameter learning_rate = 0.1;
#endif
  static constexpr const char* name = "own_descent";
  template <class V>
  void update(V& variable, V gradient) const {
    variable -= V(learning_rate) * gradient;
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(own_descent{}, w * w);
}

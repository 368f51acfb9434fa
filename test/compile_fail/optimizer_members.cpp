// A member of an optimizer is a text.
// error: optimizer_members_are_not_hyperparameters
// error: an optimizer's members are hyperparameters
#include <weft/weft.hpp>
using namespace weft;

struct own_descent {
  hyperparameter learning_rate = 0.1;
#ifdef WEFT_SHOULD_FAIL
  const char* sign = "minus";
#else
  bool sign = true;
#endif
  static constexpr const char* name = "own_descent";
  template <class V>
  void update(V& variable, V gradient) const {
    if (sign) variable -= V(learning_rate) * gradient;
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(own_descent{}, w * w);
}

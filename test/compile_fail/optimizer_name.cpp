// An optimizer does not say its name.
// error: optimizer_has_no_name
// error: it has a name
#include <weft/weft.hpp>
using namespace weft;

struct nameless_descent {
  hyperparameter learning_rate = 0.1;
#ifndef WEFT_SHOULD_FAIL
  static constexpr const char* name = "nameless_descent";
#endif
  template <class V>
  void update(V& variable, V gradient) const {
    variable -= learning_rate * gradient;
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(nameless_descent{}, w * w);
}

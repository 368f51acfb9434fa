// An optimizer's update does not take the slot.
// error: optimizer_has_no_fitting_update
// error: its update takes the variable, its slots in their order and the gradient
#include <weft/weft.hpp>
using namespace weft;

struct own_momentum {
  hyperparameter learning_rate = 0.1;
  static constexpr const char* name = "own_momentum";
  constexpr auto slots() const { return slot_list{slot("velocity")}; }
#ifdef WEFT_SHOULD_FAIL
  template <class V>
  void update(V& variable, V gradient) const {
    variable -= V(learning_rate) * gradient;
  }
#else
  template <class V>
  void update(V& variable, V& velocity, V gradient) const {
    velocity += gradient;
    variable -= V(learning_rate) * velocity;
  }
#endif
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(own_momentum{}, w * w);
}

// An optimizer does not say how its scalar slot goes on.
// error: optimizer_has_no_fitting_advance
// error: its advance its scalar slots
#include <weft/weft.hpp>
using namespace weft;

struct own_decay {
  hyperparameter learning_rate = 0.1;
  static constexpr const char* name = "own_decay";
  constexpr auto slots() const { return slot_list{scalar_slot("steps")}; }
#ifndef WEFT_SHOULD_FAIL
  template <class V>
  void advance(V& steps) const {
    steps += V(1);
  }
#endif
  template <class V>
  void update(V& variable, V steps, V gradient) const {
    variable -= V(learning_rate) * gradient / steps;
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(own_decay{}, w * w);
}

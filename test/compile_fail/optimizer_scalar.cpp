// An optimizer's update writes a slot that is one number for all elements.
// error: optimizer_has_no_fitting_update
// error: its update takes the variable, its slots in their order and the gradient
#include <weft/weft.hpp>
using namespace weft;

#ifdef WEFT_SHOULD_FAIL
template <class V>
using steps_of = V&;
#else
template <class V>
using steps_of = V;
#endif

struct slower_and_slower {
  hyperparameter learning_rate = 0.1;
  static constexpr const char* name = "slower_and_slower";
  constexpr auto slots() const { return slot_list{scalar_slot("steps")}; }
  template <class V>
  void advance(V& steps) const {
    steps += V(1);
  }
  template <class V>
  void update(V& variable, steps_of<V> steps, V gradient) const {
    variable -= V(learning_rate) * gradient / steps;
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(slower_and_slower{}, w * w);
}

// An elementwise formula branches.
// error: formula_branches
// error: a formula has no `if` and no `\?:`: math::select\(condition, a, b\)
// max-lines: 9
#include <weft/weft.hpp>
using namespace weft;

struct branching_relu {
  static constexpr const char* name = "branching_relu";
  template <class V>
  static V apply(V x) {
#ifdef WEFT_SHOULD_FAIL
    if (x > V(0)) return x;
    return V(0);
#else
    return math::select(x > V(0), x, V(0));
#endif
  }
  template <class V>
  static V gradient(V g, V x, V) {
    return math::select(x > V(0), g, V(0));
  }
};

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto y = sum(elementwise<branching_relu>(x));
}

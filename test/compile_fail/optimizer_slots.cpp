// An optimizer has nine slots.
// error: optimizer_is_too_large
// error: at most 8 slots
#include <weft/weft.hpp>
using namespace weft;

struct many {
  static constexpr const char* name = "many";
#ifdef WEFT_SHOULD_FAIL
  constexpr auto slots() const {
    return slot_list{slot("a"), slot("b"), slot("c"), slot("d"), slot("e"), slot("f"), slot("g"), slot("h"), slot("i")};
  }
#else
  constexpr auto slots() const { return slot_list{slot("a"), slot("b")}; }
#endif
  template <class V, class... Rest>
  void update(V& variable, const Rest&... rest) const {
    ((variable -= rest), ...);
  }
};

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = minimize(many{}, w * w);
}

// The gradient of an elementwise operation takes no result.
// error: operation_without_gradient
// error: write gradient\(g, x, y\), or say
#include <weft/weft.hpp>
using namespace weft;

struct doubled {
  static constexpr const char* name = "doubled";
  template <class V>
  static V apply(V x) {
    return x + x;
  }
#ifdef WEFT_SHOULD_FAIL
  template <class V>
  static V gradient(V g, V) {
    return g + g;
  }
#else
  template <class V>
  static V gradient(V g, V, V) {
    return g + g;
  }
#endif
};

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto y = sum(elementwise<doubled>(x));
}

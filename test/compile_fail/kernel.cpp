// An operation that has no kernel for the device it is to run on.
// error: no_kernel_for_device
// error: only_elsewhere
// error: cpu
#include <weft/weft.hpp>
using namespace weft;

struct only_elsewhere {
  static constexpr const char* name = "only_elsewhere";
#ifdef WEFT_SHOULD_FAIL
  using devices = kinds<>;
#else
  using devices = kinds<cpu>;
#endif
  template <class V>
  static V apply(V x) {
    return x * x;
  }
  template <class V>
  static V gradient(V g, V x, V) {
    return g * (x + x);
  }
};

int main() {
  tensor<float, dims<3>> x;
  auto y = elementwise<only_elsewhere>(x);
}

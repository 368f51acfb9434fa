// An initializer that is not called.
// error: init::zeros\)
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto w = variable<float, dims<3>>(g, "w", init::zeros);
#else
  auto w = variable<float, dims<3>>(g, "w", init::zeros{});
#endif
}

// A step<R(A...)> names another result than the prepared step has.
// error: step_results_differ
// error: R is the fetched value, a std::tuple of several, or void
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  step<float(tensor<float, dims<3>>)> twice = s.prepare(fetch(x * 2.0f), feed(x));
#else
  step<tensor<float, dims<3>>(tensor<float, dims<3>>)> twice = s.prepare(fetch(x * 2.0f), feed(x));
#endif
}

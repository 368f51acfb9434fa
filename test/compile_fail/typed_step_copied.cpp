// A step<R(A...)> is made of a prepared step that stays where it is.
// error: step_is_not_moved
// error: std::move\(step\) if that has a name
#include <utility>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  session s{g};
  auto prepared = s.prepare(fetch(sum(x)), feed(x));
#ifdef WEFT_SHOULD_FAIL
  step<float(tensor<float, dims<3>>)> total = prepared;
#else
  step<float(tensor<float, dims<3>>)> total = std::move(prepared);
#endif
}

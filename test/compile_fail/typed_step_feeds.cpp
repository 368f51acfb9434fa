// A step<R(A...)> names other feeds than the prepared step has.
// error: number_of_fed_values_differs<0, 1>
// error: a step takes a tensor, tensor_view\(pointer, shape\(...\)\) or number for each feed
// max-lines: 9
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  step<float()> total = s.prepare(fetch(sum(x)), feed(x));
#else
  step<float(tensor<float, dims<3>>)> total = s.prepare(fetch(sum(x)), feed(x));
#endif
}

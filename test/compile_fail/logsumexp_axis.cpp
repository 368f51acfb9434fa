// An axis that is not there.
// error: axis_out_of_range
// error: logsumexp: needs axes of the operand
#include <weft/ops/reductions.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = logsumexp<2>(x);
#else
  auto y = logsumexp<1>(x);
#endif
}

// An axis that is not there.
// error: argmin: there is no such axis
#include <weft/ops/reductions.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = argmin<2>(x);
#else
  auto y = argmin<1>(x);
#endif
}

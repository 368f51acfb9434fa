// A sort along an axis that is not there.
// error: axis_out_of_range
// error: dims<3, 4>
// error: -3
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = sort<-3>(x);
#else
  auto y = sort<-2>(x);
#endif
}

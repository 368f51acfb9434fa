// More elements are wanted than the last axis has.
// error: last_axis_is_shorter
// error: dims<3, 4>
// error: 5
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 4>> x;
#ifdef WEFT_SHOULD_FAIL
  auto top = top_k<5>(x);
#else
  auto top = top_k<4>(x);
#endif
}

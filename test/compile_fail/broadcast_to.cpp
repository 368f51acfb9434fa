// A broadcast to another extent than the operand's.
// error: extents_do_not_broadcast_to
// error: dims<2, 3>
// error: dims<2, 6>
// error: broadcast_to: needs extents, dims<\.\.\.>, each the operand's or one where it has 1
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = broadcast_to<dims<2, 6>>(x);
#else
  auto y = broadcast_to<dims<4, 2, 3>>(x);
#endif
}

// An extent of -1 in a reshape.
// error: extents_are_not_valid
// error: dims<-1, 2>
// error: reshape: needs extents, dims<\.\.\.>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = reshape<dims<-1, 2>>(x);
#else
  auto y = reshape<dims<3, 2>>(x);
#endif
}

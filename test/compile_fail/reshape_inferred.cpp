// An extent of -1 that would leave a rest.
// error: reshape_changes_elements
// error: dims<2, 3>
// error: dims<-1, 4>
// error: reshape: needs extents, dims<\.\.\.>, of as many elements, at most one of them -1
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = reshape<dims<-1, 4>>(x);
#else
  auto y = reshape<dims<-1, 3>>(x);
#endif
}

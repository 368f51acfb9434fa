// Two extents of -1 in a reshape.
// error: extents_are_not_valid
// error: dims<-1, -1>
// error: reshape: needs extents, dims<\.\.\.>, of as many elements, at most one of them -1
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = reshape<dims<-1, -1>>(x);
#else
  auto y = reshape<dims<-1, 2>>(x);
#endif
}

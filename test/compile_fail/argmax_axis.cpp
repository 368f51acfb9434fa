// The same of an index.
// error: axis_out_of_range
// error: dims<3, 784>
// error: -3
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 784>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = argmax<-3>(x);
#else
  auto y = argmax<-2>(x);
#endif
}

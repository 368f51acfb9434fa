// sort without its header.
// error: 'sort'
// alone
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = sort(x);
#else
  auto y = x;
#endif
}

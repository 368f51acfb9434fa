// cumsum without its header.
// error: 'cumsum'
// alone
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<2, 3>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = cumsum<1>(x);
#else
  auto y = x;
#endif
}

// A constant index beyond a constant extent.
// error: index_out_of_range
// error: dims<3, 784>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<3, 784>> x;
  const std::integral_constant<int, 3> row;
#ifdef WEFT_SHOULD_FAIL
  return x(row, 0) != 0;
#else
  return x(0, row) != 0;
#endif
}

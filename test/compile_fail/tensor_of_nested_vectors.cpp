// Vectors are nested less deep than the tensor has axes.
// error: nesting_differs
// error: dims<1, 2, 3>
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  std::vector<std::vector<float>> values{{1, 2, 3}, {4, 5, 6}};
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<1, 2, 3>> x(values);
#else
  tensor<float, dims<2, 3>> x(values);
#endif
}

// A tensor of integers is made of a vector of fractions.
// error: element_types_differ
// error: double, int
// error: tensor: made of values in braces, shape\(\.\.\.\) for zeros, a range of as many values
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  std::vector<double> values(3);
#ifdef WEFT_SHOULD_FAIL
  tensor<int, dims<3>> x(values);
#else
  tensor<float, dims<3>> x(values);
#endif
}

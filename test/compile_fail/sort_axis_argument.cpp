// An axis behind the value.
// error: arguments_are_not_taken
// error: sort: the axis is a template argument, the direction is one: sort<1>\(x,
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  tensor<float, dims<4, 3>> t;
#ifdef WEFT_SHOULD_FAIL
  auto y = sort(t, 1);
#else
  auto y = sort<1>(t);
#endif
}

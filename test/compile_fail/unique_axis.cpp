// An axis.
// error: arguments_are_not_taken
// error: unique: takes one value of one axis: unique\(reshape<dims<12>>\(x\)\)
#include <weft/ops/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto y = unique(tensor<int, dims<3>>{1, 2, 2}, 0);
#else
  auto y = unique(tensor<int, dims<3>>{1, 2, 2});
#endif
}

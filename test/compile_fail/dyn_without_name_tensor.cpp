// An extent known at run time without a name, in a tensor.
// error(g++): dyn<"name"> is an extent known at run time
// error(clang++): use of variable template 'dyn' requires template arguments
// alone
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  tensor<float, dims<dyn, 3>> t(shape(2, 3));
#else
  tensor<float, dims<dyn<"n">, 3>> t(shape(2, 3));
#endif
}

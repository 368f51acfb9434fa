// An extent known at run time without a name, in a placeholder.
// error(g++): placeholder: write placeholder<float, dims<dyn<.*batch.*>, 784>>
// error(clang++): use of variable template 'dyn' requires template arguments
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<dyn, 3>>(g, "x");
#else
  auto x = placeholder<float, dims<dyn<"batch">, 3>>(g, "x");
#endif
}

// An extent of -1 for one that is not known.
// error: extents_are_not_valid
// error: dims<-1, 784>
// error: placeholder<T, dims<\.\.\.>>: at most 8 integers, none negative
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto x = placeholder<float, dims<-1, 784>>(g, "x");
#else
  auto x = placeholder<float, dims<dyn<"batch">, 784>>(g, "x");
#endif
}

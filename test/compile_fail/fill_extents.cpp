// Zeros of a negative extent.
// error: extents_are_not_valid
// error: dims<-1, 3>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto y = zeros<float, dims<-1, 3>>(g);
#else
  auto y = zeros<float, dims<dyn<"b">, 3>>(g);
#endif
}

// The largest elements of a scalar, in a graph.
// error: axis_out_of_range
// error: top_k: needs rank 1 or more
#include <weft/ops/sort.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<5>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto top = top_k<1>(sum(x));
#else
  auto top = top_k<1>(x);
#endif
}

// The Q-values of the actions taken, as an index of each row: that is all pairs.
// error: each_row_meets_each_index
// error: gather: of all rows with all indices: batch_gather<1>\(x, indices\) takes one for each row
#include <weft/ops/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto q = placeholder<float, dims<dyn<"batch">, 4>>(g, "q");
  auto actions = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "actions");
#ifdef WEFT_SHOULD_FAIL
  auto taken = gather<1>(q, actions);
#else
  auto taken = batch_gather<1>(q, actions);
  auto pairs = gather<1, outer_indexing>(q, actions);
#endif
}

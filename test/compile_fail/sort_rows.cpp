// Rows of a tensor are sorted in place.
// error: view_is_moved
// error: would lose rows
#include <weft/weft.hpp>

#include <algorithm>
#include <vector>
using namespace weft;

int main() {
  tensor<int, dims<3, 2>> t{3, 30, 1, 10, 2, 20};
  std::vector<tensor_view<int, dims<2>>> rows{t[0], t[1], t[2]};
#ifdef WEFT_SHOULD_FAIL
  auto kept = std::move(rows[0]);
  rows[0] = std::move(rows[1]);
#else
  std::reverse(rows.begin(), rows.end());
  auto kept = t[0];
  kept = t[1];
  rows[0] = rows[1];
#endif
}

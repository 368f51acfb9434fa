// The branch of a residual block changes the extents.
// error: branch_changes_extents
// error: residual: the branch must keep the extents of its operand
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 64>>(g);
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::residual(nn::dense<32>())(x);
#else
  auto y = nn::residual(nn::dense<32>(), nn::dense<64>())(x);
#endif
}

// A name in place of a node.
// error: a scalar node, a name and what it does: nan_guard\(loss, "cost", on_nan::stops\)
#include <weft/train/hooks.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto hook = nan_guard("w");
#else
  auto hook = nan_guard(w);
#endif
}

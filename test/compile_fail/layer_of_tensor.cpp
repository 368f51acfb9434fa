// A tensor where a layer takes a node.
// error: value_not_in_a_graph
// error: dense: needs a node
#include <weft/nn.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  tensor<float, dims<3, 784>> x;
#ifdef WEFT_SHOULD_FAIL
  auto y = nn::dense<10>()(x);
#else
  auto y = nn::dense<10>()(constant(g, x));
#endif
}

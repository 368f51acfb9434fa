// A tensor is asked for its graph.
// error: value_has_no_graph<weft::tensor<float, weft::dims<3>
// error: a tensor lies in no graph
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  tensor<float, dims<3>> t{1, 2, 3};
#ifdef WEFT_SHOULD_FAIL
  auto w = variable<float, dims<3>>(graph_of(t), "w");
#else
  auto w = variable<float, dims<3>>(graph_of(x), "w");
#endif
}

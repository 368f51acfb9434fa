// A std::vector as first value.
// error: variable: write variable<float, dims<784, 10>>\(graph, \\?"name\\?", init::normal\{\.stddev = 0\.1\}\)
#include <vector>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto w = variable<float, dims<3>>(g, "w", std::vector<float>{1, 2, 3});
#else
  auto w = variable<float, dims<3>>(g, "w", tensor<float, dims<3>>{1, 2, 3});
#endif
}

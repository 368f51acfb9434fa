// A counter in a graph is incremented by ++.
// error: variable_node<long
// error(g++): no match for 'operator\+\+'
// error(clang++): cannot increment
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto steps = variable<std::int64_t>(g, "steps");
#ifdef WEFT_SHOULD_FAIL
  ++steps;
#else
  auto next = assign_add(steps, tensor<std::int64_t>(1));
#endif
}

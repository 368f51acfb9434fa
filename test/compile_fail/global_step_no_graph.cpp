// global_step() without a graph.
// error(clang++): no matching function for call to 'global_step'
// error(g++): too few arguments to function 'weft::variable_node<long int(, weft::dims<>, weft::cpu)?> weft::global_step\(graph&\)'
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto n = global_step();
#else
  auto n = global_step(g);
#endif
}

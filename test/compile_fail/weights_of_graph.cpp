// Weights of a graph.
// error(clang++): no matching function for call to 'save_weights'
// error(g++): use of deleted function 'weft::session::session\(const weft::graph&, \.\.\.\) \[with
#include <weft/checkpoint/weights.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  save_weights("a.safetensors", g);
#else
  save_weights("a.safetensors", s);
#endif
}

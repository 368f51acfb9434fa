// A saver of a graph, as in TensorFlow.
// error: saver_options: shards, max_to_keep, keep_every, background, timeout
#include <weft/checkpoint/saver.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  saver keeper(g);
#else
  saver keeper;
#endif
}

// An element of other extents, in a graph.
// error: assigned_extents_differ
// error: dims<4>
#include <weft/queue.hpp>
using namespace weft;

int main() {
  graph g;
  fifo_queue<tensor<float, dims<3>>> q(10);
  auto three = placeholder<float, dims<3>>(g, "three");
  auto four = placeholder<float, dims<4>>(g, "four");
#ifdef WEFT_SHOULD_FAIL
  auto put = q.enqueue(std::chrono::seconds(1), four);
#else
  auto put = q.enqueue(std::chrono::seconds(1), three);
#endif
}

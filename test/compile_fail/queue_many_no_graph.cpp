// A number of elements without a deadline.
// error: dequeue_many\(5s, 20\), dequeue_many<20>\(graph, 5s\)
#include <weft/queue.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  fifo_queue<float> q(100);
#ifdef WEFT_SHOULD_FAIL
  auto x = q.dequeue_many(20);
#else
  auto x = q.dequeue_many(std::chrono::seconds(5), 20);
#endif
}

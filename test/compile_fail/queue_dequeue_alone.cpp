// dequeue() without a deadline.
// error: dequeue: takes a deadline, dequeue\(5s\), or in a graph dequeue\(g, 5s\)
#include <weft/queue.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  fifo_queue<float> q(100);
#ifdef WEFT_SHOULD_FAIL
  auto x = q.dequeue();
#else
  auto x = q.dequeue(std::chrono::seconds(5));
#endif
}

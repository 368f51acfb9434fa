// A dequeue without a deadline.
// error: call_has_no_deadline
// error: dequeue\(5s\)
#include <weft/queue.hpp>
using namespace weft;

int main() {
  fifo_queue<float> q(10);
  q.enqueue(std::chrono::seconds(1), 1);
#ifdef WEFT_SHOULD_FAIL
  auto x = q.dequeue();
#else
  auto x = q.dequeue(std::chrono::seconds(1));
#endif
}

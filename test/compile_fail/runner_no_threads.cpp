// A queue_runner without a number of threads.
// error: queue_runner\(queue, 2, \[&\] \{ queue\.enqueue\(1min, next\(\)\); \}\)
#include <weft/queue.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  fifo_queue<float> q(100);
#ifdef WEFT_SHOULD_FAIL
  queue_runner fill(q, [] {});
#else
  queue_runner fill(q, 1, [] {});
#endif
}

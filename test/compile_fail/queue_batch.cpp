// A batch of elements whose extents differ.
// error: batch_needs_known_extents
// error: padding_fifo_queue
#include <weft/queue.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  fifo_queue<tensor<float, dims<dyn<"length">>>> q(10);
#else
  padding_fifo_queue<tensor<float, dims<dyn<"length">>>> q(10);
#endif
  auto batch = q.dequeue_many(std::chrono::seconds(1), 0);
}

// A vector is enqueued.
// error: enqueued_value_is_not_a_tensor
// error: vector
#include <vector>
#include <weft/queue.hpp>
using namespace weft;

int main() {
  fifo_queue<tensor<float, dims<dyn<"n">>>> q(10);
  std::vector<float> x(3);
#ifdef WEFT_SHOULD_FAIL
  q.enqueue(std::chrono::seconds(1), x);
#else
  q.enqueue(std::chrono::seconds(1), tensor_view<float, dims<dyn<"n">>>(x.data(), shape(3)));
#endif
}

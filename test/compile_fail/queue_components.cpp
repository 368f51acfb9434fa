// An element without its label.
// error: number_of_components_differs<1, 2>|number_of_components_differs<1U?L?, 2U?L?>
#include <weft/queue.hpp>
using namespace weft;

int main() {
  fifo_queue<tensor<float, dims<3>>, std::int32_t> q(10);
  const tensor<float, dims<3>> x{1, 2, 3};
#ifdef WEFT_SHOULD_FAIL
  q.enqueue(std::chrono::seconds(1), x);
#else
  q.enqueue(std::chrono::seconds(1), x, 7);
#endif
}

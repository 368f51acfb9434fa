// A misspelt option of a queue.
// error: of a capacity; queue_options: name, shared_name, container, seed
#include <weft/queue.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  fifo_queue<float> q(100, {.shared = "q"});
#else
  fifo_queue<float> q(100, {.shared_name = "q"});
#endif
}

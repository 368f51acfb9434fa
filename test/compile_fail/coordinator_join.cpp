// join() without a deadline.
// error: a wait has a deadline: threads\.join\(5s\)
#include <weft/train/coordinator.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  coordinator threads;
#ifdef WEFT_SHOULD_FAIL
  threads.join();
#else
  threads.join(std::chrono::seconds(5));
#endif
}

// A misspelt member of a moving average.
// error(clang++): field designator 'decy' does not refer to any field in type
// error(g++): 'weft::exponential_moving_average' has no non-static data member named 'decy'
#include <weft/train/moving_average.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
  auto train = adam{}.minimize(w * w);
#ifdef WEFT_SHOULD_FAIL
  auto averages = exponential_moving_average{.decy = 0.9}.apply(train);
#else
  auto averages = exponential_moving_average{.decay = 0.9}.apply(train);
#endif
}

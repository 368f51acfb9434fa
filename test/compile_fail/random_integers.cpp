// Random numbers that are integers.
// error: random_elements_not_floating
// error: int
// error: float, double, half or bfloat16
#include <weft/graph/random.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto y = random_uniform<std::int32_t, dims<3>>(g, 0, 10);
#else
  auto y = random_uniform<float, dims<3>>(g, 0, 10);
#endif
}

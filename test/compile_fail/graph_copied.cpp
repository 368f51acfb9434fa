// A graph is handed on by value.
// error: deleted
// error: graph\(const graph&\) = delete
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
#ifdef WEFT_SHOULD_FAIL
  auto copy = g;
#else
  auto& same = g;
#endif
}

// A session is copied, for another thread say.
// error: clone_for_inference\(\) for another thread
#include <utility>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  session s{g};
#ifdef WEFT_SHOULD_FAIL
  session other = s;
#else
  session other = s.clone_for_inference();
#endif
}

// A name in place of options.
// error: queue_options: name, shared_name, container, seed
#include <weft/queue.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  critical_section table("table");
#else
  critical_section table({.shared_name = "table"});
#endif
}

// A misspelt option of lines.
// error: a path or several; line_options: skip, max_line_bytes
#include <weft/data/lines.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto r = data::lines("a.txt", {.skipped = 1});
#else
  auto r = data::lines("a.txt", {.skip = 1});
#endif
}

// A misspelt option of a saver.
// error: saver_options: shards, max_to_keep, keep_every, background, timeout
#include <weft/checkpoint/saver.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  saver keeper({.max_keep = 5});
#else
  saver keeper({.max_to_keep = 5});
#endif
}

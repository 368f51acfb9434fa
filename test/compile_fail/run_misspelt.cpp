// A misspelt option of a supervised_session.
// error: run_options: checkpoints, save, is_chief, handle_signals
#include <weft/train/supervised_session.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  supervised_session run(s, {.is_chef = true});
#else
  supervised_session run(s, {.is_chief = true});
#endif
}

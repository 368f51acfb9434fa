// A misspelt option of early_stop.
// error(clang++): no matching function for call to 'early_stop'
// error(g++): could not convert '\{3\}' from '<brace-enclosed initializer list>' to 'weft::early_stop_options'
#include <weft/train/hooks.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto hook = early_stop({.steps = 10}, [] { return 1.0; }, {.patient = 3});
#else
  auto hook = early_stop({.steps = 10}, [] { return 1.0; }, {.patience = 3});
#endif
}

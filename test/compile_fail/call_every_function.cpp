// A function without the parameters of a hook.
// error(clang++): no matching function for call to 'call_every'
// error(g++): could not convert '<lambda closure object>main\(\)::<lambda\(\)>\(\)' from 'main\(\)::<lambda\(\)>' to
#include <weft/train/hooks.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto hook = call_every({.steps = 10}, [] {});
#else
  auto hook = call_every({.steps = 10}, [](run_control&, const step_report&) {});
#endif
}

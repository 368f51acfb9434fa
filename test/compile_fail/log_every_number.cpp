// A number of steps without its name.
// error(clang++): no matching function for call to 'log_every'
// error(g++): could not convert '200' from 'int' to 'weft::every'
#include <weft/train/hooks.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto w = variable<float>(g, "w");
#ifdef WEFT_SHOULD_FAIL
  auto hook = log_every(200, {{w.id(), "w"}});
#else
  auto hook = log_every({.steps = 200}, {{w.id(), "w"}});
#endif
}

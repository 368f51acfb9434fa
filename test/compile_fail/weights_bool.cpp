// An option as a bool.
// error(clang++): no matching function for call to 'load_weights'
// error(g++): invalid initialization of reference of type 'const weft::restore_options&' from expression of
#include <weft/checkpoint/weights.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  load_weights("a.safetensors", s, true);
#else
  load_weights("a.safetensors", s, {.partial = true});
#endif
}

// The session before the path.
// error(clang++): no matching function for call to 'save_weights'
// error(g++): invalid initialization of reference of type 'const std::string&' \{aka 'const
#include <weft/checkpoint/weights.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  save_weights(s, "a.safetensors");
#else
  save_weights("a.safetensors", s);
#endif
}

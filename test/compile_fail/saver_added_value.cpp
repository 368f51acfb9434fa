// An object without a name.
// error: keeper\.add\("position", position\), a variable of the program
#include <weft/checkpoint/saver.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  saver keeper;
  std::int64_t position = 0;
#ifdef WEFT_SHOULD_FAIL
  keeper.add(position);
#else
  keeper.add("position", position);
#endif
}

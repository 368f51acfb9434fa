// A copy of a session.
// error(clang++): call to deleted constructor of 'weft::session'
// error(g++): use of deleted function 'weft::session::session\(const weft::session&\)'
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  session s(g);
#ifdef WEFT_SHOULD_FAIL
  session t = s;
#else
  session& t = s;
#endif
}

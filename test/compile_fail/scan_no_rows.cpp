// Rows forgotten.
// error: scan_has_no_rows
// error: scan: takes a body, which returns what it carries and then what is stacked, and rows\(x\)
#include <weft/graph/scan.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  graph g;
  auto x = placeholder<float, dims<4, 3>>(g, "x");
#ifdef WEFT_SHOULD_FAIL
  auto [h, y] = scan([](auto h, auto v) { return std::tuple{h + v, h}; }, sum<0>(x), x);
#else
  auto [h, y] = scan([](auto h, auto v) { return std::tuple{h + v, h}; }, sum<0>(x), rows(x));
#endif
}

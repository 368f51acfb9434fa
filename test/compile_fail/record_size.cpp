// Records of a fixed size have a named extent.
// error: record_has_no_fixed_size
// error: fixed_records: a record is a tensor whose extents are numbers
// max-lines: 10
#include <weft/data/lines.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto records = data::fixed_records<tensor<std::uint8_t, dims<dyn<"bytes">>>>("file");
#else
  auto records = data::fixed_records<tensor<std::uint8_t, dims<3073>>>("file");
#endif
}

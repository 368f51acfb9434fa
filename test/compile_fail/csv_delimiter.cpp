// A delimiter as an argument.
// error: csv_options: columns, header, separator, quote, missing_values, missing, max_row_bytes
#include <weft/data/csv.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto rows = data::csv<float, std::int32_t>("iris.csv", ';');
#else
  auto rows = data::csv<float, std::int32_t>("iris.csv", {.separator = ';'});
#endif
}

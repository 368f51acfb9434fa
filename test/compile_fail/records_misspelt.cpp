// A misspelt option of records.
// error: a path or several; record_reader_options: max_record_bytes, skip_damaged, damaged
#include <weft/data/records.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
#ifdef WEFT_SHOULD_FAIL
  auto r = data::records("a.tfrecord", {.skip_damage = true});
#else
  auto r = data::records("a.tfrecord", {.skip_damaged = true});
#endif
}

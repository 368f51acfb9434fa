// A misspelt option of an image folder.
// error: image_options: threads, skip_damaged, decode
#include <weft/data/image_folder.hpp>
#include <weft/weft.hpp>
using namespace weft;

int main() {
  data::image_folder folder("train");
#ifdef WEFT_SHOULD_FAIL
  auto images = folder.images({.skip_damage = true});
#else
  auto images = folder.images({.skip_damaged = true});
#endif
}

// SPDX-License-Identifier: BSL-1.0
#include <string_view>

#include <weft/data/idx.hpp>
#include <weft/error.hpp>
#if defined(WEFT_HAS_CUDA)
  #include <weft/cuda.hpp>
#endif

#if defined(FOUND_VERSION)
static_assert(std::string_view(WEFT_VERSION_STRING) == FOUND_VERSION);
#endif

int main() {
#if defined(WEFT_HAS_CUDA)
  // With or without a driver and a GPU: a sentence says which.
  weft::gpu::platform& gpus = *weft::gpu::installed_platform;
  if ((gpus.count() == 0) == gpus.reason().empty()) return 1;
#endif
  try {
    weft::data::read_idx<unsigned char>("no such file");
  } catch (const weft::error& e) {
    return e.code() == weft::error_code::not_found ? 0 : 1;
  }
  return 1;
}

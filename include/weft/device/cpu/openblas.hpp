// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>

// OpenBLAS has its own threads for the whole process. If OpenBLAS is linked, disables them.
extern "C" void openblas_set_num_threads(int) __attribute__((weak));

namespace weft::library {

inline void keep_openblas_on_one_thread() {
  [[maybe_unused]] static const bool once = (openblas_set_num_threads ? openblas_set_num_threads(1) : void(), true);
}

}  // namespace weft::library

// SPDX-License-Identifier: BSL-1.0
#pragma once

// The functions that files with WEFT_SEPARATE_COMPILATION leave out. One source file of the program includes this
// header, before all others. All files of the program must use the same optional libraries, except for zlib: the
// readers of weft::data load it at run time, so this file can be compiled without it.
#if defined(WEFT_DEFINITIONS)
  #error "weft/source.hpp comes before every other header of Weft, in a file of its own"
#endif
#define WEFT_SOURCE

#include <weft/data/cifar10.hpp>
#include <weft/data/csv.hpp>
#include <weft/data/fashion_mnist.hpp>
#include <weft/encoding/crc32c.hpp>
#include <weft/nn.hpp>
#include <weft/ops/reduce/normalization.hpp>
#include <weft/weft.hpp>

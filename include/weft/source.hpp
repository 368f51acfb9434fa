#pragma once

// The functions that files with WEFT_SEPARATE_COMPILATION defined leave out: included by one source file of a program,
// first. All files of the program take the same optional libraries; zlib, which the readers of weft::data look for when
// the program runs, may be missing here.
#if defined(WEFT_DEFINITIONS)
  #error "weft/source.hpp comes before every other header of Weft, in a file of its own"
#endif
#define WEFT_SOURCE

#include <weft/data/cifar10.hpp>
#include <weft/data/csv.hpp>
#include <weft/data/fashion_mnist.hpp>
#include <weft/encoding/crc32c.hpp>
#include <weft/nn.hpp>
#include <weft/ops/normalization.hpp>
#include <weft/weft.hpp>

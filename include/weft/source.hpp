#pragma once

// The functions that files with WEFT_SEPARATE_COMPILATION defined leave out: included by one source file of a program,
// first. All files of the program take the same optional libraries.
#if defined(WEFT_DEFINITIONS)
  #error "weft/source.hpp comes before every other header of Weft, in a file of its own"
#endif
#define WEFT_SOURCE

#include <weft/weft.hpp>

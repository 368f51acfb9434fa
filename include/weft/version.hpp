// SPDX-License-Identifier: BSL-1.0
#pragma once

/// The version of these headers. CMakeLists.txt and the packages take theirs from here.
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

/// The version as a number that the preprocessor can compare: 10,000 * major + 100 * minor + patch.
#define WEFT_VERSION (10000 * WEFT_VERSION_MAJOR + 100 * WEFT_VERSION_MINOR + WEFT_VERSION_PATCH)

/// The version as a string literal, "0.1.0".
#define WEFT_VERSION_STRING \
  WEFT_STRING_OF(WEFT_VERSION_MAJOR) "." WEFT_STRING_OF(WEFT_VERSION_MINOR) "." WEFT_STRING_OF(WEFT_VERSION_PATCH)
#define WEFT_STRING_OF(x) WEFT_STRING_OF_TOKENS(x)
#define WEFT_STRING_OF_TOKENS(x) #x

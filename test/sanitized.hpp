// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace test {

/// Whether this is a build with AddressSanitizer or ThreadSanitizer, in which long tests take smaller samples.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace test

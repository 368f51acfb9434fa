// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/session/session.hpp>

namespace weft {

/// For what a test for any device compares with: on GPUs `session` means another one there (cuda/on_gpu.hpp).
using session_on_cpu = session;

}  // namespace weft

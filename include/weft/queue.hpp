// SPDX-License-Identifier: BSL-1.0
#pragma once

/// Queues, critical sections, queue runners and variables shared by sessions: docs/how-to/queues.md.

#include <weft/weft.hpp>

#include <weft/queue/critical_section.hpp>
#include <weft/queue/queue_runner.hpp>
#include <weft/queue/queues.hpp>
#include <weft/queue/shared_values.hpp>

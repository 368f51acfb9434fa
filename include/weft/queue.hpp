#pragma once

/// Queues, critical sections and queue runners, for the program that includes this: docs/queues.md.

#include <weft/weft.hpp>

#include <weft/queue/critical_section.hpp>
#include <weft/queue/queue_runner.hpp>
#include <weft/queue/queues.hpp>

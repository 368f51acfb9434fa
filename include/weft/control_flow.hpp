// SPDX-License-Identifier: BSL-1.0
#pragma once

/// `cond`, `while_loop` and `scan`. Include this header in at least one file of the program:
/// docs/how-to/control-flow.md.

#include <weft/weft.hpp>

#include <weft/graph/cond.hpp>
#include <weft/graph/scan.hpp>
#include <weft/graph/while_loop.hpp>
#include <weft/plan/subgraphs.hpp>

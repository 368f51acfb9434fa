#pragma once

/// `cond` and `while_loop` for the program that includes this, in any of its files: docs/control-flow.md.

#include <weft/weft.hpp>

#include <weft/graph/cond.hpp>
#include <weft/graph/while_loop.hpp>
#include <weft/plan/subgraphs.hpp>

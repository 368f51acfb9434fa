// SPDX-License-Identifier: BSL-1.0
#pragma once

/// Summaries of a run for TensorBoard: docs/how-to/training.md.

#include <weft/weft.hpp>

#include <weft/summary/event_writer.hpp>
#include <weft/summary/graph_def.hpp>
#include <weft/summary/hparams.hpp>
#include <weft/summary/summary.hpp>

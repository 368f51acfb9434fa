#pragma once

/// What TensorBoard shows of a run, for the program that includes this: docs/summaries.md.

#include <weft/weft.hpp>

#include <weft/summary/event_writer.hpp>
#include <weft/summary/graph_def.hpp>
#include <weft/summary/hparams.hpp>
#include <weft/summary/summary.hpp>

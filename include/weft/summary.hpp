#pragma once

/// Summaries of a run, which TensorBoard shows, for the program that includes this: docs/how-to/training.md.

#include <weft/weft.hpp>

#include <weft/summary/event_writer.hpp>
#include <weft/summary/graph_def.hpp>
#include <weft/summary/hparams.hpp>
#include <weft/summary/summary.hpp>

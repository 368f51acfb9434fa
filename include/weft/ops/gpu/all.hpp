#pragma once

/// How the operations are prepared for GPUs, but for those that vendors' libraries do.
#include <weft/ops/gpu/array.hpp>
#include <weft/ops/gpu/copies.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/softmax.hpp>
#include <weft/ops/gpu/state.hpp>

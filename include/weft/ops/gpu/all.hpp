#pragma once

/// How the operations are prepared for GPUs, but for those that vendors' libraries do.
#include <weft/ops/gpu/argmax.hpp>
#include <weft/ops/gpu/box_copies.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/one_hot.hpp>
#include <weft/ops/gpu/shape.hpp>
#include <weft/ops/gpu/softmax.hpp>
#include <weft/ops/gpu/state.hpp>

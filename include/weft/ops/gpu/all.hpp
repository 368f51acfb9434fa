// SPDX-License-Identifier: BSL-1.0
#pragma once

/// GPU kernels of all operations, except those that use vendor libraries.
#include <weft/ops/gpu/argmax.hpp>
#include <weft/ops/gpu/box_copies.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/one_hot.hpp>
#include <weft/ops/gpu/shape.hpp>
#include <weft/ops/gpu/softmax.hpp>
#include <weft/ops/gpu/state.hpp>

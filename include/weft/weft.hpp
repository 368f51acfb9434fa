// SPDX-License-Identifier: BSL-1.0
#pragma once

// Everything for a single process, lowest layers first: this file then includes each header directly, and a compiler
// message about a header names two files instead of ten.

// clang-format off
#include <weft/config.hpp>
#include <weft/error.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/storage.hpp>
#include <weft/tensor/tensor.hpp>
#include <weft/tensor/fill.hpp>
#include <weft/tensor/print.hpp>
#include <weft/tensor/random.hpp>
#include <weft/device/kernel.hpp>
#include <weft/ops/operation.hpp>
#include <weft/ops/symbol.hpp>
#include <weft/ops/node.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/aliases.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/reduce/reduce.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/images/convolution.hpp>
#include <weft/ops/images/pooling.hpp>
#include <weft/ops/reduce/softmax.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/arrays/range.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/reduce/argmax.hpp>
#include <weft/ops/index/one_hot.hpp>
#include <weft/ops/arrays/stop_gradient.hpp>
#include <weft/ops/state.hpp>
#include <weft/ops/misuse.hpp>
#include <weft/ops/misused_calls.hpp>
#include <weft/graph/device_spec.hpp>
#include <weft/graph/graph.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/graph/fill.hpp>
#include <weft/graph/variables.hpp>
#include <weft/graph/effects.hpp>
#include <weft/graph/assign_all.hpp>
#include <weft/graph/misuse.hpp>
#include <weft/graph/gradients.hpp>
#include <weft/graph/print.hpp>
#include <weft/graph/print_handles.hpp>
#include <weft/session/devices.hpp>
#include <weft/session/session.hpp>
#include <weft/session/print.hpp>
#include <weft/train/optimizer.hpp>
// clang-format on

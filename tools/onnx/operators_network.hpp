// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Products, and the layers of networks.
namespace tool::importer {

inline constexpr row network_rows[] = {
    {"AveragePool", pool, "avg_pool{rank}<{windows}>({0})"},
    {"BatchNormalization", batch_norm},
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution, "conv1d_transpose conv2d_transpose conv3d_transpose concat pad"},
    {"Gemm", gemm_rule},
    {"GlobalAveragePool", global_pool, "mean<{axes}, keep_dims>({0})"},
    {"GlobalMaxPool", global_pool, "max<{axes}, keep_dims>({0})"},
    {"LayerNormalization", layer_norm},
    {"LpPool", pool, "pow sqrt square abs"},
    {"MatMul", matmul_rule, "matmul({0}, {1})"},
    {"MaxPool", pool, "max_pool{rank}<{windows}>({0})"},
    {"MaxUnpool", unpool, "max_unpool2d", "ops/images/max_unpool.hpp"},
};

}  // namespace tool::importer

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Products, reductions, and the layers of networks.
namespace tool::importer {

inline constexpr row network_rows[] = {
    {"ArgMax", arg_reduce, "cast<std::int64_t>(argmax<{axis}{keep}>({0}))", "", int64},
    {"AveragePool", pool, "avg_pool{rank}<{windows}>({0})"},
    {"BatchNormalization", batch_norm},
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution, "conv1d_transpose conv2d_transpose conv3d_transpose concat pad"},
    {"Gemm", gemm_rule},
    {"GlobalAveragePool", global_pool, "mean<{axes}, keep_dims>({0})"},
    {"GlobalMaxPool", global_pool, "max<{axes}, keep_dims>({0})"},
    {"LayerNormalization", layer_norm},
    {"LogSoftmax", softmax_rule, "log_softmax"},
    {"LpPool", pool, "pow sqrt square abs"},
    {"MatMul", matmul_rule, "matmul({0}, {1})"},
    {"MaxPool", pool, "max_pool{rank}<{windows}>({0})"},
    {"MaxUnpool", unpool, "max_unpool2d", "ops/images/max_unpool.hpp"},
    {"ReduceMax", reduce, "max<{axes}{keep}>({0})"},
    {"ReduceMean", reduce, "mean<{axes}{keep}>({0})"},
    {"ReduceMin", reduce, "min<{axes}{keep}>({0})"},
    {"ReduceProd", reduce, "prod<{axes}{keep}>({0})"},
    {"ReduceSum", reduce, "sum<{axes}{keep}>({0})"},
    {"Softmax", softmax_rule, "softmax"},
};

}  // namespace tool::importer

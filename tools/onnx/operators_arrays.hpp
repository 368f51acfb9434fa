// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Operators that move elements, and constants.
namespace tool::importer {

inline constexpr row array_rows[] = {
    {"Concat", concat_rule, "concat<{axis}>({*})"},
    {"Constant", constant_rule},
    {"ConstantOfShape", constant_of_shape_rule},
    {"Expand", expand_rule, "broadcast_to<{dims}>({0})"},
    {"Flatten", flatten_rule, "reshape<{dims}>({0})"},
    {"Gather", gather_rule, "gather<{axis}>({0}, {1})"},
    {"Range", range_rule},
    {"Reshape", reshape_rule, "reshape<{dims}>({0})"},
    {"Shape", shape_rule, "", "", int64},
    {"Size", shape_rule, "", "", int64},
    {"Slice", slice_rule},
    {"Split", split_rule},
    {"Squeeze", squeeze_rule, "reshape<{dims}>({0})"},
    {"Transpose", transpose_rule, "transpose<{perm}>({0})"},
    {"Unsqueeze", unsqueeze_rule, "reshape<{dims}>({0})"},
};

}  // namespace tool::importer

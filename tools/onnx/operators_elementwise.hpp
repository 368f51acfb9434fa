// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Functions of elements.
namespace tool::importer {

inline constexpr row elementwise_rows[] = {
    {"Abs", same, "abs({0})"},
    {"Add", broadcast, "{0} + {1}"},
    {"And", broadcast, "{0} && {1}", "", boolean},
    {"Cast", cast_rule, "cast<{to}>({0})"},
    {"Clip", clip_rule},
    {"Div", broadcast, "{0} / {1}"},
    {"Dropout", dropout_rule},
    {"Equal", broadcast, "{0} == {1}", "", boolean},
    {"Erf", same, "erf({0})"},
    {"Exp", same, "exp({0})"},
    {"Greater", broadcast, "{0} > {1}", "", boolean},
    {"GreaterOrEqual", broadcast, "{0} >= {1}", "", boolean},
    {"Identity", pass_rule},
    {"LeakyRelu", same, "leaky_relu({0}, {alpha=0.01})"},
    {"Less", broadcast, "{0} < {1}", "", boolean},
    {"LessOrEqual", broadcast, "{0} <= {1}", "", boolean},
    {"Log", same, "log({0})"},
    {"Max", variadic, "maximum({0}, {1})"},
    {"Min", variadic, "minimum({0}, {1})"},
    {"Mul", broadcast, "{0} * {1}"},
    {"Neg", same, "-{0}"},
    {"Not", same, "!{0}"},
    {"Or", broadcast, "{0} || {1}", "", boolean},
    {"Pow", broadcast, "pow({0}, {1})"},
    {"Reciprocal", same, "1 / {0}"},
    {"Relu", same, "relu({0})"},
    {"Sigmoid", same, "sigmoid({0})"},
    {"Softplus", same, "softplus({0})"},
    {"Sqrt", same, "sqrt({0})"},
    {"Sub", broadcast, "{0} - {1}"},
    {"Sum", variadic, "{0} + {1}"},
    {"Tanh", same, "tanh({0})"},
    {"Where", broadcast, "select({0}, {1}, {2})"},
};

}  // namespace tool::importer

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Reductions, and functions of rows.
namespace tool::importer {

/// The axis is operand 1.
inline void accumulated(call& c) {
  const integers& given = c.known_integers(1);
  if (given.size() != 1) c.refuse("axis must be one number");
  c.holes["axis"] = std::to_string(c.physical_axis(0, c.axis(given[0].number(), c.rank())));
  std::string options;
  if (c.number("exclusive", 0) != 0) options += ".exclusive = true";
  if (c.number("reverse", 0) != 0) options += options.empty() ? ".reverse = true" : ", .reverse = true";
  c.holes["options"] = options.empty() ? "" : ", {" + options + "}";
  same_extents(c);
}

inline void hard_max(call& c) {
  const std::size_t axis = c.axis(c.number("axis", c.opset < 13 ? 1 : -1), c.rank());
  if (c.opset < 13 && axis + 1 != c.rank()) c.refuse("several axes are not supported before opset 13");
  if (!c.extent(0, axis).is_number()) c.refuse("the extent of the axis must be a number");
  c.holes["axis"] = std::to_string(axis);
  c.holes["count"] = c.extent(0, axis).text();
  const int type = is_half(c.operand(0).type) ? static_cast<int>(float32) : c.operand(0).type;
  c.holes["one"] = literal(type, 1);
  c.holes["zero"] = literal(type, 0);
  same_extents(c);
}

inline constexpr rule accumulation{accumulated, layout::own}, hardmax{hard_max, layout::plain, true};

inline constexpr row reduce_rows[] = {
    {"ArgMax", arg_reduce, "argmax<{axis}>({0})", "", int64},
    {"ArgMin", arg_reduce, "argmin<{axis}>({0})", "ops/reduce/reductions.hpp", int64},
    {"CumProd", accumulation, "cumprod<{axis}>({0}{options})", "ops/reduce/cumprod.hpp"},
    {"CumSum", accumulation, "cumsum<{axis}>({0}{options})", "ops/reduce/scan.hpp"},
    {"Hardmax", hardmax, "one_hot_along<{axis}, {count}>(argmax<{axis}>({0}), {one}, {zero})",
     "ops/index/one_hot_along.hpp"},
    {"LogSoftmax", softmax_rule, "log_softmax"},
    {"ReduceL1", reduce, "sum<{axes}{keep}>(abs({0}))"},
    {"ReduceL2", reduce, "norm<{axes}{keep}>({0})", "ops/reduce/reductions.hpp"},
    {"ReduceLogSum", reduce, "log(sum<{axes}{keep}>({0}))"},
    {"ReduceLogSumExp", reduce, "logsumexp<{axes}{keep}>({0})", "ops/reduce/reductions.hpp"},
    {"ReduceMax", reduce, "max<{axes}{keep}>({0})"},
    {"ReduceMean", reduce, "mean<{axes}{keep}>({0})"},
    {"ReduceMin", reduce, "min<{axes}{keep}>({0})"},
    {"ReduceProd", reduce, "prod<{axes}{keep}>({0})"},
    {"ReduceSum", reduce, "sum<{axes}{keep}>({0})"},
    {"ReduceSumSquare", reduce, "sum<{axes}{keep}>(square({0}))"},
    {"Softmax", softmax_rule, "softmax"},
};

}  // namespace tool::importer

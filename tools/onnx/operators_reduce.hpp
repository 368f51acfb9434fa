// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Reductions, and functions of rows.
namespace tool::importer {

/// Returns true for the axes of a list.
inline std::vector<bool> chosen_axes(const call& c, const std::vector<std::int64_t>& axes, std::size_t rank) {
  std::vector<bool> chosen(rank);
  for (const std::int64_t a : axes) chosen[c.axis(a, rank)] = true;
  return chosen;
}
/// Without some of the axes, the others must be in ONNX's order, or the channels last.
inline void order_without(call& c, const std::vector<bool>& gone) {
  std::vector<int> order = channel_order(c.rank(), c.operand(0).last);
  std::erase_if(order, [&](int axis) { return gone[static_cast<std::size_t>(axis)]; });
  if (c.operand(0).last && !std::is_sorted(order.begin(), order.end())) c.reorder(0, false);
}

/// {axes} and {keep}. The axes are an attribute or operand 1.
inline void reduced(call& c) {
  const value& x = c.operand(0);
  const bool keep = c.flag("keepdims", true), noop = c.flag("noop_with_empty_axes");
  std::vector<std::int64_t> given = c.list_or_operand("axes", 1);
  if (given.empty() && !noop) given = numbers_to(x.rank());
  const std::vector<bool> gone = chosen_axes(c, given, x.rank());
  if (!keep) order_without(c, gone);
  integers extents;
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (gone[i]) axes.push_back(c.physical_axis(0, i));
    if (!gone[i] || keep) extents.push_back(gone[i] ? integer(1) : x.extents[i]);
  }
  std::sort(axes.begin(), axes.end());
  c.result(0, extents, c.operand(0).last && keep);
  c.holes["axes"] = part(axes);
  c.holes["keep"] = keep ? ", keep_dims" : "";
  if (x.type == boolean) {
    c.need_header("ops/reduce/reductions.hpp");
    c.text = c.of.op == "ReduceMax" ? "any<{axes}{keep}>({0})" : "all<{axes}{keep}>({0})";
  }
  if (!axes.empty()) return;
  // The function of the elements remains: log({0}) of log(sum<>({0})).
  constexpr std::string_view mark = "<{axes}{keep}>(";
  const std::size_t at = c.text.find(mark), name = c.text.rfind('(', at) + 1, inner = at + mark.size();
  std::size_t end = inner;
  for (int depth = 1; depth > 0; ++end) depth += c.text[end] == '(' ? 1 : c.text[end] == ')' ? -1 : 0;
  c.text = c.of.op == "ReduceL2" ? "abs({0})"
                                 : c.text.substr(0, name) + c.text.substr(inner, end - 1 - inner) + c.text.substr(end);
}

/// ArgMax and ArgMin: {axis}.
inline void reduced_index(call& c) {
  const std::size_t axis = c.axis(c.number("axis", 0), c.rank());
  const bool keep = c.flag("keepdims", true);
  integers extents = with_extent(c.operand(0).extents, axis, 1);
  if (!keep) extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
  c.result(0, extents);
  c.holes["axis"] = part(axis);
  if (c.flag("select_last_index")) {
    const integer& count = c.extent(0, axis);
    if (!count.is_number()) c.refuse("select_last_index requires an extent that is a number");
    c.need_header("ops/arrays/reverse.hpp");
    c.text.replace(c.text.find("{0}"), 3, "reverse<{axis}>({0})");
    c.text = form("$ - $", count - integer(1), c.text);
  }
  c.text = cast_text(int64, c.text);
  if (keep) c.text = form("expand_dims<{axis}>($)", c.text);
}

/// The axis is operand 1.
inline void accumulated(call& c) {
  const integers& given = c.known_integers(1);
  if (given.size() != 1) c.refuse("axis must be one number");
  c.holes["axis"] = part(c.physical_axis(0, c.axis(given[0].number(), c.rank())));
  const std::string options =
      options_text({{"exclusive", if_true(c.flag("exclusive"))}, {"reverse", if_true(c.flag("reverse"))}});
  c.holes["options"] = options.empty() ? "" : ", {" + options + "}";
  same_extents(c);
}

inline void hard_max(call& c) {
  const std::size_t axis = c.axis(c.number("axis", c.opset < 13 ? 1 : -1), c.rank());
  if (c.opset < 13 && axis + 1 != c.rank()) c.refuse("several axes are not supported before opset 13");
  if (!c.extent(0, axis).is_number()) c.refuse("the extent of the axis must be a number");
  c.holes["axis"] = part(axis);
  c.holes["count"] = c.extent(0, axis).text();
  c.holes["one"] = literal(wide(c.operand(0).type), 1);
  c.holes["zero"] = literal(wide(c.operand(0).type), 0);
  same_extents(c);
}

/// The text is a function of the last axis. Before opset 13, all axes from `axis` on are one.
inline void softmax_of(call& c) {
  const value& x = c.operand(0);
  const std::size_t rank = x.rank(), axis = c.axis(c.number("axis", c.opset < 13 ? 1 : -1), rank);
  const bool alone = product_of(extents_from(x.extents, axis + 1)).is(1);
  const bool flat = c.opset < 13 && !alone;
  if (flat) c.reorder(0, false);
  same_extents(c);
  const std::size_t at = c.physical_axis(0, axis);
  if (flat) {
    integers rows = extents_of(x.extents, 0, axis);
    rows.push_back(product_of(extents_from(x.extents, axis)));
    c.text = reshape_text(x.extents, form("$($)", c.text, reshape_text(rows, "{0}")));
  } else if (at + 1 == rank) {
    c.text += "({0})";
  } else {
    std::vector<std::int64_t> order = numbers_to(rank);
    std::swap(order[at], order.back());
    c.text = form("transpose<$>($(transpose<$>({0})))", order, c.text, order);
  }
}

inline constexpr rule reduce{reduced, layout::own, true};

inline constexpr row reduce_rows[] = {
    {"ArgMax", {reduced_index, layout::plain, true}, "argmax<{axis}>({0})", "", int64},
    {"ArgMin", {reduced_index, layout::plain, true}, "argmin<{axis}>({0})", "ops/reduce/reductions.hpp", int64},
    {"CumProd", {accumulated, layout::own}, "cumprod<{axis}>({0}{options})", "ops/reduce/cumprod.hpp"},
    {"CumSum", {accumulated, layout::own}, "cumsum<{axis}>({0}{options})", "ops/reduce/scan.hpp"},
    {"Hardmax",
     {hard_max, layout::plain, true},
     "one_hot_along<{axis}, {count}>(argmax<{axis}>({0}), {one}, {zero})",
     "ops/index/one_hot_along.hpp"},
    {"LogSoftmax", {softmax_of, layout::own, true}, "log_softmax"},
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
    {"Softmax", {softmax_of, layout::own, true}, "softmax"},
};

}  // namespace tool::importer

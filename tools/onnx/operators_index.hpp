// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Reads and writes by index, sorts, borders and triangles.
namespace tool::importer {

/// Returns true unless the indices are known, and none of them is negative.
inline bool can_be_negative(const value& indices) {
  return !indices.elements || std::any_of(indices.elements->begin(), indices.elements->end(),
                                          [](const integer& n) { return n.is_number() && n.number() < 0; });
}

/// {at}: operand i, indices of an axis, with negative ones counted from the end of the axis. Weft rejects negative
/// indices when it runs.
inline void count_from_end(call& c, std::size_t i, const integer& extent) {
  const std::string at = operand_hole(i);
  const bool negative = can_be_negative(c.operand(i)) && extent.is_number();
  c.holes["at"] = c.filled(negative ? form("select($ < 0, $ + $, $)", at, at, extent, at) : at);
}

/// {axis}, and {at} for operand 1.
inline std::size_t indexed_axis(call& c) {
  const std::size_t axis = c.axis(c.number("axis", 0), c.rank());
  c.need_rank(1, c.rank());
  c.holes["axis"] = part(axis);
  count_from_end(c, 1, c.extent(0, axis));
  return axis;
}
/// The indices can have fewer elements along the other axes.
inline void gathered_elements(call& c) {
  const std::size_t axis = indexed_axis(c);
  const integers& extents = c.operand(1).extents;
  for (std::size_t i = 0; i < extents.size(); ++i)
    if (i != axis && !(extents[i] == c.extent(0, i)))
      c.text.replace(c.text.find("{0}"), 3, slice_text(i, 0, extents[i], "{0}"));
  c.result(0, extents);
}

inline void set_combine(call& c) {
  const std::string how = c.word_of("reduction", {"none", "add", "mul", "min", "max"});
  c.holes["combine"] = how == "none" ? "" : ", combine::" + how;
  same_extents(c);
}
inline void scattered_elements(call& c) {
  set_combine(c);
  const std::size_t axis = indexed_axis(c);
  for (std::size_t i = 0; i < c.rank(); ++i)
    if (i != axis && !(c.extent(1, i) == c.extent(0, i)))
      c.refuse("the indices have fewer elements than the data along axis " + std::to_string(i));
}

/// {at}: index vectors, the last axis of operand 1. Returns the extents of what they select.
inline integers selected(call& c, std::size_t batch) {
  const integers &x = c.operand(0).extents, &at = c.operand(1).extents;
  if (at.empty() || !at.back().is_number() || batch + static_cast<std::size_t>(at.back().number()) > x.size())
    c.refuse("the last extent of the indices must be a number, and not more than the rank of the data");
  const auto depth = static_cast<std::size_t>(at.back().number());
  const integers ends = extents_of(x, batch, batch + depth);
  std::vector<std::string> texts;
  for (const integer& n : ends) texts.push_back(n.text());
  c.holes["ends"] =
      depth == 1 ? texts[0] : form("tensor<$, dims<$>>{$}", cpp_type(c.in[1]->type), depth, joined(texts));
  const bool negative = can_be_negative(*c.in[1]) && all_numbers(ends);
  c.holes["at"] = c.filled(negative ? "select({1} < 0, {1} + {ends}, {1})" : "{1}");
  integers extents = extents_of(at, 0, at.size() - 1);
  append(extents, extents_from(x, batch + depth));
  return extents;
}
inline void gathered_by_vectors(call& c) {
  const auto batch = static_cast<std::size_t>(c.number("batch_dims", 0));
  c.holes["batch"] = batch > 0 ? form("<$>", batch) : "";
  c.result(0, selected(c, batch));
}
inline void scattered_by_vectors(call& c) {
  set_combine(c);
  selected(c, 0);
}

/// Returns a list of a tensor's extent along an axis, which broadcasts against the tensor.
inline std::string along_axis(call& c, std::size_t axis, const std::string& list) {
  return reshape_text(with_extent(integers(c.rank(), 1), axis, c.extent(0, axis)), list);
}
inline std::string steps_of_axis(call& c, std::size_t axis) {
  c.to.uses_graph = true;
  return along_axis(c, axis, form("range<std::int64_t, $>(g)", c.extent(0, axis)));
}

/// Writes rows of operand 1 to positions from a number on for each element of the batch: a cache of keys.
inline void scattered_into_cache(call& c) {
  same_extents(c);
  const std::size_t axis = c.axis(c.number("axis", -2), c.rank());
  std::string from = steps_of_axis(c, axis);
  if (c.has(2)) from += " - " + along_axis(c, 0, "{2}");
  if (c.word_of("mode", {"linear", "circular"}) == "circular") {
    c.need_header("ops/elementwise/rounding.hpp");
    from = form("floor_mod($, $)", from, c.extent(0, axis));
  }
  c.holes["place"] = stated(c, "place", form("let($)", from));
  c.holes["axis"] = part(axis);
  c.holes["last"] = part(c.extent(1, axis) - 1);
}

/// Reverses the first elements of each row; their number differs between rows.
inline void reversed_rows(call& c) {
  same_extents(c);
  const std::size_t time = c.axis(c.number("time_axis", 0), c.rank()),
                    batch = c.axis(c.number("batch_axis", 1), c.rank());
  c.holes["axis"] = part(time);
  c.holes["step"] = stated(c, "step", steps_of_axis(c, time));
  c.holes["length"] = stated(c, "length", along_axis(c, batch, "{1}"));
}

inline void one_hot_of(call& c) {
  const auto depth = static_cast<std::int64_t>(c.known_numbers(1).at(0));
  const std::vector<double> values = c.known_numbers(2);
  const int labels = c.operand(0).type, type = c.operand(2).type;
  integers extents = c.operand(0).extents;
  const std::size_t axis = c.axis(c.number("axis", -1), extents.size() + 1);
  extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  if (is_float(labels) || labels == uint8 || labels == int8) {
    const std::string at = stated(c, "labels", "let(cast<std::int64_t>({0}))");
    c.holes["at"] = form("select($ < 0, $ + $, $)", at, at, depth, at);
  } else {
    count_from_end(c, 0, depth);
  }
  c.holes["axis"] = part(axis);
  c.holes["depth"] = part(depth);
  for (const auto& [name, x] : {std::pair("off", values.at(0)), {"on", values.at(1)}})
    c.holes[name] = is_float(type) ? literal(wide(type), x) : form("$($)", cpp_type(type), literal(type, x));
  c.text = narrowed(type, c.text);
  c.result(0, std::move(extents), false, type);
}

/// Sorts all elements: a few of them are taken from the order.
inline void largest(call& c) {
  const std::int64_t count = c.has(1) ? c.known_integers(1)[0].number() : c.number("k", 0);
  const std::size_t axis = c.axis(c.number("axis", -1), c.rank());
  const bool descending = c.flag("largest", true), has_indices = c.out.size() > 1;
  c.flag("sorted");
  if (count < 0 || (c.extent(0, axis).is_number() && count > c.extent(0, axis).number()))
    c.refuse("k must be from 0 to " + c.extent(0, axis).text(true));
  const integers extents = with_extent(c.operand(0).extents, axis, count);
  c.result(0, extents);
  c.result(1, extents, false, int64);
  std::string order;
  if (descending && axis + 1 == c.rank()) {
    order = c.to.name_for("indices");
    c.text = c.to.name_for(c.from.outputs[0]);
    c.to.add_statement({{c.text, order}, c.filled(form("top_k<$>({0})", count)), importer::shape_text(extents)});
  } else {
    c.need_header("ops/index/gather.hpp");
    const std::string sorted = form("argsort<$>({0}$)", axis, descending ? ", direction::descending" : "");
    order = stated(c, "order", slice_text(axis, 0, count, sorted), importer::shape_text(extents));
    c.text = form("take_along_axis<$>({0}, $)", axis, order);
  }
  if (has_indices) c.to.define(*c.out[1], cast_text(int64, order));
}

/// Borders are an attribute or, in newer opsets, operand 1: all begins, then all ends. Negative ones remove elements.
inline void padded(call& c) {
  const std::string mode = c.word_of("mode", {"constant", "edge", "reflect", "wrap"});
  const std::vector<std::int64_t> pads = c.list_or_operand("pads", 1),
                                  axes = c.has(3) ? c.list_or_operand("", 3) : numbers_to(c.rank());
  if (pads.size() != 2 * axes.size()) c.refuse("pads must have two numbers for each axis");
  const double fill = c.has(2) ? c.known_numbers(2).at(0) : c.real("value", 0);
  const std::string how = mode != "constant" ? ", pad_mode::" + mode : "",
                    filler = how.empty() && fill != 0 ? ", " + literal(c.operand(0).type, fill) : "";
  integers extents = c.operand(0).extents;
  c.text = "{0}";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = c.axis(axes[i], c.rank()), at = c.physical_axis(0, axis);
    const std::int64_t before = pads[i], after = pads[axes.size() + i];
    const integer kept = c.extent(0, axis) + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
    extents[axis] = extents[axis] + before + after;
    if (before < 0 || after < 0) c.text = slice_text(at, std::max<std::int64_t>(-before, 0), kept, c.text);
    if (before <= 0 && after <= 0) continue;
    if (!how.empty() || !filler.empty()) c.need_header("ops/arrays/pad_modes.hpp");
    c.text = form("pad<$, $, $$>($$)", at, std::max<std::int64_t>(before, 0), std::max<std::int64_t>(after, 0), how,
                  c.text, filler);
  }
  c.result(0, std::move(extents), c.operand(0).last);
}

inline void tiled(call& c) {
  const std::vector<std::int64_t> repeats = c.list_or_operand("", 1);
  if (repeats.size() != c.rank()) c.refuse("repeats must have a number for each axis");
  integers extents = c.operand(0).extents;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 1) c.refuse("repeats must be 1 or more");
    extents[i] = extents[i] * repeats[i];
  }
  c.holes["counts"] = part(repeats);
  c.result(0, std::move(extents));
}

inline void triangular(call& c) {
  const std::int64_t k = c.has(1) ? c.known_integers(1)[0].number() : 0;
  c.text = form("$({0}$)", c.flag("upper", true) ? "triu" : "tril", k != 0 ? form(", $", k) : "");
  same_extents(c);
}

inline void identity_matrix(call& c) {
  const integers& extents = c.operand(0).extents;
  const int type = static_cast<int>(c.number("dtype", c.operand(0).type));
  const std::int64_t k = c.number("k", 0);
  if (extents.size() != 2 || !all_numbers(extents)) c.refuse("the extents must be two numbers");
  c.to.uses_graph = true;
  c.need_header("ops/arrays/triangles.hpp");
  c.text = k == 0 ? form("eye<$, $>(g)", cpp_type(type), extents)
                  : form("triu(tril(fill<$, $>(g, $), $), $)", cpp_type(type), extents, literal(type, 1), k, k);
  c.result(0, extents, false, type);
}

/// Rows for which a mask is true; without an axis, elements.
inline void compressed(call& c) {
  const integers& mask = c.known_integers(1);
  const bool flat = !c.has_attribute("axis");
  const std::size_t axis = flat ? 0 : c.axis(c.number("axis", 0), c.rank());
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (!mask[i].is(0)) rows.push_back(i);
  const integer count(static_cast<std::int64_t>(rows.size()));
  c.holes["rows"] = form("tensor<std::int64_t, dims<$>>{$}", count, rows);
  c.text = form("gather<$>($, constant(g, {rows}))", axis, flat ? "reshape<dims<-1>>({0})" : "{0}");
  c.to.uses_graph = true;
  c.result(0, flat ? integers{count} : with_extent(c.operand(0).extents, axis, count));
}

/// The places of elements that are not 0, which must be known at import.
inline void found_nonzero(call& c) {
  const integers& all = c.known_integers(0);
  const std::vector<std::int64_t> extents = numbers_of(c.operand(0).extents);
  integers places;
  std::int64_t count = 0, inner = 1;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    integers here;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!all[i].is(0)) here.emplace_back(static_cast<std::int64_t>(i) / inner % extents[axis]);
    count = static_cast<std::int64_t>(here.size());
    inner *= extents[axis];
    places.insert(places.begin(), here.begin(), here.end());
  }
  c.result(0, {static_cast<std::int64_t>(extents.size()), count}, false, int64);
  c.out[0]->elements = places;
}

inline constexpr row index_rows[] = {
    {"Compress", {compressed}, "", "ops/index/gather.hpp"},
    {"EyeLike", {identity_matrix}, "eye"},
    {"GatherElements", {gathered_elements}, "take_along_axis<{axis}>({0}, {at})", "ops/index/gather.hpp"},
    {"GatherND", {gathered_by_vectors}, "gather_nd{batch}({0}, {at})", "ops/index/gather_nd.hpp"},
    {"NonZero", {found_nonzero}},
    {"OneHot", {one_hot_of}, "one_hot_along<{axis}, {depth}>({at}, {on}, {off})", "ops/index/one_hot_along.hpp"},
    {"Pad", {padded, layout::kept}},
    {"ReverseSequence",
     {reversed_rows},
     "take_along_axis<{axis}>({0}, select({step} < {length}, {length} - 1 - {step}, {step}))",
     "ops/index/gather.hpp"},
    {"Scatter", {scattered_elements}, "scatter_along_axis<{axis}>({0}, {at}, {2}{combine})", "ops/index/scatter.hpp"},
    {"ScatterElements",
     {scattered_elements},
     "scatter_along_axis<{axis}>({0}, {at}, {2}{combine})",
     "ops/index/scatter.hpp"},
    {"ScatterND", {scattered_by_vectors}, "scatter_nd({0}, {at}, {2}{combine})", "ops/index/scatter.hpp"},
    {"TensorScatter",
     {scattered_into_cache},
     "select({place} < 0 || {place} > {last}, {0}, take_along_axis<{axis}>({1}, minimum(maximum({place}, 0), {last})))",
     "ops/index/gather.hpp"},
    {"Tile", {tiled}, "tile<{counts}>({0})", "ops/arrays/stack.hpp"},
    {"TopK", {largest}, "", "ops/index/sort.hpp"},
    {"Trilu", {triangular}, "", "ops/arrays/triangles.hpp"},
};

}  // namespace tool::importer

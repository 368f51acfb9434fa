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

/// Stores as `{at}` the text of operand i, indices of an axis, with negative ones counted from the end of the axis.
/// Weft rejects negative indices when it runs.
inline void count_from_end(call& c, std::size_t i, const integer& extent) {
  const std::string at = "{" + std::to_string(i) + "}";
  const value& v = c.operand(i);
  if (!can_be_negative(v) || !extent.is_number()) {
    c.holes["at"] = c.filled(at);
    return;
  }
  c.holes["at"] = c.filled("select(" + at + " < 0, " + at + " + " + extent.text() + ", " + at + ")");
}

/// Elements by index along an axis; the indices may have fewer elements along the other axes.
inline void gathered_elements(call& c) {
  const std::size_t axis = c.axis(c.number("axis", 0), c.rank());
  c.holes["axis"] = std::to_string(axis);
  count_from_end(c, 1, c.extent(0, axis));
  const integers extents = c.operand(1).extents;
  if (extents.size() != c.rank()) c.refuse("the indices need the rank of the data");
  for (std::size_t i = 0; i < extents.size(); ++i)
    if (i != axis && !(extents[i] == c.extent(0, i)))
      c.text.replace(c.text.find("{0}"), 3, "slice<" + std::to_string(i) + ", 0, " + extents[i].text() + ">({0})");
  c.result(0, extents);
}

/// Index vectors are the last axis of operand 1.
inline integers selected(call& c, std::size_t batch) {
  const integers &x = c.operand(0).extents, &at = c.operand(1).extents;
  if (at.empty() || !at.back().is_number() || batch + static_cast<std::size_t>(at.back().number()) > x.size())
    c.refuse("the last extent of the indices must be a number, and not more than the rank of the data");
  const auto depth = static_cast<std::size_t>(at.back().number());
  bool negative = can_be_negative(c.operand(1));
  std::string ends;
  for (std::size_t i = 0; i < depth; ++i) {
    negative &= x[batch + i].is_number();
    ends += (i > 0 ? ", " : "") + x[batch + i].text();
  }
  c.holes["ends"] =
      depth == 1 ? ends
                 : "tensor<" + cpp_type(c.operand(1).type) + ", dims<" + std::to_string(depth) + ">>{" + ends + "}";
  c.holes["at"] = c.filled(!negative ? "{1}" : "select({1} < 0, {1} + {ends}, {1})");
  integers extents(at.begin(), at.end() - 1);
  extents.insert(extents.end(), x.begin() + static_cast<std::ptrdiff_t>(batch + depth), x.end());
  return extents;
}
inline void gathered_by_vectors(call& c) {
  const auto batch = static_cast<std::size_t>(c.number("batch_dims", 0));
  c.holes["batch"] = batch > 0 ? "<" + std::to_string(batch) + ">" : "";
  c.result(0, selected(c, batch));
}

inline void set_combine(call& c) {
  const std::string how = c.word_of("reduction", {"none", "add", "mul", "min", "max"});
  c.holes["combine"] = how == "none" ? "" : ", combine::" + how;
}
inline void scattered_elements(call& c) {
  const std::size_t axis = c.axis(c.number("axis", 0), c.rank());
  set_combine(c);
  for (std::size_t i = 0; i < c.rank(); ++i)
    if (i != axis && !(c.extent(1, i) == c.extent(0, i)))
      c.refuse("the indices have fewer elements than the data along axis " + std::to_string(i));
  c.holes["axis"] = std::to_string(axis);
  count_from_end(c, 1, c.extent(0, axis));
  c.result(0, c.operand(0).extents);
}
inline void scattered_by_vectors(call& c) {
  set_combine(c);
  selected(c, 0);
  c.result(0, c.operand(0).extents);
}

/// Writes rows of operand 1 to positions from a number on for each element of the batch: a cache of keys.
inline void scattered_into_cache(call& c) {
  const std::size_t rank = c.rank(), axis = c.axis(c.number("axis", -2), rank);
  const integer &all = c.extent(0, axis), &count = c.extent(1, axis);
  const std::string mode = c.word_of("mode", {"linear", "circular"});
  integers places(rank, 1), starts(rank, 1);
  places[axis] = all;
  starts[0] = c.extent(0, 0);
  const std::string range = "range<std::int64_t, " + all.text() + ">(g)";
  c.to.uses_graph = true;
  std::string from = reshape_text(places, range);
  if (c.has(2)) from += " - " + reshape_text(starts, "{2}");
  if (mode == "circular") {
    c.need_header("ops/elementwise/rounding.hpp");
    from = "floor_mod(" + from + ", " + all.text() + ")";
  }
  c.holes["place"] = stated(c, "place", "let(" + from + ")");
  c.holes["axis"] = std::to_string(axis);
  c.holes["count"] = count.text();
  c.holes["last"] = (count - 1).text();
  c.result(0, c.operand(0).extents);
}

/// Reverses the first elements of each row; their number differs between rows.
inline void reversed_rows(call& c) {
  const std::size_t rank = c.rank(), time = c.axis(c.number("time_axis", 0), rank),
                    batch = c.axis(c.number("batch_axis", 1), rank);
  integers times(rank, 1), lengths(rank, 1);
  times[time] = c.extent(0, time);
  lengths[batch] = c.extent(0, batch);
  c.to.uses_graph = true;
  c.holes["step"] = stated(c, "step", reshape_text(times, "range<std::int64_t, " + c.extent(0, time).text() + ">(g)"));
  c.holes["length"] = stated(c, "length", reshape_text(lengths, "{1}"));
  c.holes["axis"] = std::to_string(time);
  c.result(0, c.operand(0).extents);
}

inline void one_hot_of(call& c) {
  const std::int64_t depth = static_cast<std::int64_t>(c.known_numbers(1).at(0));
  const std::vector<double> values = c.known_numbers(2);
  integers extents = c.operand(0).extents;
  const std::size_t axis = c.axis(c.number("axis", -1), extents.size() + 1);
  extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  if (is_float(c.operand(0).type) || c.operand(0).type == uint8 || c.operand(0).type == int8) {
    const std::string at = stated(c, "labels", "let(cast<std::int64_t>({0}))");
    c.holes["at"] = "select(" + at + " < 0, " + at + " + " + std::to_string(depth) + ", " + at + ")";
  } else {
    count_from_end(c, 0, depth);
  }
  const int type = c.operand(2).type;
  c.holes["axis"] = std::to_string(axis);
  c.holes["depth"] = std::to_string(depth);
  c.holes["on"] = literal(is_half(type) ? static_cast<int>(float32) : type, values.at(1));
  c.holes["off"] = literal(is_half(type) ? static_cast<int>(float32) : type, values.at(0));
  c.text = narrowed(type, c.text);
  if (!is_float(type))
    c.holes["on"] = cpp_type(type) + "(" + c.holes["on"] + ")",
    c.holes["off"] = cpp_type(type) + "(" + c.holes["off"] + ")";
  c.result(0, std::move(extents), false, type);
}

/// Sorts all elements: a few of them are taken from the order.
inline void largest(call& c) {
  const std::int64_t count = c.has(1) ? c.known_integers(1).at(0).number() : c.number("k", 0);
  const std::size_t axis = c.axis(c.number("axis", -1), c.rank());
  const bool descending = c.number("largest", 1) != 0;
  c.number("sorted", 1);
  if (count < 0 || (c.extent(0, axis).is_number() && count > c.extent(0, axis).number()))
    c.refuse("k must be from 0 to " + c.extent(0, axis).text(true));
  integers extents = c.operand(0).extents;
  extents[axis] = count;
  const std::string at = std::to_string(axis), k = std::to_string(count);
  c.result(0, extents);
  c.result(1, extents, false, int64);
  if (descending && axis + 1 == c.rank()) {
    const std::string values = c.to.name_for(c.from.outputs[0]), places = c.to.name_for("indices");
    c.to.add_statement({{values, places}, c.filled("top_k<" + k + ">({0})"), importer::shape_text(extents)});
    c.text = values;
    if (c.out.size() > 1) c.to.define(*c.out[1], "cast<std::int64_t>(" + places + ")");
    return;
  }
  const std::string order = stated(
      c, "order",
      "slice<" + at + ", 0, " + k + ">(argsort<" + at + ">({0}" + (descending ? ", direction::descending" : "") + "))",
      importer::shape_text(extents));
  c.need_header("ops/index/gather.hpp");
  c.text = "take_along_axis<" + at + ">({0}, " + order + ")";
  if (c.out.size() > 1) c.to.define(*c.out[1], "cast<std::int64_t>(" + order + ")");
}

/// Borders are an attribute or, in newer opsets, operand 1: all begins, then all ends. Negative ones remove elements.
inline void padded(call& c) {
  const std::string mode = c.word_of("mode", {"constant", "edge", "reflect", "wrap"});
  const std::vector<std::int64_t> pads = c.list_or_operand("pads", 1);
  std::vector<std::int64_t> axes = c.has(3) ? c.list_or_operand("", 3) : std::vector<std::int64_t>();
  if (!c.has(3))
    for (std::size_t i = 0; i < c.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (pads.size() != 2 * axes.size()) c.refuse("pads must have two numbers for each axis");
  const double fill = c.has(2) ? c.known_numbers(2).at(0) : c.real("value", 0);
  integers extents = c.operand(0).extents;
  std::string text = "{0}";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = c.axis(axes[i], c.rank());
    const std::int64_t before = pads[i], after = pads[axes.size() + i];
    const std::string at = std::to_string(c.physical_axis(0, axis));
    extents[axis] = extents[axis] + before + after;
    if (before < 0 || after < 0) {
      const integer kept = c.extent(0, axis) + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
      text = "slice<" + at + ", " + std::to_string(std::max<std::int64_t>(-before, 0)) + ", " + kept.text() + ">(" +
             text + ")";
    }
    if (before <= 0 && after <= 0) continue;
    const std::string border =
        std::to_string(std::max<std::int64_t>(before, 0)) + ", " + std::to_string(std::max<std::int64_t>(after, 0));
    if (mode == "constant") {
      if (fill != 0) c.need_header("ops/arrays/pad_modes.hpp");
      text =
          "pad<" + at + ", " + border + ">(" + text + (fill != 0 ? ", " + literal(c.operand(0).type, fill) : "") + ")";
    } else {
      c.need_header("ops/arrays/pad_modes.hpp");
      text = "pad<" + at + ", " + border + ", pad_mode::" + mode + ">(" + text + ")";
    }
  }
  c.text = text;
  c.result(0, std::move(extents), c.operand(0).last);
}

inline void tiled(call& c) {
  const std::vector<std::int64_t> repeats = c.list_or_operand("", 1);
  if (repeats.size() != c.rank()) c.refuse("repeats must have a number for each axis");
  integers extents = c.operand(0).extents;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 1) c.refuse("repeats must be 1 or more");
    extents[i] = extents[i] * repeats[i];
    c.holes["counts"] += (i > 0 ? ", " : "") + std::to_string(repeats[i]);
  }
  c.result(0, std::move(extents));
}

inline void triangular(call& c) {
  const std::int64_t k = c.has(1) ? c.known_integers(1).at(0).number() : 0;
  c.text = std::string(c.number("upper", 1) != 0 ? "triu" : "tril") + "({0}" +
           (k != 0 ? ", " + std::to_string(k) : "") + ")";
  c.result(0, c.operand(0).extents);
}

inline void identity_matrix(call& c) {
  const integers extents = c.operand(0).extents;
  const int type = static_cast<int>(c.number("dtype", c.operand(0).type));
  const std::int64_t k = c.number("k", 0);
  if (extents.size() != 2 || !extents[0].is_number() || !extents[1].is_number())
    c.refuse("the extents must be two numbers");
  const std::string ones =
      "fill<" + cpp_type(type) + ", " + importer::dims_text(extents) + ">(g, " + literal(type, 1) + ")";
  c.to.uses_graph = true;
  c.need_header("ops/arrays/triangles.hpp");
  c.text = k == 0 ? "eye<" + cpp_type(type) + ", " + importer::dims_text(extents) + ">(g)"
                  : "triu(tril(" + ones + ", " + std::to_string(k) + "), " + std::to_string(k) + ")";
  c.result(0, extents, false, type);
}

/// Rows for which a mask is true; without an axis, elements.
inline void compressed(call& c) {
  const integers& mask = c.known_integers(1);
  const bool flat = !c.has_attribute("axis");
  const std::size_t axis = flat ? 0 : c.axis(c.number("axis", 0), c.rank());
  std::string rows;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (!mask[i].is(0)) rows += (count++ > 0 ? ", " : "") + std::to_string(i);
  c.holes["axis"] = std::to_string(axis);
  c.holes["rows"] = "tensor<std::int64_t, dims<" + std::to_string(count) + ">>{" + rows + "}";
  c.holes["from"] = flat ? "reshape<dims<-1>>({0})" : "{0}";
  integers extents = flat ? integers{count} : c.operand(0).extents;
  extents[axis] = count;
  c.text = "gather<{axis}>(" + std::string(flat ? "reshape<dims<-1>>({0})" : "{0}") + ", constant(g, {rows}))";
  c.to.uses_graph = true;
  c.result(0, std::move(extents));
}

/// The places of elements that are not 0, which must be known at import.
inline void found_nonzero(call& c) {
  const integers& all = c.known_integers(0);
  const value& x = c.operand(0);
  std::vector<integers> places(x.rank());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].is(0)) continue;
    std::size_t rest = i;
    for (std::size_t axis = x.rank(); axis-- > 0;) {
      const auto n = static_cast<std::size_t>(x.extents[axis].number());
      places[axis].emplace_back(static_cast<std::int64_t>(rest % n));
      rest /= n;
    }
  }
  c.result(0, {static_cast<std::int64_t>(x.rank()), static_cast<std::int64_t>(places.empty() ? 0 : places[0].size())},
           false, int64);
  c.out[0]->elements.emplace();
  for (const integers& each : places) c.out[0]->elements->insert(c.out[0]->elements->end(), each.begin(), each.end());
}

inline constexpr row index_rows[] = {
    {"GatherElements", {gathered_elements}, "take_along_axis<{axis}>({0}, {at})", "ops/index/gather.hpp"},
    {"GatherND", {gathered_by_vectors}, "gather_nd{batch}({0}, {at})", "ops/index/gather_nd.hpp"},
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
    {"ReverseSequence",
     {reversed_rows},
     "take_along_axis<{axis}>({0}, select({step} < {length}, {length} - 1 - {step}, {step}))",
     "ops/index/gather.hpp"},
    {"OneHot", {one_hot_of}, "one_hot_along<{axis}, {depth}>({at}, {on}, {off})", "ops/index/one_hot_along.hpp"},
    {"TopK", {largest}, "", "ops/index/sort.hpp"},
    {"Pad", {padded, layout::kept}},
    {"Tile", {tiled}, "tile<{counts}>({0})", "ops/arrays/stack.hpp"},
    {"Trilu", {triangular}, "", "ops/arrays/triangles.hpp"},
    {"Compress", {compressed}, "", "ops/index/gather.hpp"},
    {"NonZero", {found_nonzero}},
    {"EyeLike", {identity_matrix}, "eye"},
};

}  // namespace tool::importer

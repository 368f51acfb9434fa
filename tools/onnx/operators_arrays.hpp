// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "operators_reduce.hpp"

/// Operators that move elements, and constants.
namespace tool::importer {

inline void concatenated(call& c) {
  const std::size_t rank = c.rank(), axis = c.axis(c.number("axis", 1), rank);
  bool last = false;
  for (const value* v : c.in) last |= v && v->last;
  for (std::size_t i = 0; i < c.in.size(); ++i) c.reorder(i, last);
  integers extents = c.operand(0).extents;
  for (std::size_t i = 1; i < c.in.size(); ++i)
    for (std::size_t k = 0; k < rank; ++k)
      if (k == axis)
        extents[k] = extents[k] + c.extent(i, k);
      else if (!(c.extent(i, k) == extents[k]))
        c.refuse("operands of " + importer::shape_text(c.in[0]->extents) + " and " +
                 importer::shape_text(c.in[i]->extents) + " may differ beside axis " + std::to_string(axis) +
                 ": fix an extent that has a name by --extent NAME=NUMBER");
  c.result(0, extents, last);
  if (c.in.size() == 1) return c.pass(0);
  c.holes["axis"] = part(c.physical_axis(0, axis));
}

/// {dims}. The order of axes does not matter without several long axes besides the first.
inline void reshape_to(call& c, const integers& extents) {
  const value& x = c.operand(0);
  std::size_t long_axes = 0;
  for (std::size_t i = 1; i < x.rank(); ++i) long_axes += !x.extents[i].is(1);
  const bool same_shape = extents == x.extents;
  if (!same_shape && (long_axes > 1 || extents.empty())) c.reorder(0, false);
  c.result(0, extents, same_shape && x.last);
  c.holes["dims"] = part(extents);
  if (same_shape) c.pass(0);
}

inline void reshaped(call& c) {
  const value& x = c.operand(0);
  const integers& asked = c.known_integers(1);
  const bool zero_is_zero = c.flag("allowzero");
  integers extents;
  std::optional<std::size_t> rest;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].is(-1) && rest) c.refuse("the shape has several axes of -1");
    if (asked[i].is(-1)) rest = i;
    extents.push_back(asked[i].is(-1) ? integer(1) : asked[i].is(0) && !zero_is_zero ? c.extent(0, i) : asked[i]);
  }
  const integer all = product_of(x.extents), others = product_of(extents);
  if (rest) {
    const auto quotient = others.is(0) ? std::nullopt : exact_quotient(all, others);
    if (!quotient)
      c.refuse(importer::shape_text(x.extents) + " has no shape with an axis of -1 beside " + others.text(true) +
               " elements");
    extents[*rest] = *quotient;
  } else if (!(others == all)) {
    c.refuse(importer::shape_text(x.extents) + " cannot become " + importer::shape_text(extents) +
             " for all extents: fix an extent that has a name by --extent NAME=NUMBER");
  }
  reshape_to(c, extents);
}

inline void flattened(call& c) {
  const integers& extents = c.operand(0).extents;
  const std::int64_t given = c.number("axis", 1);
  const std::size_t axis = given == static_cast<std::int64_t>(c.rank()) ? c.rank() : c.axis(given, c.rank());
  reshape_to(c, {product_of(extents_of(extents, 0, axis)), product_of(extents_from(extents, axis))});
}

inline void squeezed(call& c) {
  const value& x = c.operand(0);
  const std::vector<std::int64_t> axes = c.list_or_operand("axes", 1);
  std::vector<bool> gone = chosen_axes(c, axes, x.rank());
  integers extents;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (axes.empty()) gone[i] = x.extents[i].is(1);
    if (!gone[i]) extents.push_back(x.extents[i]);
    if (gone[i] && !x.extents[i].is(1))
      c.refuse("axis " + std::to_string(i) + " has " + x.extents[i].text(true) + " elements, not 1");
  }
  order_without(c, gone);
  c.result(0, extents);
  c.holes["dims"] = part(extents);
  if (extents.size() == x.rank()) c.pass(0);
}

inline void unsqueezed(call& c) {
  const value& x = c.operand(0);
  const std::vector<std::int64_t> axes = c.list_or_operand("axes", 1);
  const std::size_t rank = x.rank() + axes.size();
  const std::vector<bool> fresh = chosen_axes(c, axes, rank);
  if (std::count(fresh.begin(), fresh.end(), true) != static_cast<std::ptrdiff_t>(axes.size()))
    c.refuse("axes must be different");
  integers extents;
  for (std::size_t i = 0, from = 0; i < rank; ++i) extents.push_back(fresh[i] ? integer(1) : x.extents[from++]);
  c.result(0, extents);
  c.holes["dims"] = part(extents);
}

inline void transposed(call& c) {
  const value& x = c.operand(0);
  std::vector<std::int64_t> reversed = numbers_to(x.rank());
  std::reverse(reversed.begin(), reversed.end());
  std::vector<int> perm;
  for (const std::int64_t a : c.list("perm", reversed)) perm.push_back(static_cast<int>(c.axis(a, x.rank())));
  if (perm.size() != x.rank() || std::set<int>(perm.begin(), perm.end()).size() != x.rank())
    c.refuse("perm must contain each axis once");
  const auto text_order = [&](bool last) {
    std::vector<std::size_t> order;
    for (const int axis : last ? permuted(perm, channel_order(x.rank(), true)) : perm)
      order.push_back(c.physical_axis(0, static_cast<std::size_t>(axis)));
    return order;
  };
  const integers extents = permuted(x.extents, perm);
  c.result(0, extents);
  c.holes["perm"] = part(text_order(false));
  // Channels that are last already stay there.
  for (const bool last : {false, true}) {
    const std::vector<std::size_t> order = text_order(last && x.rank() >= 3);
    if (x.known() || !std::is_sorted(order.begin(), order.end())) continue;
    if (last && !c.to.wants_channels_last(*c.out[0])) continue;
    c.result(0, extents, last);
    return c.pass(0);
  }
}

inline void expanded(call& c) {
  const integers extents = broadcast_of(c, c.operand(0).extents, c.known_integers(1));
  c.result(0, extents);
  c.out[0]->zeros = is_zero(c.operand(0));
  c.holes["dims"] = part(extents);
  if (extents == c.in[0]->extents) c.pass(0);
}

inline void gathered(call& c) {
  const value &x = c.operand(0), &indices = c.operand(1);
  const std::size_t axis = c.axis(c.number("axis", 0), x.rank());
  const integer& n = x.extents[axis];
  integers extents = extents_of(x.extents, 0, axis);
  append(extents, indices.extents);
  append(extents, extents_from(x.extents, axis + 1));
  c.result(0, extents);
  if (x.trained() && x.rank() == 2 && axis == 0 && x.uses == 1 && !indices.known() && x.type == float32) {
    c.layer(form("nn::embedding<$, $>", n, x.extents[1]), "", {permuted_weight("table", x, {0, 1})});
    c.text.replace(c.text.find("{0}"), 3, "{1}");
    return;
  }
  c.holes["axis"] = part(axis);
  if (!indices.elements || !all_numbers(*indices.elements)) {
    c.need_header("ops/index/gather.hpp");
    if (n.is_number() && !indices.known()) c.text = form("gather<{axis}>({0}, select({1} < 0, {1} + $, {1}))", n);
    return;
  }
  // Negative indices count from the end.
  integers from_start = *indices.elements;
  for (integer& each : from_start)
    if (each.number() < 0) each = n + each;
  if (indices.rank() == 0) {
    c.text = form("squeeze<$>($)", axis, slice_text(axis, from_start[0], 1, "{0}"));
  } else if (from_start != *indices.elements) {
    const std::vector<std::int64_t> numbers = numbers_of(from_start);
    c.in[1] = c.to.permuted_constant(*c.in[1], indices.extents, channel_order(indices.rank(), false));
    set_constant(*c.in[1], new_tensor(c, indices.name, numbers_of(indices.extents), {numbers.begin(), numbers.end()},
                                      indices.type));
  }
}

inline void sliced(call& c) {
  const value& x = c.operand(0);
  if (c.opset >= 10) c.operand(2);
  const auto given = [&](std::string_view attribute, std::size_t i) {
    if (c.has(i)) return c.known_integers(i);
    const auto numbers = c.list(attribute, {});
    return integers(numbers.begin(), numbers.end());
  };
  const integers starts = given("starts", 1), ends = given("ends", 2);
  const integers steps = c.has(4) ? c.known_integers(4) : integers(starts.size(), 1);
  integers axes = given("axes", 3);
  for (const std::int64_t axis : numbers_to(axes.empty() ? starts.size() : 0)) axes.emplace_back(axis);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.refuse("starts, ends, axes and steps must have equal lengths");
  integers extents = x.extents;
  c.text = "{0}";
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = c.axis(axes[i].number(), x.rank()), at = c.physical_axis(0, axis);
    const integer n = x.extents[axis];
    const std::int64_t step = steps[i].number();
    if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) c.refuse("a step is out of range");
    // A bound as an index from 0 to n, or -1 for steps that run backwards.
    const auto bound = [&](const integer& index, bool is_end) -> integer {
      constexpr std::int64_t far = std::int64_t{1} << 30;
      if (!index.is_number()) return index;
      const std::int64_t k = index.number();
      if (n.is_number()) {
        const std::int64_t low = step < 0 && is_end ? -1 : 0, high = step < 0 ? n.number() - 1 : n.number();
        return std::clamp(k < 0 ? k + n.number() : k, low, high);
      }
      if (k >= far) return step < 0 ? n - integer(1) : n;
      if (k <= -far) return step < 0 ? integer(-1) : integer(0);
      return k < 0 ? n + integer(k) : integer(k);
    };
    const integer begin = bound(starts[i], false), end = bound(ends[i], true);
    integer count = step > 0 ? floor_quotient(end - begin + integer(step - 1), integer(step))
                             : floor_quotient(begin - end - integer(step + 1), integer(-step));
    if (count.is_number() && count.number() < 0) count = 0;
    extents[axis] = count;
    if (count == n && step == 1) continue;
    if (step == -1 && count == n) {
      c.need_header("ops/arrays/reverse.hpp");
      c.text = form("reverse<$>($)", at, c.text);
    } else if (step == 1) {
      c.text = slice_text(at, begin, count, c.text);
    } else {
      if (!begin.is_number() || !count.is_number()) c.refuse("steps need static extents");
      c.need_header("ops/arrays/strided_slice.hpp");
      c.text = form("slice<$, $, $>($, $)", at, count, step, c.text, begin);
    }
  }
  c.result(0, extents, x.last);
}

inline void split_of(call& c) {
  const value& x = c.operand(0);
  const std::size_t axis = c.axis(c.number("axis", 0), x.rank()), at = c.physical_axis(0, axis);
  const integer n = x.extents[axis];
  std::vector<std::int64_t> parts = c.list_or_operand("split", 1);
  const auto count = static_cast<std::int64_t>(c.from.outputs.size()), asked = c.number("num_outputs", count);
  if (parts.empty() && n.is_number()) {
    const std::int64_t each = (n.number() + asked - 1) / std::max<std::int64_t>(asked, 1);
    for (std::int64_t i = 0; i < count; ++i) parts.push_back(std::clamp<std::int64_t>(n.number() - each * i, 0, each));
  }
  if (parts.size() != c.from.outputs.size()) c.refuse("the parts must be numbers, one for each result");
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    c.result(i, with_extent(x.extents, axis, parts[i]), x.last);
    c.texts.push_back(slice_text(at, begin, parts[i], "{0}"));
    if (parts[i] < 0 || __builtin_add_overflow(begin, parts[i], &begin)) c.refuse("the parts are out of range");
  }
  if (n.is_number() && begin != n.number()) c.refuse("the sum of the parts must be " + n.text());
  c.tuple = n.is_number() && count > 1 && c.out.size() == parts.size() &&
            std::equal(parts.begin() + 1, parts.end(), parts.begin());
  if (!c.tuple) return;
  c.texts.clear();
  c.text = form("split<$, $>({0})", at, count);
}

inline void shape_of(call& c) {
  const integers& extents = c.operand(0).extents;
  const auto rank = static_cast<std::int64_t>(extents.size());
  const auto bound = [&](const char* name, std::int64_t otherwise) {
    const std::int64_t at = c.number(name, otherwise);
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t from = bound("start", 0), to = std::max(from, bound("end", rank));
  if (c.of.op == "Size") {
    c.result(0, {});
    c.out[0]->elements = integers{product_of(extents)};
  } else {
    c.result(0, {integer(to - from)});
    c.out[0]->elements = extents_of(extents, static_cast<std::size_t>(from), static_cast<std::size_t>(to));
  }
}

inline void constant_of(call& c) {
  const auto make = [&](int type, bool is_list, const auto& elements) {
    auto& t = c.to.new_constant();
    t.name = c.out[0]->name;
    t.type = type;
    if (is_list) t.extents = {static_cast<std::int64_t>(elements.size())};
    std::vector<std::byte> bytes;
    for (const auto& each : elements) append_element(bytes, each);
    t.own(std::move(bytes));
    set_constant(*c.out[0], t);
  };
  if (const auto* a = c.find("value"))
    set_constant(*c.out[0], a->t);
  else if (const auto* floats = c.find("value_floats"))
    make(float32, true, floats->floats);
  else if (const auto* real = c.find("value_float"))
    make(float32, false, std::vector{real->f});
  else if (const auto* ints = c.find("value_ints"))
    make(int64, true, ints->ints);
  else if (const auto* one = c.find("value_int"))
    make(int64, false, std::vector{one->i});
  else
    c.refuse("constants of strings and sparse tensors are not supported");
}

inline void ranged(call& c) {
  const int given = c.operand(0).type, type = wide(given);
  integer count;
  std::string steps;
  if (is_float(type)) {
    const double start = c.known_numbers(0).at(0), limit = c.known_numbers(1).at(0), delta = c.known_numbers(2).at(0);
    if (delta == 0) c.refuse("delta is 0");
    const double steps_needed = std::ceil((limit - start) / delta);
    if (!(steps_needed < 1e9)) c.refuse("the list is too long");
    count = static_cast<std::int64_t>(std::max(0.0, steps_needed));
    steps = form(", $, $", literal(type, start), literal(type, delta));
  } else {
    const integer start = c.known_integers(0)[0], limit = c.known_integers(1)[0], delta = c.known_integers(2)[0];
    if (!start.is_number() || !delta.is_number()) c.refuse("start and delta must be numbers");
    if (delta.is(0)) c.refuse("delta is 0");
    count = delta.number() > 0 ? floor_quotient(limit - start + delta - integer(1), delta)
                               : floor_quotient(start - limit - delta - integer(1), integer(0) - delta);
    if (count.is_number() && count.number() < 0) count = 0;
    if (!start.is(0) || !delta.is(1)) steps = form(", $, $", start, delta);
  }
  c.result(0, {count});
  c.text = narrowed(given, form("range<$, $>(g$)", cpp_type(type), count, steps));
}

inline void constant_of_shape(call& c) {
  const integers extents = c.known_integers(0);
  const auto* a = c.find("value");
  const int type = a ? a->t.type : static_cast<int>(float32);
  if (a && count_of(a->t) != 1) c.refuse("value must have one element");
  c.result(0, extents, false, type);
  c.out[0]->zeros = !a || number_at(a->t, 0) == 0;
  c.text = form("fill<$, $>(g, $)", cpp_type(type), extents, a ? element_text(a->t, 0) : "0.0f");
  const integer count = product_of(extents);
  if (!a || (type != int64 && type != int32 && type != boolean) || !count.is_number() || count.number() > 65536) return;
  c.out[0]->elements =
      integers(static_cast<std::size_t>(count.number()), integer(static_cast<std::int64_t>(number_at(a->t, 0))));
  if (count.number() <= 16) return;
  c.out[0]->text = c.text;
  c.to.uses_graph = true;
}

inline constexpr row array_rows[] = {
    {"Concat", {concatenated, layout::own}, "concat<{axis}>({*})"},
    {"Constant", {constant_of, layout::own}},
    {"ConstantOfShape", {constant_of_shape, layout::own}},
    {"Expand", {expanded}, "broadcast_to<{dims}>({0})"},
    {"Flatten", {flattened, layout::own}, "reshape<{dims}>({0})"},
    {"Gather", {gathered}, "gather<{axis}>({0}, {1})"},
    {"Range", {ranged, layout::own}},
    {"Reshape", {reshaped, layout::own}, "reshape<{dims}>({0})"},
    {"Shape", {shape_of, layout::own}, "", "", int64},
    {"Size", {shape_of, layout::own}, "", "", int64},
    {"Slice", {sliced, layout::own}},
    {"Split", {split_of, layout::own}},
    {"Squeeze", {squeezed, layout::own}, "reshape<{dims}>({0})"},
    {"Transpose", {transposed, layout::own}, "transpose<{perm}>({0})"},
    {"Unsqueeze", {unsqueezed}, "reshape<{dims}>({0})"},
};

}  // namespace tool::importer

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <numeric>

#include "importer.hpp"

/// Functions that several rules call: they write parts of texts and statements, and compute extents of results.
namespace tool::importer {

// ---- texts ----

inline std::string part(const std::string& text) { return text; }
inline std::string part(const integer& n) { return n.text(); }
inline std::string part(const integers& extents) { return importer::dims_text(extents); }
template <std::integral Number>
std::string part(Number n) {
  return std::to_string(n);
}
template <std::integral Number>
std::string part(const std::vector<Number>& all) {
  std::string text;
  for (const Number n : all) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text;
}

/// Returns the form with a part in place of each `$`: form("slice<$, $, $>($)", axis, begin, count, x).
template <class... Part>
std::string form(std::string_view of, const Part&... parts) {
  std::string text;
  const auto put = [&](const std::string& next) {
    const std::size_t at = of.find('$');
    text += std::string(of.substr(0, at)) + next;
    of.remove_prefix(at + 1);
  };
  (put(part(parts)), ...);
  return text + std::string(of);
}

/// Returns the texts with a mark between them.
inline std::string joined(const std::vector<std::string>& texts, const std::string& mark = ", ") {
  std::string all;
  for (const std::string& each : texts) all += (&each == texts.data() ? "" : mark) + each;
  return all;
}

struct option_text {
  const char* member;
  std::string text, otherwise = "";
};
/// Returns the members of options whose texts differ from their defaults: `.stride = 2, .dilation = 3`.
inline std::string options_text(std::initializer_list<option_text> all) {
  std::vector<std::string> options;
  for (const option_text& each : all)
    if (each.text != each.otherwise) options.push_back(form(".$ = $", each.member, each.text));
  return joined(options);
}
/// Returns the text of an option that is true, or an empty one for its default.
inline std::string if_true(bool option) { return option ? "true" : ""; }

inline std::string operand_hole(std::size_t i) { return form("{$}", i); }
inline std::string reshape_text(const integers& extents, const std::string& of) {
  return form("reshape<$>($)", extents, of);
}
inline std::string slice_text(std::size_t axis, const integer& begin, const integer& count, const std::string& of) {
  return form("slice<$, $, $>($)", axis, begin, count, of);
}

/// Returns the numbers from `first` to n - 1.
inline std::vector<std::int64_t> numbers_to(std::size_t n, std::size_t first = 0) {
  std::vector<std::int64_t> all(n - std::min(first, n));
  std::iota(all.begin(), all.end(), static_cast<std::int64_t>(first));
  return all;
}
inline std::vector<std::int64_t> numbers_of(const integers& extents) {
  std::vector<std::int64_t> numbers;
  for (const integer& n : extents) numbers.push_back(n.number());
  return numbers;
}
/// Returns extents [first, last).
inline integers extents_of(const integers& all, std::size_t first, std::size_t last) {
  if (first > last || last > all.size()) throw std::out_of_range("extents");
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(last)};
}
inline integers extents_from(const integers& all, std::size_t first) { return extents_of(all, first, all.size()); }
inline void append(integers& extents, const integers& more) { extents.insert(extents.end(), more.begin(), more.end()); }
/// Returns the extents with another one at an axis.
inline integers with_extent(integers extents, std::size_t axis, const integer& n) {
  extents[axis] = n;
  return extents;
}

// ---- halves ----

/// The type in which elements are computed: half and bfloat16 have no arithmetic.
inline int wide(int type) { return is_half(type) ? static_cast<int>(float32) : type; }
/// Returns the operand with elements that have arithmetic.
inline std::string widened(call& c, std::size_t i) {
  return is_half(c.operand(i).type) ? cast_text(float32, operand_hole(i)) : operand_hole(i);
}
inline std::string narrowed(int type, const std::string& text) { return is_half(type) ? cast_text(type, text) : text; }

// ---- statements ----

/// Writes a statement and returns the name of its value.
inline std::string stated(call& c, const std::string& name, const std::string& text, const std::string& comment = "") {
  const std::string unused = c.to.name_for(name);
  c.to.add_statement({{unused}, c.filled(text), comment});
  return unused;
}

/// Returns the name of operand i, which gets one if it is an expression.
inline std::string named(call& c, std::size_t i, const std::string& name = "x") {
  value& v = c.operand(i);
  const std::string text = c.to.text_of(v);
  if (is_name(text)) return text;
  v.text = c.to.name_for(v.known() && !v.name.empty() ? v.name : name);
  c.to.state(v, text);
  return v.text;
}

/// Makes a text a result besides the first.
inline void also(call& c, std::size_t i, const std::string& text, integers extents, bool last = false,
                 int type = same_type) {
  if (i >= c.out.size() || !c.out[i]) return;
  c.result(i, std::move(extents), last, type);
  c.out[i]->text = is_name(text) ? text : stated(c, c.from.outputs[i], text);
  c.out[i]->stated = true;
}

/// Returns a constant that the importer has computed and owns.
inline weft::onnx::tensor_value& new_tensor(call& c, const std::string& name, const std::vector<std::int64_t>& extents,
                                            const std::vector<double>& numbers, int type) {
  auto& t = c.to.new_constant();
  t.name = name;
  t.type = type;
  t.extents = extents;
  std::vector<std::byte> bytes;
  for (const double x : numbers) append_number(bytes, type, x);
  t.own(std::move(bytes));
  return t;
}

/// Returns the name of a constant that the importer has computed.
inline std::string constant_text(call& c, const std::string& name, const std::vector<std::int64_t>& extents,
                                 const std::vector<double>& numbers, int type = float32) {
  value v;
  v.name = name;
  v.uses = 1;
  set_constant(v, new_tensor(c, c.from.outputs[0] + "/" + name, extents, numbers, type));
  const std::string text = c.to.text_of(v);  // with braces, which are not holes
  if (is_name(text)) return text;
  const std::string unused = c.to.name_for(name);
  c.to.add_statement({{unused}, text, ""});
  return unused;
}

/// Returns the weights of a layer: a constant with its axes in another order. Its elements are seen with the extents
/// `view`.
inline weight permuted_weight(const std::string& name, const value& v, const std::vector<int>& order,
                              const std::vector<std::int64_t>& view) {
  return {name, v.constant, view, order, permuted(view, order)};
}
inline weight permuted_weight(const std::string& name, const value& v, const std::vector<int>& order) {
  return permuted_weight(name, v, order, numbers_of(v.extents));
}

// ---- rules ----

/// Returns the broadcast extents of two operands, or refuses the node.
inline integers broadcast_of(const call& c, const integers& a, const integers& b) {
  integers result(std::max(a.size(), b.size()), integer(1));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto at = [&](const integers& e) {
      return i + e.size() < result.size() ? integer(1) : e[i + e.size() - result.size()];
    };
    const integer x = at(a), y = at(b);
    if (!(x == y) && !x.is(1) && !y.is(1))
      c.refuse("the extents " + importer::shape_text(a) + " and " + importer::shape_text(b) + " do not broadcast");
    result[i] = x.is(1) ? y : x;
  }
  return result;
}

inline void same_extents(call& c) { c.result(0, c.operand(0).extents, c.operand(0).last); }

/// The bias of a dense layer, whose product is an operand.
inline bool add_bias(call& c) {
  if (c.from.op_type != "Add" || c.in.size() != 2) return false;
  for (const std::size_t i : {0u, 1u}) {
    const value &product = *c.in[i], &bias = *c.in[1 - i];
    if (product.layer.empty() || product.uses != 1 || !bias.trained() || bias.rank() != 1 ||
        !(bias.extents[0] == product.extents.back()) || bias.type != product.type)
      continue;
    member& dense = c.to.find_member(product.layer);
    dense.options = "";
    dense.weights.push_back(permuted_weight("bias", bias, {0}));
    c.fuses = false;
    c.pass(i);
    return true;
  }
  return false;
}

inline void broadcast_extents(call& c) {
  integers extents = c.operand(0).extents;
  int type = c.operand(0).type;
  if (c.opset < 7 && c.flag("broadcast") && c.has(1)) {  // operand 1 begins at an axis of operand 0
    const std::size_t own = c.rank(1),
                      axis = c.axis(c.number("axis", static_cast<std::int64_t>(c.rank() - own)), c.rank() + 1);
    if (own > 0 && axis + own != c.rank())
      c.refuse("axis is supported from opset 7 on, in which operands broadcast from the last one");
  }
  for (std::size_t i = 1; i < c.in.size(); ++i)
    if (c.has(i)) extents = broadcast_of(c, extents, c.in[i]->extents);
  if (c.from.op_type == "Where") {
    type = c.operand(1).type;
    if (c.in[1]->known() && c.in[1]->scalar() && c.operand(2).known() && c.in[2]->scalar() && c.numbers_allowed) {
      c.text = "select({0}, constant(g, {1}), {2})";
      c.to.uses_graph = true;
    }
  }
  c.result(0, extents, c.last_order, c.of.type == same_type ? type : same_type);
  add_bias(c);
}

/// A rule for operands of one order of axes, in float for half and bfloat16.
constexpr rule elementwise(void (*apply)(call&)) { return {apply, layout::kept, true}; }
/// The result has the extents of operand 0.
inline constexpr rule same = elementwise(same_extents);
/// Operands broadcast as in NumPy. They can be C++ numbers.
inline constexpr rule broadcast = elementwise(broadcast_extents);

}  // namespace tool::importer

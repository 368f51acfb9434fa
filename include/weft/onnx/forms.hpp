// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdlib>

#include <weft/graph/loop_operation.hpp>
#include <weft/onnx/exporter.hpp>
#include <weft/ops/images/window.hpp>

/// The ONNX forms of operations. An operation or a formula declares its form as text, `static constexpr const char*
/// onnx = "Mul(a, Sigmoid(a))"`, which only the exporter reads. A form consists of calls of ONNX operators, with
/// attributes in angle brackets: "Softmax<axis=@-1>(a)". Arguments are
///
///   - a, b, ... f: the operands;
///   - g, h, ... z: values named before: "k = Less(a, b); Where(k, a, b)";
///   - numbers, in the element type of a: 1, `lowest` (-inf or the lowest integer), `highest`; 1L, an std::int64_t;
///   lists
///     of integers: [0, 1]; $0, the node's first attribute, an integer; and `bits`, the bits of an element, an integer;
///   - `shape`, the extents of the result.
///
/// An attribute is a number, a 'text', `type`, the element type of the result, $0 or @-1: an axis of a and of the
/// result, whatever the order of the axes in ONNX. `;` separates the forms of several results. Integers have the form
/// after `|`, if there is one. A name in lower case calls one of the functions below, for operations that need more
/// than a text.
WEFT_COLD_BEGIN
namespace weft::onnx::detail {

/// Reads a form.
class form_reader {
 public:
  /// `operand` returns the name of an operand.
  form_reader(const exported_call& c, const char* form, dtype type, dtype result, layout order,
              std::function<std::string(std::size_t)> operand)
      : call_(c), at_(form), type_(type), result_(result), order_(std::move(order)), operand_(std::move(operand)) {}

  /// Returns the names of the results.
  std::vector<std::string> values() {
    std::vector<std::string> all;
    do {
      skip();
      const char local = at_[1] == ' ' && at_[2] == '=' ? *at_ : char{};
      if (local) at_ += 3;
      const std::string x = value();
      if (local)
        locals_[local] = x;
      else
        all.push_back(x);
    } while (take(';'));
    return all;
  }
  std::string value() {
    skip();
    if (is_name(*at_) && !is_name(at_[1])) {
      const char name = *at_++;
      return name <= 'f' ? operand_(std::size_t(name - 'a')) : locals_.at(name);
    }
    if (*at_ == '[') return call_.to.integers(list());
    if (*at_ == '$') return call_.to.scalar(dtype::int64, std::uint64_t(integer()));
    if (is_number()) {
      const double x = number();
      return call_.to.number(take('L') ? dtype::int64 : type_, x);
    }
    const std::string name = word();
    if (name == "lowest" || name == "highest") return call_.to.extreme(type_, name == "highest");
    if (name == "bits") return call_.to.scalar(dtype::int64, 8 * size_of(type_));
    if (name == "shape") return call_.to.extents(call_.def.outputs[0].extents);
    std::vector<attribute> attributes;
    if (take('<')) do {
        const std::string of = word();
        take('=');
        attributes.push_back(attribute_value(of.c_str()));
      } while (take(','));
    take('>'), take('(');
    std::vector<std::string> arguments;
    do arguments.push_back(value());
    while (take(','));
    take(')');
    return call_.add(name.c_str(), std::move(arguments), std::move(attributes));
  }

 private:
  static bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  bool is_number() const { return (*at_ >= '0' && *at_ <= '9') || *at_ == '-'; }
  void skip() {
    while (*at_ == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    return *at_ == c ? ++at_, true : false;
  }
  std::string word() {
    skip();
    const char* const from = at_;
    while (is_name(*at_) || (at_ > from && *at_ >= '0' && *at_ <= '9')) ++at_;
    return {from, at_};
  }
  double number() {
    char* end = nullptr;
    const double x = std::strtod(at_, &end);
    at_ = end;
    return x;
  }
  std::int64_t integer() {
    if (take('$')) return call_.word(std::size_t(number()));
    return std::int64_t(number());
  }
  std::vector<std::int64_t> list() {
    std::vector<std::int64_t> all;
    take('[');
    do all.push_back(integer());
    while (take(','));
    take(']');
    return all;
  }
  attribute attribute_value(const char* of) {
    if (take('\'')) {
      const char* const from = at_;
      while (*at_ != '\'') ++at_;
      return attribute_of(of, std::string(from, at_++));
    }
    if (take('@')) {
      const std::int64_t axis = integer();
      return attribute_of(of, axis_in(order_, axis < 0 ? axis + std::int64_t(call_.input(0).extents.rank) : axis));
    }
    if (*at_ == '$') return attribute_of(of, integer());
    if (*at_ == 't') return word(), attribute_of(of, type_of(result_));
    const char* const from = at_;
    const double x = number();
    if (std::string_view(from, std::size_t(at_ - from)).find('.') != std::string_view::npos) return attribute_of(of, x);
    return attribute_of(of, std::int64_t(x));
  }

  const exported_call& call_;
  const char* at_;
  dtype type_, result_;
  layout order_;
  std::function<std::string(std::size_t)> operand_;
  std::map<char, std::string> locals_;
};

/// Returns the form for an element type.
inline const char* form_for(dtype type, const char* form) {
  const char* const of_integers = std::strchr(form, '|');
  return of_integers && type != dtype::boolean && type < dtype::float16 ? of_integers + 1 : form;
}

inline void export_form(const exported_call& c, const char* form) {
  if (form[1] == 0) {  // an operand
    c.in.values[{c.in.node, 0}] = c.shared(0);
    return;
  }
  if (*form >= 'a' && *form <= 'z' && form[1] != ' ') return find_form({form, std::strcspn(form, "(")})(c);
  const layout order = std::strchr(form, '@') ? c.operand(0).order() : layout();
  form_reader text(c, form, c.input(0).type, c.def.outputs[0].type, order,
                   [&](std::size_t k) { return c.name(k, order); });
  const std::vector<std::string> results = text.values();
  for (std::uint32_t o = 0; o < results.size(); ++o) c.set(o, results[o], order);
}

namespace forms {

inline std::string cast(const exported_call& c, const std::string& x, dtype type) {
  return c.add("Cast", {x}, {attribute_of("to", type_of(type))});
}
/// Adds the nodes of a form of these operands. Numbers have the element type of the call's first operand.
inline std::string text(const exported_call& c, const char* form, const std::vector<std::string>& operands) {
  form_reader reader(c, form, c.input(0).type, c.def.outputs[0].type, {}, [&](std::size_t k) { return operands[k]; });
  return reader.values()[0];
}
inline double real_word(const exported_call& c, std::size_t i) { return __builtin_bit_cast(double, c.word(i)); }
/// Refuses extents that are not numbers.
inline std::int64_t number_of(const exported_call& c, std::int64_t extent) {
  if (const std::int64_t n = c.to.known(extent); n >= 0) return n;
  c.refuse("needs extents that are numbers in ONNX: give them values with g.set(dyn<\"name\">, n)");
}

// ---- expressions ----

/// Returns the order of axes in which the channels follow the batch.
inline layout channels_first(std::size_t rank) {
  layout order = counted(rank);
  order.erase(order.end() - 1);
  order.insert(order.begin() + 1, std::int64_t(rank) - 1);
  return order;
}

/// Returns the name of an operand of an expression.
using operand_names = std::function<std::string(std::size_t)>;
struct typed_name {
  std::string name;
  dtype type;
};
/// Returns true if an expression prints as the form, in which # stands for a number. Stores these numbers.
inline bool matches(const skeleton::token* tokens, const char* form, int* numbers) {
  const std::string text = skeleton::print(tokens);
  const char* at = text.c_str();
  for (; *form; ++form) {
    if (*form != '#' && *at++ != *form) return false;
    if (*form != '#') continue;
    char* end = nullptr;
    *numbers++ = int(std::strtol(at, &end, 10));
    at = end;
  }
  return *at == 0;
}
/// Exports the inference of batch normalization, (x - mean) * (scale * rsqrt(variance + epsilon)) + offset for each
/// channel. Returns an empty name if the tokens are another expression.
inline std::string inferred_normalization(const exported_call& c, const skeleton::token*& t,
                                          const operand_names& operand) {
  int k[4], of_scale[3];
  if (!matches(t, "add(multiply(subtract(a#, a#), a#), a#)", k)) return {};
  const value scale = c.def.inputs[std::size_t(k[2])];
  const node_def& from = c.in.g[scale.node].def;
  const exported_value& x = c.operand(std::size_t(k[0]));
  if (!from.op->expression || from.op->fusion != fusion_kind::expression || x.info.extents.rank < 3 ||
      x.order() != channels_first(x.info.extents.rank) ||
      !matches(from.op->expression(from.detail)->text, "multiply(a#, rsqrt(add(a#, c#)))", of_scale))
    return {};
  const auto whole = [&](value v) { return c.to.at(*c.in.values.at({v.node, v.output}), {}); };
  const auto mine = [&](int i) { return whole(c.def.inputs[std::size_t(k[i])]); };
  const auto its = [&](int i) { return whole(from.inputs[std::size_t(of_scale[i])]); };
  const double epsilon = x.info.type == dtype::float64 ? weft::detail::literal_value<double>(from.literals[0])
                                                       : weft::detail::literal_value<float>(from.literals[0]);
  t += 7;
  std::vector<attribute> attributes{attribute_of("epsilon", epsilon)};
  if (&c.in.g == &c.to.top())  // training with this layer records its momentum
    for (const std::uint32_t n : c.in.g.updates())
      if (const node_def& update = c.in.g[n].def; std::string_view(update.op->name) == "moving_average" &&
                                                  update.inputs[0] == c.def.inputs[std::size_t(k[1])]) {
        attributes.push_back(attribute_of("momentum", __builtin_bit_cast(double, update.attributes[0])));
        break;
      }
  return c.add("BatchNormalization", {operand(std::size_t(k[0])), its(0), mine(3), mine(1), its(1)},
               std::move(attributes));
}
inline typed_name expression(const exported_call& c, const skeleton::token*& t, const operand_names& operand) {
  const skeleton::token now = *t;
  if (const std::string normalized = inferred_normalization(c, t, operand); !normalized.empty())
    return {normalized, now.type};
  ++t;
  if (!now.operation) {
    if (now.number >= 0) return {operand(std::size_t(now.number)), now.type};
    return {c.to.scalar(now.type, c.def.literals[std::size_t(~now.number)]), now.type};
  }
  std::vector<typed_name> arguments;
  for (int i = 0; i < now.number; ++i) arguments.push_back(expression(c, t, operand));
  if (!now.onnx)
    c.refuse(
        str_cat({"applies ", now.operation,
                 ", which has no ONNX form: declare `static constexpr const char* onnx = \"Mul(a, Sigmoid(a))\"` in "
                 "the formula, or compute it outside of the exported graph"}));
  if (now.formula == skeleton::formula_id::cast)
    return {arguments[0].type == now.type ? arguments[0].name : cast(c, arguments[0].name, now.type), now.type};
  const dtype type = arguments[0].type;
  const bool chooses_bools = now.formula == skeleton::formula_id::select && now.type == dtype::boolean;
  const char* const text = chooses_bools ? "Or(And(a, b), And(Not(a), c))" : form_for(type, now.onnx);
  form_reader form(c, text, type, now.type, {}, [&](std::size_t k) { return arguments[k].name; });
  return {form.values()[0], now.type};
}
/// Exports the expression of a call whose operands have at most this rank. Returns the name of its value, and sets the
/// order of its axes.
inline std::string expression(const exported_call& c, std::size_t rank, layout& order) {
  order.clear();
  for (std::size_t k = 0; k < c.def.inputs.size() && order.empty(); ++k)
    if (c.input(k).extents.rank == rank) order = c.operand(k).order();
  const skeleton::token* text = c.def.op->expression(c.def.detail)->text;
  return expression(c, text, [&](std::size_t k) { return c.name(k, c.input(k).extents.rank ? order : layout()); }).name;
}
inline void map(const exported_call& c) {
  layout order;
  const std::string result = expression(c, c.def.outputs[0].extents.rank, order);
  c.set(0, result, order);
}
inline void reduce(const exported_call& c) {
  std::size_t rank = 0;
  for (std::size_t k = 0; k < c.def.inputs.size(); ++k)
    if (c.input(k).extents.rank > rank) rank = c.input(k).extents.rank;
  layout order;
  std::string x = expression(c, rank, order);
  if (order.empty()) order = counted(rank);
  const auto how = static_cast<device::reduce_op>(c.word(1));
  std::vector<std::int64_t> axes;
  layout left;
  const bool keeps = c.def.outputs[0].extents.rank == rank;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool reduced = (c.word(0) >> order[i]) & 1;
    if (reduced) axes.push_back(std::int64_t(i));
    if (reduced && !keeps) continue;
    std::int64_t axis = order[i];
    for (std::int64_t k = 0; !keeps && k < order[i]; ++k) axis -= (c.word(0) >> k) & 1;
    left.push_back(axis);
  }
  const char* const operation = c.word(2)                           ? "ReduceMean"
                                : how == device::reduce_op::product ? "ReduceProd"
                                : how == device::reduce_op::maximum ? "ReduceMax"
                                : how == device::reduce_op::minimum ? "ReduceMin"
                                                                    : "ReduceSum";
  // ONNX Runtime does not reduce small or unsigned integers. Sums and products that wrap around have the same low bits.
  const dtype type = c.def.outputs[0].type;
  const bool is_extreme = how == device::reduce_op::maximum || how == device::reduce_op::minimum;
  const dtype wide = type < dtype::int32 || type == dtype::uint8 || type == dtype::uint16 ? dtype::int32
                     : type == dtype::uint32 || (type == dtype::uint64 && !is_extreme)    ? dtype::int64
                                                                                          : type;
  if (wide != type) x = cast(c, x, wide);
  x = c.add(operation, {x, c.to.integers(axes)},
            {attribute_of("keepdims", int{keeps}), attribute_of("noop_with_empty_axes", 1)});
  c.set(0, wide != type ? cast(c, x, type) : x, left);
}
inline void fill(const exported_call& c) {
  const std::string x = c.to.number(c.def.outputs[0].type, weft::detail::literal_value<double>(c.def.literals[0]));
  c.set(0, c.add("Expand", {x, c.to.extents(c.def.outputs[0].extents)}));
}
/// Returns the integers from 0 up to an extent.
inline std::string indices_of(const exported_call& c, std::int64_t extent) {
  const std::string n = c.add("Squeeze", {c.to.extents(shape(extent)), c.to.integers({0})});
  return c.add("Range", {c.to.scalar(dtype::int64, 0), n, c.to.scalar(dtype::int64, 1)});
}
inline void range(const exported_call& c) {
  const dtype type = c.def.outputs[0].type;
  std::string x = indices_of(c, c.def.outputs[0].extents[0]);
  if (type != dtype::int64) x = cast(c, x, type);
  const std::string step = c.to.scalar(type, c.def.literals[1]), first = c.to.scalar(type, c.def.literals[0]);
  if (step != c.to.number(type, 1)) x = c.add("Mul", {x, step});
  c.set(0, first == c.to.number(type, 0) ? x : c.add("Add", {x, first}));
}

// ---- arrays ----

inline void transpose(const exported_call& c) {
  exported_value& x = c.operand(0);
  if (x.data || x.source) {
    auto v = std::make_shared<exported_value>();
    v->info = c.def.outputs[0];
    v->source = c.shared(0);
    for (std::size_t i = 0; i < x.info.extents.rank; ++i) v->turned.push_back(c.word(i));
    c.in.values[{c.in.node, 0}] = v;
    return;
  }
  layout order;
  std::vector<std::int64_t> axis(x.info.extents.rank);  // of the result, for each axis of x
  for (std::size_t i = 0; i < axis.size(); ++i) axis[std::size_t(c.word(i))] = std::int64_t(i);
  for (std::size_t i = 0; i < axis.size(); ++i)
    order.push_back(axis[std::size_t(x.order().empty() ? std::int64_t(i) : x.order()[i])]);
  c.set(0, x.own()->name, order);
  c.in.values[{c.in.node, 0}]->home = x.home;
}
/// Exports a reshape: of a variable or a constant, as an initializer of these extents.
inline void reshape(const exported_call& c) {
  const shape& to = c.def.outputs[0].extents;
  auto v = std::make_shared<exported_value>(c.operand(0));
  bool known = v->data;
  for (std::size_t i = 0; i < to.rank; ++i) known = known && c.to.known(to[i]) >= 0;
  if (!known) return c.set(0, c.add("Reshape", {c.name(0), c.to.resized(to)}));
  v->info.extents = to;
  v->places.clear();
  c.in.values[{c.in.node, 0}] = v;
}
/// Exports a slice along some of Weft's axes.
inline void sliced(const exported_call& c, const std::vector<std::int64_t>& axes, const std::string& begins,
                   const std::string& ends, const std::vector<std::int64_t>& steps) {
  const layout order = c.operand(0).order();
  std::vector<std::int64_t> places;
  for (const std::int64_t axis : axes) places.push_back(axis_in(order, axis));
  c.set(0, c.add("Slice", {c.name(0, order), begins, ends, c.to.integers(places), c.to.integers(steps)}), order);
}
constexpr std::int64_t no_end = std::int64_t{1} << 62;
/// Exports a box of the result's extents. In ONNX, too, negative indices count from the end of an axis.
inline void box(const exported_call& c, const std::vector<std::int64_t>& axes, const std::vector<std::int64_t>& begins,
                const std::vector<std::int64_t>& steps) {
  if (axes.empty()) return c.set(0, c.name(0, c.operand(0).order()), c.operand(0).order());
  std::vector<std::string> ends;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t begin = begins[i], step = steps[i];
    const std::int64_t n = c.to.known(c.def.outputs[0].extents[std::size_t(axes[i])]);
    std::int64_t end = begin + n * step;
    if (n < 0 && (begin < 0) == (step < 0)) {
      const std::string all = c.add("Mul", {c.to.extents(shape(n)), c.to.integers({step})});
      ends.push_back(c.add("Add", {all, c.to.integers({begin})}));
      continue;
    }
    if (n < 0 && step < 0) c.refuse("has a negative step along an axis that is not a number");
    if (step > 0 && begin < 0 && (n < 0 || end >= 0)) end = no_end;
    if (step < 0 && begin >= 0) end = end - step == 0 ? -no_end : end - step - 1;
    ends.push_back(c.to.integers({n == 0 ? begin : end}));
  }
  sliced(c, axes, c.to.integers(begins), ends.size() == 1 ? ends[0] : c.add("Concat", ends, {attribute_of("axis", 0)}),
         steps);
}
inline void slice(const exported_call& c) { box(c, {c.word(0)}, {c.word(1)}, {c.word(2)}); }
inline void strided_slice(const exported_call& c) {
  std::vector<std::int64_t> axes, begins, steps;
  for (std::size_t i = 0; i < c.input(0).extents.rank; ++i) {
    const std::int64_t begin = c.word(i), step = c.word(max_rank + i);
    if (begin == 0 && step == 1 && c.input(0).extents[i] == c.def.outputs[0].extents[i]) continue;
    axes.push_back(std::int64_t(i)), begins.push_back(begin), steps.push_back(step);
  }
  box(c, axes, begins, steps);
}
inline void slice_at(const exported_call& c) {
  const std::int64_t axis = c.word(0);
  const std::string begin = text(c, "Reshape(Cast<to=7>(a), [1])", {c.name(1)});
  const std::string n = c.to.extents(shape(c.def.outputs[0].extents[std::size_t(axis)]));
  sliced(c, {axis}, begin, c.add("Add", {begin, n}), {1});
}
inline void padded(const exported_call& c, const char* mode, std::size_t axis, std::int64_t before, std::int64_t after,
                   std::uint64_t bits) {
  const layout order = c.operand(0).order();
  std::vector<std::int64_t> pads(2 * c.input(0).extents.rank, 0);
  const auto place = std::size_t(axis_in(order, std::int64_t(axis)));
  pads[place] = before, pads[pads.size() / 2 + place] = after;
  std::vector<std::string> inputs{c.name(0, order), c.to.integers(pads)};
  if (bits) inputs.push_back(c.to.scalar(c.input(0).type, bits));
  c.set(0, c.add("Pad", inputs, {attribute_of("mode", mode)}), order);
}
inline void pad(const exported_call& c) {
  const auto axis = std::size_t(c.word(0));
  if (c.word(2) != 1) c.refuse("pads between elements, for which ONNX has no operator");
  const std::int64_t before = c.word(1), after = c.to.sample(c.def.outputs[0].extents[axis]) -
                                                 c.to.sample(c.input(0).extents[axis]) - before;
  padded(c, "constant", axis, before, after, std::uint64_t(c.word(3)));
}
inline void pad_border(const exported_call& c) {
  constexpr const char* modes[] = {"reflect", "symmetric", "edge", "wrap"};
  const std::int64_t before = c.word(2), after = c.word(3);
  if (c.word(1) != 1) return padded(c, modes[c.word(1)], std::size_t(c.word(0)), before, after, 0);
  const layout order = c.operand(0).order();  // symmetric
  const std::string x = c.name(0, order);
  const std::int64_t axis = axis_in(order, c.word(0));
  std::vector<std::string> parts{x};
  const auto reversed = [&](std::int64_t begin, std::int64_t end) {
    return c.add("Slice",
                 {x, c.to.integers({begin}), c.to.integers({end}), c.to.integers({axis}), c.to.integers({-1})});
  };
  if (before > 0) parts.insert(parts.begin(), reversed(before - 1, -no_end));
  if (after > 0) parts.push_back(reversed(-1, -1 - after));
  c.set(0, c.add("Concat", parts, {attribute_of("axis", axis)}), order);
}
inline void concat(const exported_call& c) {
  if (c.word(1) != 1) c.refuse("joins matrices along a diagonal, for which ONNX has no operator");
  layout order;
  for (std::size_t k = 0; k < c.def.inputs.size() && order.empty(); ++k) order = c.operand(k).order();
  std::vector<std::string> parts;
  for (std::size_t k = 0; k < c.def.inputs.size(); ++k) parts.push_back(c.name(k, order));
  c.set(0, c.add("Concat", parts, {attribute_of("axis", axis_in(order, c.word(0)))}), order);
}
inline void split(const exported_call& c) {
  if (c.word(1) != 1) c.refuse("takes matrices from a diagonal, for which ONNX has no operator");
  const layout order = c.operand(0).order();
  const auto axis = std::size_t(c.word(0));
  std::vector<std::string> inputs{c.name(0, order)};
  std::vector<attribute> attributes{attribute_of("axis", axis_in(order, c.word(0)))};
  std::vector<std::int64_t> parts;
  for (const auto& o : c.def.outputs) parts.push_back(c.to.known(o.extents[axis]));
  if (*std::min_element(parts.begin(), parts.end()) >= 0)
    inputs.push_back(c.to.integers(parts));
  else
    attributes.push_back(attribute_of("num_outputs", std::int64_t(parts.size())));
  c.to.add(c.in.to, "Split", inputs, attributes, parts.size());
  const std::vector<std::string> outputs = c.in.to.nodes.back().outputs;
  for (std::uint32_t o = 0; o < parts.size(); ++o) c.set(o, outputs[o], order);
}
inline void reverse(const exported_call& c) {
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < c.input(0).extents.rank; ++i)
    if ((c.word(0) >> i) & 1) axes.push_back(std::int64_t(i));
  box(c, axes, std::vector<std::int64_t>(axes.size(), -1), std::vector<std::int64_t>(axes.size(), -1));
}
inline void roll(const exported_call& c) {
  const layout order = c.operand(0).order();
  std::string x = c.name(0, order);
  for (std::size_t i = 0; i < c.input(0).extents.rank; ++i) {
    std::int64_t by = c.word(i);
    if (by == 0) continue;
    if (const std::int64_t n = c.to.known(c.input(0).extents[i]); n > 0) by = (by % n + n) % n;
    if (by == 0) continue;
    const std::int64_t axis = axis_in(order, std::int64_t(i));
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return c.add("Slice", {x, c.to.integers({from}), c.to.integers({to}), c.to.integers({axis})});
    };
    x = c.add("Concat", {part(-by, no_end), part(0, -by)}, {attribute_of("axis", axis)});
  }
  c.set(0, x, order);
}
inline void shape_of(const exported_call& c) { c.set(0, c.to.extents(c.input(0).extents)); }
inline void size(const exported_call& c) {
  c.set(0, c.add("ReduceProd", {c.to.extents(c.input(0).extents)}, {attribute_of("keepdims", 0)}));
}
/// Returns the indices of operand 1; `skipped` replaces those out of range, if the operation skips them.
inline std::string indices(const exported_call& c, const std::string& skipped) {
  const std::string at = cast(c, c.name(1), dtype::int64);
  if (skipped.empty()) return at;
  return text(c, "Where(And(GreaterOrEqual(a, 0L), Less(a, b)), a, b)", {at, skipped});
}
inline bool skips(const exported_call& c) { return c.word(3) == 1 || c.word(3) == 2; }
/// Broadcasts an operand.
inline std::string expanded(const exported_call& c, std::size_t k, const shape& to) {
  return c.input(k).extents == to ? c.name(k) : c.add("Expand", {c.name(k), c.to.extents(to)});
}
inline void batch_gather(const exported_call& c) {
  const std::int64_t axis = c.word(0), batch = c.word(1);
  if (c.word(2)) {  // one index for each element
    shape from = c.def.outputs[0].extents;
    from[std::size_t(axis)] = c.input(0).extents[std::size_t(axis)];
    return c.set(0, c.add("GatherElements", {expanded(c, 0, from), expanded(c, 1, c.def.outputs[0].extents)},
                          {attribute_of("axis", axis)}));
  }
  if (axis != batch)
    c.refuse("gathers along an axis after others, for which ONNX has no operator: transpose the axis to the front");
  std::string x = c.name(0), skipped;
  if (skips(c)) {  // a row of zeros
    skipped = c.to.extents(c.input(0).extents, 0, 1);
    std::vector<std::int64_t> pads(2 * c.input(0).extents.rank, 0);
    pads[pads.size() / 2] = 1;
    x = c.add("Pad", {x, c.to.integers(pads)});
  }
  std::string at = indices(c, skipped);
  if (c.def.outputs[0].extents.rank + std::size_t(batch) + 1 == c.input(0).extents.rank + c.input(1).extents.rank)
    at = c.add("Unsqueeze", {at, c.to.integers({-1})});
  c.set(0, c.add("GatherND", {x, at}, {attribute_of("batch_dims", batch)}));
}
inline void scatter(const exported_call& c) {
  constexpr const char* reductions[] = {"none", "add", "mul", "min", "max"};
  const auto how = std::size_t(c.def.attributes.size() > 5 ? c.word(5) : 1);
  const std::int64_t axis = c.word(0);
  const shape& to = c.def.outputs[0].extents;
  const bool is_new = c.def.inputs.size() < 3;
  const dtype type = c.input(0).type;
  const attribute reduction = attribute_of("reduction", reductions[how]);
  std::string begin, skipped, extents = c.to.extents(to);
  if (is_new) {
    if (skips(c)) {  // a row that is cut off
      skipped = c.to.extents(to, 0, 1);
      extents = c.add("Concat", {c.add("Add", {skipped, c.to.integers({1})}), c.to.extents(to, 1)},
                      {attribute_of("axis", 0)});
    }
    // As TensorFlow, minima and maxima of sorted segments begin with infinity.
    std::string first = how > 2 ? c.to.extreme(type, how == 3) : c.to.number(type, how == 2);
    if (how > 2 && c.word(3) != 3 && (type == dtype::float32 || type == dtype::float64)) {
      const double most = type == dtype::float32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
      first = c.to.number(type, how == 4 ? -most : most);
    }
    begin = c.add("Expand", {first, extents});
  }
  if (c.word(2))
    return c.set(0, c.add("ScatterElements", {is_new ? begin : c.name(2), c.name(1), c.name(0)},
                          {attribute_of("axis", axis), reduction}));
  layout order = counted(to.rank);
  order.erase(order.begin() + axis);
  order.insert(order.begin(), axis);
  if (c.word(1) != 0 || (axis != 0 && (is_new || c.input(0).extents.rank != to.rank)))
    c.refuse("scatters along an axis after others, for which ONNX has no operator: transpose the axis to the front");
  std::string at = indices(c, skipped);
  if (c.input(0).extents.rank + 1 == to.rank + c.input(1).extents.rank)
    at = c.add("Unsqueeze", {at, c.to.integers({-1})});
  std::string x =
      c.add("ScatterND", {is_new ? begin : c.name(2, order), at, c.name(0, axis ? order : layout())}, {reduction});
  if (!skipped.empty()) x = c.add("Slice", {x, c.to.integers({0}), skipped});
  c.set(0, x, order);
}
/// Exports the form of a step along an axis: "scan_rows(first; value)". In the value, a is the previous result, and b
/// the next element. With two results, which are a and b, c is the next element, and d its index.
inline void scan_rows(const exported_call& c) {
  const std::int64_t axis = c.word(0), exclusive = c.word(1), reverse = c.word(2);
  const std::size_t count = c.def.outputs.size();
  weft::value_info row = c.input(0);
  row.extents = {};
  for (std::size_t i = 0; i < c.input(0).extents.rank; ++i)
    if (std::int64_t(i) != axis) row.extents.push_back(c.input(0).extents[i]);
  graph body;
  body.name = c.to.unique(c.base);
  exporter::scope inside{c.in.g, body};
  const exported_call step{c.to, inside, c.def, c.wanted, c.base};
  std::vector<std::string> inputs, given;
  const auto add_input = [&](const weft::value_info& info, const std::string& outside) {
    given.push_back(c.to.input(body, info, "row")->places[0].name);
    inputs.push_back(outside);
  };
  form_reader first(c, std::strchr(c.def.op->onnx, '(') + 1, row.type, row.type, {}, {});
  for (std::size_t o = 0; o < count; ++o) {
    const std::string x = o == 0 ? first.value() : c.to.number(c.def.outputs[o].type, 0);
    add_input({c.def.outputs[o].type, row.extents}, c.add("Expand", {x, c.to.extents(row.extents)}));
  }
  std::vector<std::int64_t> axes{axis};
  add_input(row, c.name(0));
  if (count > 1) {
    axes.push_back(0);
    const dtype type = c.def.outputs[1].type;
    add_input({type, {}}, cast(c, indices_of(c, c.input(0).extents[std::size_t(axis)]), type));
  }
  form_reader text(step, std::strchr(c.def.op->onnx, ';') + 1, row.type, row.type, {},
                   [&](std::size_t k) { return given[k]; });
  const std::vector<std::string> next = text.values();
  for (std::size_t o = 0; o < 2 * count; ++o)
    c.to.return_value(body, o >= count && exclusive ? given[o - count] : next[o % count],
                      {c.def.outputs[o % count].type, row.extents});
  const auto same = [&](const char* name, std::int64_t x, std::size_t n) {
    return attribute_of(name, std::vector<std::int64_t>(n, x));
  };
  const std::size_t rows = axes.size();
  c.to.add(c.in.to, "Scan", inputs,
           {attribute_of("body", std::move(body)), attribute_of("num_scan_inputs", std::int64_t(rows)),
            attribute_of("scan_input_axes", axes), same("scan_output_axes", axis, count),
            same("scan_input_directions", reverse, rows), same("scan_output_directions", reverse, count)},
           2 * count);
  const std::vector<std::string> outputs = c.in.to.nodes.back().outputs;
  for (std::uint32_t o = 0; o < count; ++o) c.set(o, outputs[count + o]);
}
/// Exports a Fourier transform along the last axis. ONNX has none from half of the conjugates to real numbers.
inline void fourier(const exported_call& c) {
  const bool from_real = c.def.inputs.size() == 1, to_real = c.def.outputs.size() == 1, inverse = c.word(2);
  if (real_word(c, 1) != (inverse ? -1 : 1) || c.word(3) != to_real)
    c.refuse("is the gradient of a transform: export the model without its gradients");
  const auto part = [&](std::size_t k) {
    std::string x = c.name(k);
    if (to_real) {  // the others: elements n - m down to 1
      const std::string last = c.to.integers({c.word(0) - c.word(0) / 2 - 1});
      x = text(c,
               k ? "Concat<axis=-1>(a, Neg(Slice(a, b, [0], [-1], [-1])))"
                 : "Concat<axis=-1>(a, Slice(a, b, [0], [-1], [-1]))",
               {x, last});
    }
    return text(c, "Unsqueeze(a, [-1])", {x});
  };
  const std::string x = from_real ? part(0) : c.add("Concat", {part(0), part(1)}, {attribute_of("axis", -1)});
  std::string y = c.add("DFT", {x, "", c.to.scalar(dtype::int64, std::uint64_t(-2))},
                        {attribute_of("inverse", int{inverse}), attribute_of("onesided", int{from_real})});
  for (std::uint32_t o = 0; o < c.def.outputs.size(); ++o)
    c.set(o, c.add("Gather", {y, c.to.scalar(dtype::int64, o)}, {attribute_of("axis", -1)}));
}
/// Counts the sorted values that precede each value.
inline void searchsorted(const exported_call& c) {
  const char* const form =
      c.word(0) ? "ReduceSum<keepdims=0>(Cast<to=6>(LessOrEqual(Unsqueeze(a, [-2]), Unsqueeze(b, [-1]))), [-1])"
                : "ReduceSum<keepdims=0>(Cast<to=6>(Less(Unsqueeze(a, [-2]), Unsqueeze(b, [-1]))), [-1])";
  c.set(0, text(c, form, {c.name(0), c.name(1)}));
}
/// Exports diagonals of matrices, or matrices of diagonals, by a mask of the matrix: the columns less the rows are the
/// offset.
inline void diagonal(const exported_call& c) {
  const bool back = c.def.outputs[0].extents.rank > c.input(0).extents.rank;
  const shape& matrix = back ? c.def.outputs[0].extents : c.input(0).extents;
  const std::size_t last = matrix.rank - 1;
  const std::int64_t offset = c.word(0), before = offset < 0 ? -offset : 0;
  const std::string mask =
      text(c, "Equal(a, Add(Unsqueeze(b, [1]), $0))", {indices_of(c, matrix[last]), indices_of(c, matrix[last - 1])});
  const std::string zero = c.to.number(c.input(0).type, 0);
  if (!back)
    return c.set(
        0, text(c, "Slice(ReduceSum<keepdims=0>(Where(a, b, c), [-1]), d, Add(e, d), [-1])",
                {mask, c.name(0), zero, c.to.integers({before}), c.to.extents(c.def.outputs[0].extents, last - 1)}));
  // Pads the diagonal to one element per row. Rows that it does not cross get zeros.
  std::vector<std::int64_t> pads(2 * last, 0);
  pads[last - 1] = before;
  pads[2 * last - 1] = c.to.sample(matrix[last - 1]) - c.to.sample(c.input(0).extents[last - 1]) - before;
  c.set(0, text(c, "Where(a, Unsqueeze(Pad(b, c), [-1]), d)", {mask, c.name(0), c.to.integers(pads), zero}));
}
inline void sort(const exported_call& c) {
  const layout order = c.operand(0).order();
  const std::string k = c.to.extents(shape(c.def.outputs[0].extents[std::size_t(c.word(0))]));
  c.to.add(c.in.to, "TopK", {c.name(0, order), k},
           {attribute_of("axis", axis_in(order, c.word(0))), attribute_of("largest", c.word(1) != 0)}, 2);
  const std::vector<std::string> outputs = c.in.to.nodes.back().outputs;
  c.set(0, outputs[0], order);
  if (c.is_wanted(1)) c.set(1, cast(c, outputs[1], c.def.outputs[1].type), order);
}

// ---- products ----

inline void matmul(const exported_call& c) {
  const auto operand = [&](std::size_t k) {
    layout order = counted(c.input(k).extents.rank);
    if (c.word(k)) std::swap(order[order.size() - 1], order[order.size() - 2]);
    return k == 1 && order.size() == 2 ? c.weights(1, order, std::size_t(order[1])) : c.name(k, order);
  };
  if (c.input(0).extents.rank > 2 && c.def.outputs[0].extents.rank == 2)
    c.refuse("sums the products of many matrices, as gradients do: export the model without its gradients");
  c.set(0, c.add("MatMul", {operand(0), operand(1)}));
}
inline void attention(const exported_call& c) {
  const bool causal = c.word(0) != 0, alibi = c.word(1) != 0;
  const std::int64_t window = c.word(2);
  double scale = real_word(c, 3);
  int next = 3;
  const int mask = c.word(4) ? next++ : -1, lengths = c.word(5) ? next++ : -1, positions = c.word(6) ? next++ : -1;
  const shape &q = c.input(0).extents, &k = c.input(1).extents;
  const dtype type = c.input(0).type;
  if (scale == 0) scale = 1 / __builtin_sqrt(static_cast<double>(number_of(c, q[3])));
  const auto heads = [&](std::size_t operand) {
    std::string x = c.name(operand);
    const shape& e = c.input(operand).extents;
    if (e[1] == q[1]) return x;
    const std::int64_t each = number_of(c, q[1]) / number_of(c, e[1]);
    return text(c, "Reshape(Expand(Unsqueeze(a, [2]), b), c)",
                {x, c.to.extents(shape(e[0], e[1], each, e[2], e[3])), c.to.extents(shape(e[0], q[1], e[2], e[3]))});
  };
  const std::string keys = k[1] == q[1] ? c.name(1, {0, 1, 3, 2})
                                        : c.add("Transpose", {heads(1)}, {attribute_of("perm", layout{0, 1, 3, 2})});
  std::string scores = text(c, "Mul(MatMul(a, b), c)", {c.name(0), keys, c.to.number(type, scale)});
  std::string attended;
  const auto keep_where = [&](const char* form, const std::vector<std::string>& operands) {
    const std::string also = text(c, form, operands);
    attended = attended.empty() ? also : c.add("And", {attended, also});
  };
  const std::string columns = causal || alibi || window > 0 || lengths >= 0 ? indices_of(c, k[2]) : "";
  if (causal || alibi || window > 0) {
    std::string places = text(c, "Unsqueeze(a, [1])", {indices_of(c, q[2])});
    if (positions >= 0) {
      const bool for_each = c.input(std::size_t(positions)).extents.rank == 1;
      places = text(c, for_each ? "Add(a, Unsqueeze(Cast<to=7>(b), [1, 2, 3]))" : "Add(a, Cast<to=7>(b))",
                    {places, c.name(std::size_t(positions))});
    }
    if (alibi)  // slopes for heads h: 2^(-8 h / heads)
      scores = text(c, "Sub(a, Mul(Exp(Mul(Cast<to=type>(Unsqueeze(b, [1, 2])), c)), Cast<to=type>(Abs(Sub(d, e)))))",
                    {scores, c.to.integers(counted(std::size_t(number_of(c, q[1])), 1)),
                     c.to.number(type, -5.545177444479562 / static_cast<double>(number_of(c, q[1]))), places, columns});
    if (causal) keep_where("LessOrEqual(a, b)", {columns, places});
    if (window > 0)
      keep_where("Greater(a, Sub(b, c))", {columns, places, c.to.scalar(dtype::int64, std::uint64_t(window))});
  }
  if (lengths >= 0) keep_where("Less(a, Unsqueeze(Cast<to=7>(b), [1, 2, 3]))", {columns, c.name(std::size_t(lengths))});
  if (mask >= 0) {
    const std::string given = c.name(std::size_t(mask));
    const bool adds = c.input(std::size_t(mask)).type != dtype::boolean;
    if (adds) scores = c.add("Add", {scores, given});
    keep_where(adds ? "Not(IsInf(a))" : "a", {given});
  }
  if (!attended.empty()) scores = c.add("Where", {attended, scores, c.to.extreme(type, false)});
  std::string weights = c.add("Softmax", {scores}, {attribute_of("axis", -1)});
  if (!attended.empty()) weights = text(c, "Where(a, b, 0)", {attended, weights});
  c.set(0, c.add("MatMul", {weights, heads(2)}));
}

// ---- images ----

/// Windows in images, from the words 0 to 7 of a call.
struct windows {
  std::vector<std::int64_t> kernel, strides, dilations, pads;
  bool vary = false;  ///< true if the paddings depend on extents that are not numbers; pads are then an example

  windows(const exported_call& c, std::vector<std::int64_t> of, const shape& image)
      : kernel(std::move(of)), pads(2 * kernel.size()) {
    const std::size_t axes = kernel.size(), first = 2 - axes;
    for (std::size_t i = 0; i < axes; ++i) {
      strides.push_back(c.word(first + i)), dilations.push_back(c.word(2 + first + i));
      pads[i] = c.word(4 + 2 * (first + i)), pads[axes + i] = c.word(5 + 2 * (first + i));
      if (pads[i] >= 0) continue;
      vary = vary || c.to.known(image[1 + i]) < 0;
      const auto along =
          weft::detail::place_windows(c.to.sample(image[1 + i]), kernel[i], strides[i], dilations[i], true, 0, 0);
      pads[i] = along.before, pads[axes + i] = along.after;
    }
  }

  std::vector<attribute> attributes() const {
    return {attribute_of("kernel_shape", kernel), attribute_of("strides", strides),
            vary ? attribute_of("auto_pad", "SAME_UPPER") : attribute_of("pads", pads),
            attribute_of("dilations", dilations)};
  }
};
/// Returns the name of filters `[..., in, out]` as `[out, in, ...]`.
inline std::string filters(const exported_call& c, std::size_t k) {
  const auto rank = std::int64_t(c.input(k).extents.rank);
  layout order{rank - 1, rank - 2};
  for (std::int64_t i = 0; i + 2 < rank; ++i) order.push_back(i);
  return c.weights(k, order, std::size_t(order[k ? 0 : 1]));  // those of operand 0 are transposed
}
inline std::vector<std::int64_t> kernel_of(const exported_call& c, std::size_t k) {
  std::vector<std::int64_t> kernel;
  const shape& extents = c.input(k).extents;
  for (std::size_t i = 0; i + 2 < extents.rank; ++i) kernel.push_back(extents[i]);
  return kernel;
}
/// Adds a convolution. One filter has an empty third operand until add_biases, which cannot know all filters.
inline void add_convolution(const exported_call& c, const char* operation, std::vector<std::string> operands,
                            std::vector<attribute> attributes) {
  const shape& image = c.def.outputs[0].extents;
  if (c.to.known(image[image.rank - 1]) == 1) operands.emplace_back();
  c.set(0, c.add(operation, std::move(operands), std::move(attributes)), channels_first(image.rank));
}
inline void convolution(const exported_call& c) {
  const layout order = channels_first(c.input(0).extents.rank);
  const std::size_t rank = order.size();
  std::vector<attribute> attributes = windows(c, kernel_of(c, 1), c.input(0).extents).attributes();
  const std::int64_t groups = c.def.attributes.size() > 8 ? c.word(8) : 1;
  if (groups > 1) attributes.push_back(attribute_of("group", groups));
  const shape& f = c.input(1).extents;
  const bool depthwise = groups > 1 && f[rank - 2] != number_of(c, c.input(0).extents[rank - 1]) / groups;
  std::string w;
  if (!depthwise) {
    w = filters(c, 1);
  } else {  // [..., channels, each]
    layout by_channel{std::int64_t(rank) - 2, std::int64_t(rank) - 1};
    for (std::size_t i = 0; i + 2 < rank; ++i) by_channel.push_back(std::int64_t(i));
    shape whole(f[rank - 2] * f[rank - 1], 1);
    for (std::size_t i = 0; i + 2 < rank; ++i) whole.push_back(f[i]);
    w = c.weights(1, by_channel, rank - 2);
    if (f[rank - 1] != 1) w = c.add("Reshape", {w, c.to.extents(whole)});
  }
  add_convolution(c, "Conv", {c.name(0, order), w}, std::move(attributes));
}
inline void transposed_convolution(const exported_call& c) {
  const shape &image = c.def.outputs[0].extents, &from = c.input(1).extents;
  const layout order = channels_first(image.rank);
  if (c.def.attributes.size() > 8)
    c.refuse("is the gradient of a grouped convolution: export the model without its gradients");
  const windows w(c, kernel_of(c, 0), image);
  std::vector<std::int64_t> more;
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    const std::int64_t n = w.vary ? number_of(c, image[1 + i]) : c.to.sample(image[1 + i]);
    more.push_back(n + w.pads[i] + w.pads[w.kernel.size() + i] - (c.to.sample(from[1 + i]) - 1) * w.strides[i] -
                   (w.kernel[i] - 1) * w.dilations[i] - 1);
  }
  std::vector<attribute> attributes = w.attributes();
  attributes.push_back(attribute_of("output_padding", more));
  add_convolution(c, "ConvTranspose", {c.name(1, order), filters(c, 0)}, std::move(attributes));
}
/// `uneven`: reduces windows of different sizes.
inline void pool(const exported_call& c, const char* operation, const char* uneven, std::vector<attribute> more) {
  const shape &from = c.input(0).extents, &to = c.def.outputs[0].extents;
  const layout order = channels_first(from.rank);
  std::vector<std::int64_t> kernel{c.word(8), c.word(9)};
  std::vector<attribute> attributes;
  if (kernel[0] == 0) {  // adaptive
    std::vector<std::int64_t> strides;
    bool is_even = true;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t n = number_of(c, from[1 + i]), count = number_of(c, to[1 + i]);
      is_even = is_even && n % count == 0;
      strides.push_back(kernel[i] = n / count);
    }
    if (!is_even) {  // reduces rows, then columns
      std::string x = c.name(0, order);
      for (std::size_t i = 0; i < 2; ++i) {
        const std::int64_t n = number_of(c, from[1 + i]), count = number_of(c, to[1 + i]);
        std::vector<std::string> parts;
        const std::string axis = c.to.integers({std::int64_t(i) + 2});
        for (std::int64_t k = 0; k < count; ++k) {
          const std::string begin = c.to.integers({k * n / count}),
                            end = c.to.integers({((k + 1) * n + count - 1) / count});
          parts.push_back(c.add(uneven, {c.add("Slice", {x, begin, end, axis}), axis}));
        }
        x = c.add("Concat", parts, {attribute_of("axis", std::int64_t(i) + 2)});
      }
      return c.set(0, x, order);
    }
    attributes = {attribute_of("kernel_shape", kernel), attribute_of("strides", strides)};
  } else {
    attributes = windows(c, kernel, from).attributes();
  }
  attributes.insert(attributes.end(), more.begin(), more.end());
  c.set(0, c.add(operation, {c.name(0, order)}, std::move(attributes)), order);
}
inline void max_pool(const exported_call& c) { pool(c, "MaxPool", "ReduceMax", {}); }
inline void average_pool(const exported_call& c) {
  pool(c, "AveragePool", "ReduceMean", {attribute_of("count_include_pad", c.word(10))});
}
inline void resample(const exported_call& c) {
  const auto axis = std::size_t(c.word(0));
  constexpr const char* coordinates[] = {"half_pixel", "align_corners", "asymmetric"};
  const std::int64_t filter = c.word(1);
  if (c.word(3) || filter == 4)
    c.refuse("resizes in a way for which ONNX has no mode: use bilinear or bicubic interpolation");
  const layout order = channels_first(c.input(0).extents.rank);
  shape extents = c.input(0).extents;
  extents[axis] = c.def.outputs[0].extents[axis];
  shape ordered;
  for (const std::int64_t of : order) ordered.push_back(extents[std::size_t(of)]);
  std::vector<attribute> attributes{attribute_of("mode", filter == 0 || filter == 2 ? "linear" : "cubic"),
                                    attribute_of("coordinate_transformation_mode", coordinates[c.word(2)])};
  if (filter == 1) attributes.push_back(attribute_of("cubic_coeff_a", -0.75));
  if (filter == 3) attributes.push_back(attribute_of("cubic_coeff_a", -0.5));
  if (filter == 2 || filter == 3)
    attributes.push_back(attribute_of("antialias", 1)), attributes.push_back(attribute_of("exclude_outside", 1));
  c.set(0, c.add("Resize", {c.name(0, order), "", "", c.to.extents(ordered)}, std::move(attributes)), order);
}
/// Exports patches: a strided slice of the padded images for each pixel of a window, concatenated along the channels.
inline void unfold(const exported_call& c) {
  const shape &from = c.input(0).extents, &to = c.def.outputs[0].extents;
  if (c.word(10)) c.refuse("orders patches by channels, for which ONNX has no operator: use depth_order::dcr");
  const windows w(c, {c.word(8), c.word(9)}, from);
  const auto &kernel = w.kernel, &strides = w.strides, &pads = w.pads, &dilations = w.dilations;
  const std::string x = c.add("Pad", {c.name(0), c.to.integers({0, pads[0], pads[1], 0, 0, pads[2], pads[3], 0})});
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < kernel[0] * kernel[1]; ++i) {
    std::vector<std::int64_t> begin{i / kernel[1] * dilations[0], i % kernel[1] * dilations[1]}, end;
    for (std::size_t k = 0; k < 2; ++k) end.push_back(begin[k] + (number_of(c, to[1 + k]) - 1) * strides[k] + 1);
    parts.push_back(
        c.add("Slice", {x, c.to.integers(begin), c.to.integers(end), c.to.integers({1, 2}), c.to.integers(strides)}));
  }
  c.set(0, parts.size() == 1 ? parts[0] : c.add("Concat", parts, {attribute_of("axis", 3)}));
}

/// Exports sums of patches, whose columns ONNX has before their places.
inline void fold(const exported_call& c) {
  const shape &from = c.input(0).extents, &to = c.def.outputs[0].extents;
  const windows w(c, {c.word(8), c.word(9)}, to);
  const std::int64_t pixels = w.kernel[0] * w.kernel[1], channels = number_of(c, to[3]);
  const std::int64_t count = number_of(c, from[1]) * number_of(c, from[2]);
  const bool by_channel = c.word(10);
  const shape apart = by_channel ? shape(from[0], count, channels, pixels) : shape(from[0], count, pixels, channels);
  const std::string columns = c.add("Transpose", {c.add("Reshape", {c.name(0), c.to.extents(apart)})},
                                    {attribute_of("perm", by_channel ? layout{0, 2, 3, 1} : layout{0, 3, 2, 1})});
  const std::string size = c.to.integers({number_of(c, to[1]), number_of(c, to[2])});
  c.set(
      0,
      c.add("Col2Im",
            {c.add("Reshape", {columns, c.to.extents(shape(from[0], channels * pixels, count))}), size,
             c.to.integers(w.kernel)},
            {attribute_of("dilations", w.dilations), attribute_of("pads", w.pads), attribute_of("strides", w.strides)}),
      channels_first(4));
}
/// Exports samples of images by a grid, which only their sums read.
inline void grid_taps(const exported_call& c) {
  for (const std::uint32_t o : {0u, 1u}) c.set_refused(o, "has an ONNX form only in grid_sample");
}
inline void sample(const exported_call& c) {
  const auto source = [&](value v) {
    while (c.in.g[v.node].def.op->alias) v = c.in.g[v.node].def.inputs[0];
    return v;
  };
  const value taps = source(c.def.inputs[1]);
  const node_def& grid = c.in.g[taps.node].def;
  if (std::string_view(grid.op->name) != "grid_taps" || source(c.def.inputs[2]).node != taps.node ||
      source(c.def.inputs[0]) != source(grid.inputs[1]) || grid.attributes[2] > 1 || grid.attributes[3] ||
      grid.attributes[4] || grid.attributes[5])
    c.refuse("samples images in a way for which ONNX has no operator: use grid_sample");
  constexpr const char *modes[] = {"nearest", "linear", "cubic"}, *borders[] = {"zeros", "border", "reflection"};
  const std::size_t rank = c.in.g.info(grid.inputs[1]).extents.rank;
  layout channels_last = counted(rank);
  channels_last.erase(channels_last.begin() + 1), channels_last.push_back(1);
  const auto whole = [&](value v, const layout& order) {
    const auto found = c.in.values.find({v.node, v.output});
    if (found == c.in.values.end()) c.refuse("samples reshaped images: name them by let()");
    return c.to.at(*found->second, order);
  };
  const std::string y =
      c.add("GridSample", {whole(grid.inputs[1], channels_first(rank)), whole(grid.inputs[0], {})},
            {attribute_of("mode", modes[grid.attributes[0]]), attribute_of("padding_mode", borders[grid.attributes[1]]),
             attribute_of("align_corners", grid.attributes[2])});
  c.set(0, c.add("Reshape", {c.add("Transpose", {y}, {attribute_of("perm", channels_last)}),
                             c.to.extents(c.def.outputs[0].extents)}));
}
inline void non_max_suppression(const exported_call& c) {
  const std::int64_t most = c.def.outputs[0].extents[0];
  const std::vector<std::string> operands{c.name(0), c.name(1), c.to.scalar(dtype::int64, std::uint64_t(most)),
                                          c.to.number(dtype::float32, real_word(c, 0)),
                                          c.to.number(dtype::float32, real_word(c, 1))};
  const std::string kept = text(c,
                                "Gather<axis=1>(NonMaxSuppression(Unsqueeze(Cast<to=1>(a), [0]), "
                                "Unsqueeze(Cast<to=1>(b), [0, 1]), c, d, e), 2L)",
                                operands);
  c.set(0, text(c, "Cast<to=6>(Pad(a, Concat<axis=0>([0], Sub(b, Shape(a)))))", {kept, c.to.integers({most})}));
  c.set(1, text(c, "Squeeze(Shape(a))", {kept}));
}

// ---- normalizations ----

inline void layer_normalization(const exported_call& c) {
  const auto axis = std::int64_t(c.input(0).extents.rank - c.input(1).extents.rank);
  c.set(0, c.add("LayerNormalization", {c.name(0), c.name(1), c.name(2)},
                 {attribute_of("axis", axis), attribute_of("epsilon", real_word(c, 0))}));
}
/// Batch normalization by the moments of the batch, which are the second and the third result.
inline void batch_normalization(const exported_call& c) {
  const std::size_t rank = c.input(0).extents.rank;
  const layout order = c.operand(0).order();
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i + 1 < rank; ++i) axes.push_back(axis_in(order, std::int64_t(i)));
  const dtype type = c.input(1).type;
  std::string x = c.name(0, order);
  if (c.input(0).type != type) x = cast(c, x, type);
  const std::string over = c.to.integers(axes), middle = c.add("ReduceMean", {x, over});
  const std::string centred = c.add("Sub", {x, middle}),
                    variance = text(c, "ReduceMean(Mul(a, a), b)", {centred, over});
  const std::string epsilon = c.to.number(type, real_word(c, 0));
  std::string y = text(c, "Add(Mul(Div(a, Sqrt(Add(b, c))), d), e)",
                       {centred, variance, epsilon, c.name(1, order), c.name(2, order)});
  if (c.input(0).type != type) y = cast(c, y, c.input(0).type);
  if (c.def.inputs.size() > 3) y = c.add("Add", {y, c.name(3, order)});
  c.set(0, c.word(1) ? c.add("Relu", {y}) : y, order);
  if (c.is_wanted(1)) c.set(1, text(c, "Reshape(a, [-1])", {middle}));
  if (c.is_wanted(2)) c.set(2, text(c, "Reshape(a, [-1])", {variance}));
}
inline void rms_normalization(const exported_call& c) {
  const std::size_t rank = c.input(0).extents.rank, first = rank - c.input(1).extents.rank;
  const std::string axes = c.to.integers(counted(rank - first, std::int64_t(first)));
  c.set(0, text(c, "Mul(Div(a, Sqrt(Add(ReduceMean(Mul(a, a), b), c))), d)",
                {c.name(0), axes, c.to.number(c.input(0).type, real_word(c, 0)), c.name(1)}));
}

// ---- control flow ----

/// Exports a subgraph as a graph of its own, which reads values of the graphs around it.
inline graph branch(const exported_call& c, const subgraph& b, const std::vector<shared_value>& parameters,
                    const std::vector<bool>& wanted) {
  graph body;
  body.name = c.to.unique(b.name);
  for (const shared_value& r : c.to.add_subgraph(b, body, parameters, wanted))
    c.to.return_value(body, c.to.at(*r, {}), r->info);
  return body;
}
inline void cond(const exported_call& c) {
  std::vector<shared_value> parameters;
  for (std::size_t k = 1; k < c.def.inputs.size(); ++k) parameters.push_back(c.shared(k));
  std::vector<bool> wanted;
  std::size_t outputs = 0;
  for (std::uint32_t o = 0; o < c.def.outputs.size(); ++o) wanted.push_back(c.is_wanted(o)), outputs += c.is_wanted(o);
  const std::string index = c.name(0);
  const dtype type = c.input(0).type;
  const std::size_t count = c.def.subgraphs.size();
  graph rest = branch(c, c.in.g.subgraph_at(c.def.subgraphs[count - 1]), parameters, wanted);
  std::vector<std::string> names;
  for (std::size_t k = count - 1; k-- > 0;) {
    graph next;
    graph& home = k ? next : c.in.to;
    const std::string chosen =
        type == dtype::boolean ? index : c.to.add(home, "Equal", {index, c.to.number(type, static_cast<double>(k))});
    std::vector<attribute> branches;
    branches.push_back(
        attribute_of("then_branch", branch(c, c.in.g.subgraph_at(c.def.subgraphs[k]), parameters, wanted)));
    branches.push_back(attribute_of("else_branch", std::move(rest)));
    c.to.add(home, "If", {chosen}, std::move(branches), outputs);
    names = home.nodes.back().outputs;
    if (k == 0) break;
    next.name = c.to.unique("case");
    for (std::uint32_t o = 0, i = 0; o < wanted.size(); ++o)
      if (wanted[o]) next.outputs.push_back(c.to.described(names[i++], c.def.outputs[o]));
    rest = std::move(next);
  }
  for (std::uint32_t o = 0, i = 0; o < wanted.size(); ++o)
    if (wanted[o]) c.set(o, names[i++]);
}
inline void loop(const exported_call& c) {
  const weft::detail::loop_signature s(c.def);
  const subgraph& of_body = c.in.g.subgraph_at(c.def.subgraphs.back());
  std::vector<bool> wanted(of_body.results.size(), false);
  for (std::size_t r = 0; r < wanted.size(); ++r)
    wanted[r] = r < s.variables || c.is_wanted(static_cast<std::uint32_t>(s.row_out(r - s.variables)));
  const bool is_scan = s.is_exact() && s.rows_read > 0;
  if (!is_scan && s.rows_read > 0) c.refuse("is the gradient of a loop: export the model without its gradients");

  graph body;
  body.name = c.to.unique(of_body.name);
  std::vector<shared_value> now, invariants;
  if (!is_scan) {
    c.to.input(body, {dtype::int64, {}}, "iteration");
    c.to.input(body, {dtype::boolean, {}}, "continues");
  }
  for (std::size_t j = 0; j < s.variables; ++j) now.push_back(c.to.input(body, c.input(s.variable_in(j)), "variable"));
  std::vector<shared_value> parameters = now;
  for (std::size_t r = 0; r < s.rows_read; ++r)
    parameters.push_back(c.to.input(body, weft::detail::row_of(c.input(s.row_in(r))), "row"));
  for (std::size_t k = s.invariant_in(0); k < c.def.inputs.size(); ++k) invariants.push_back(c.shared(k));
  parameters.insert(parameters.end(), invariants.begin(), invariants.end());

  std::vector<std::string> inputs;
  std::vector<attribute> attributes;
  if (!is_scan) {
    std::string count;
    if (s.counted)
      count = c.name(0);
    else if (s.is_bounded())
      count = c.add("Squeeze", {c.to.extents(shape(std::int64_t{s.max_iterations})), c.to.integers({0})});
    inputs = {count, ""};
  }
  const auto continues = [&](graph& to, std::vector<shared_value> variables) {
    variables.insert(variables.end(), invariants.begin(), invariants.end());
    return c.to.add_subgraph(c.in.g.subgraph_at(c.def.subgraphs[0]), to, variables, {true})[0];
  };
  if (s.conditional) {
    std::vector<shared_value> first;
    for (std::size_t j = 0; j < s.variables; ++j) first.push_back(c.shared(s.variable_in(j)));
    inputs[1] = c.to.at(*continues(c.in.to, first), {});
  }
  for (std::size_t j = 0; j < s.variables + s.rows_read; ++j) inputs.push_back(c.name(s.variable_in(j)));
  const std::vector<shared_value> results = c.to.add_subgraph(of_body, body, parameters, wanted);
  if (!is_scan) {
    const auto variables = results.begin() + static_cast<std::ptrdiff_t>(s.variables);
    const std::string again =
        s.conditional ? c.to.at(*continues(body, {results.begin(), variables}), {}) : body.inputs[1].name;
    c.to.return_value(body, again, {dtype::boolean, {}});
  }
  for (const shared_value& r : results) c.to.return_value(body, c.to.at(*r, {}), r->info);
  const std::size_t stacked = results.size() - s.variables;
  if (stacked > 0 && !is_scan && !s.is_exact()) c.refuse("stacks rows of an unknown number of iterations");
  attributes.push_back(attribute_of("body", std::move(body)));
  if (is_scan) {
    attributes.push_back(attribute_of("num_scan_inputs", std::int64_t(std::size_t{s.rows_read})));
    if (s.backwards) {
      attributes.push_back(attribute_of("scan_input_directions", std::vector<std::int64_t>(s.rows_read, 1)));
      if (stacked) attributes.push_back(attribute_of("scan_output_directions", std::vector<std::int64_t>(stacked, 1)));
    }
  }
  c.to.add(c.in.to, is_scan ? "Scan" : "Loop", std::move(inputs), std::move(attributes), results.size());
  const std::vector<std::string> outputs = c.in.to.nodes.back().outputs;
  for (std::uint32_t r = 0, i = 0; r < wanted.size(); ++r)
    if (wanted[r]) c.set(r, outputs[i++]);
}

}  // namespace forms

inline form_function find_form(std::string_view name) {
  // clang-format off
#define WEFT_FORM(known) if (name == #known) return forms::known;
  WEFT_FORM(map) WEFT_FORM(reduce) WEFT_FORM(fill) WEFT_FORM(range) WEFT_FORM(transpose) WEFT_FORM(reshape) WEFT_FORM(slice)
  WEFT_FORM(strided_slice) WEFT_FORM(slice_at) WEFT_FORM(pad) WEFT_FORM(pad_border) WEFT_FORM(concat)
  WEFT_FORM(split) WEFT_FORM(reverse) WEFT_FORM(roll) WEFT_FORM(shape_of) WEFT_FORM(size)
  WEFT_FORM(batch_gather) WEFT_FORM(scatter) WEFT_FORM(sort) WEFT_FORM(searchsorted) WEFT_FORM(diagonal)
  WEFT_FORM(matmul) WEFT_FORM(attention) WEFT_FORM(convolution) WEFT_FORM(transposed_convolution) WEFT_FORM(max_pool)
  WEFT_FORM(average_pool) WEFT_FORM(resample) WEFT_FORM(unfold) WEFT_FORM(layer_normalization)
  WEFT_FORM(rms_normalization) WEFT_FORM(batch_normalization) WEFT_FORM(cond) WEFT_FORM(loop)
  WEFT_FORM(fold) WEFT_FORM(scan_rows) WEFT_FORM(fourier) WEFT_FORM(sample) WEFT_FORM(grid_taps) WEFT_FORM(non_max_suppression)
#undef WEFT_FORM
  throw error(error_code::internal, "save_onnx",
              {"'", std::string(name),
               "' is not a function of onnx/forms.hpp; ONNX operators begin with a capital letter"});
  // clang-format on
}

}  // namespace weft::onnx::detail
WEFT_COLD_END

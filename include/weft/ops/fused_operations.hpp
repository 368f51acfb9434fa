// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/loop_kernel.hpp>
#include <weft/ops/aliases.hpp>
#include <weft/ops/cpu/fill.hpp>
#include <weft/ops/elementwise/formulas_of_symbols.hpp>
#include <weft/ops/fused.hpp>
#include <weft/tensor/sequence.hpp>

/// The operations that implement all elementwise expressions and their reductions, and the gradients of these.
WEFT_COLD_BEGIN
namespace weft {
namespace detail {

/// Converts a mask of reduced axes to one flag for each kept axis.
inline void kept_axes(std::int64_t reduced, std::size_t rank, bool* kept) {
  for (std::size_t axis = 0; axis < rank; ++axis) kept[axis] = !((reduced >> axis) & 1);
}

inline device::block_function version(const device::block_function (&versions)[3]) {
  return versions[static_cast<std::size_t>(detected_isa())];
}

/// Returns true if a node applies this formula to its operands in order, and does nothing else.
inline bool applies_only(const node_def& c, skeleton::formula_id formula) {
  return c.op->fusion == fusion_kind::expression && c.op->expression && c.detail &&
         skeleton::applies_only(c.op->expression(c.detail)->text, formula);
}

inline const fused* expression_of(const void* detail) { return static_cast<const fused*>(detail); }
inline const fused* reduced_expression(const void* detail) { return static_cast<const fused_reduction*>(detail)->body; }

/// Returns the common iteration space of operands. Throws invalid_argument if run-time extents do not broadcast.
shape broadcast_space(const value_info* operands, std::size_t count);

/// Returns the function that evaluates an expression before a reduction; null if the expression is a plain operand.
inline device::block_function evaluation(const fused& f) { return f.signature.operations ? version(f.map) : nullptr; }

/// Describes a kernel: its task, expression, elements and instruction set.
std::string describe_fused(const char* what, const void* of);
const char* reduction_name(device::reduce_op, bool mean);

/// Returns the bits of a number as an element of a floating-point type.
std::uint64_t element_bits(double number, dtype);

/// An output that accumulates sums is cleared first, so it must not share the buffer of an operand.
bool stores_every_element(const node_def&, const value_info* inputs, const value_info& output);

// ---- symbols ----

/// Records a number as a scalar of the given element type.
symbol as_scalar(op_builder&, double number, dtype);

/// Records a reduction over some axes with the given kernel.
symbol record_reduction(symbol x, axis_set, device::reduce_op, const fused_reduction& kernel);

/// detail: the expression, of type `fused`.
struct elementwise_op {
  static constexpr const char* name = "map";
  static constexpr const char* onnx = "map()";
  static constexpr fusion_kind fusion = fusion_kind::expression;

  static kernel* prepare(const prepare_context&);
  static void gradient(gradient_context&);
  static const fused* expression(const void* detail) { return expression_of(detail); }
  static bool in_place(const node_def& c, const value_info* inputs, const value_info& output) {
    return stores_every_element(c, inputs, output);
  }
};

/// detail: the expression, of type `fused_reduction`.
struct reduction_op {
  static constexpr const char* name = "reduce";
  static constexpr const char* onnx = "reduce()";
  static constexpr operation_id id{"weft.reduce"};
  struct attributes {
    attribute<std::int64_t> reduced;  ///< one bit for each axis
    attribute<device::reduce_op> how;
    attribute<bool> mean;
  };

  static kernel* prepare(const prepare_context&, const attributes&);
  static void gradient(gradient_context&, const attributes&);
  static const fused* expression(const void* detail) { return reduced_expression(detail); }
};

/// The gradients of an expression, or of its sum, with respect to its arguments. Inputs: the arguments, the upstream
/// gradient and, except for a sum, the value. detail: the expression.
struct elementwise_gradient_op {
  static constexpr const char* name = "map_gradient";
  static constexpr fusion_kind fusion = fusion_kind::gradient;
  struct attributes {
    attribute<std::int64_t> reduced;  ///< the axes of a sum, one bit each; otherwise -1
    attribute<bool> mean;
  };
  /// Returns the argument whose gradient an output is; stored after the attributes.
  static std::size_t argument_of(const node_def& c, std::size_t output) {
    return static_cast<std::size_t>(c.attributes[sizeof(attributes) / sizeof(std::int64_t) + output]);
  }

  static kernel* prepare(const prepare_context&, const attributes&);
  static void gradient(gradient_context&, const attributes&);
  static const fused* expression(const void* detail) { return expression_of(detail); }
  static operand_use use(const node_def& c, std::size_t operand) {
    const bool read = (static_cast<const fused*>(c.detail)->gradient_reads() >> operand) & 1;
    return read ? operand_use::read : operand_use::extents;
  }
  static bool in_place(const node_def& c, const value_info* inputs, const value_info& output) {
    return stores_every_element(c, inputs, output);
  }
  /// True for gradients through ReLU, where about half of the elements are zero.
  static bool yields_zeros(const node_def& c) {
    const skeleton::token* const text = static_cast<const fused*>(c.detail)->text;
    return skeleton::contains(text, "relu") || skeleton::contains(text, "relu6");
  }
};

/// A constant value; its extents may be known only when a step runs. literals: the number, a double.
struct fill_op {
  static constexpr const char* name = "fill";
  static constexpr const char* onnx = "fill()";
  static kernel* prepare(const prepare_context&);
};

}  // namespace detail

namespace detail {

inline sequence<symbol> arguments_of(const gradient_context& g, std::size_t count, bool stop) {
  sequence<symbol> arguments;
  for (std::size_t i = 0; i < count; ++i) arguments.push_back(stop ? record_identity(g.input(i)) : g.input(i));
  return arguments;
}

/// Sets the gradients of the inputs. An input that occurs twice has one placeholder, whose gradient covers both.
inline void give(gradient_context& g, const sequence<symbol>& arguments, const sequence<symbol>& results) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    bool first = true;
    for (std::size_t j = 0; j < i; ++j) first = first && !(arguments[j].id() == arguments[i].id());
    if (first && g.needs_gradient(i) && !results[i].is_number()) g.set_gradient(i, results[i]);
  }
}

/// Sets the gradients of a call. `result(i)` expresses output i by other operations on `arguments`, or returns a number
/// if the output has no gradient.
template <class F>
void give_of_outputs(gradient_context& g, const sequence<symbol>& arguments, F result) {
  sequence<symbol> ys, arriving;
  for (std::size_t i = 0; i < g.node.outputs.size(); ++i) {
    if (!g.has_upstream(i)) continue;
    const symbol y = result(i);
    if (y.is_number()) continue;
    ys.push_back(y);
    arriving.push_back(g.upstream(i));
  }
  if (!ys.empty()) give(g, arguments, ys[0].builder()->differentiate(ys, arriving, arguments, true));
}

}  // namespace detail

#if WEFT_DEFINITIONS

namespace detail {

WEFT_DECL shape broadcast_space(const value_info* operands, std::size_t count) {
  shape space;
  for (std::size_t k = 0; k < count; ++k) {
    const shape& s = operands[k].extents;
    if (s.rank > space.rank) {
      shape wider;
      for (std::size_t i = 0; i < s.rank - space.rank; ++i) wider.push_back(1);
      for (std::size_t i = 0; i < space.rank; ++i) wider.push_back(space[i]);
      space = wider;
    }
    for (std::size_t i = 1; i <= s.rank; ++i) {
      auto& extent = space[space.rank - i];
      const auto other = s[s.rank - i];
      if (extent == 1)
        extent = other;
      else if (other != 1 && other != extent)
        throw error(error_code::invalid_argument, "broadcast",
                    {"extents ", to_string(space), " and ", to_string(s), " do not broadcast"});
    }
  }
  return space;
}

WEFT_DECL std::string describe_fused(const char* what, const void* of) {
  const fused& f = *static_cast<const fused*>(of);
  return str_cat({what, " ", skeleton::print(f.text), " ", name(f.type), " ", weft::name(detected_isa())});
}

WEFT_DECL const char* reduction_name(device::reduce_op how, bool mean) {
  switch (how) {
    case device::reduce_op::product:
      return "product";
    case device::reduce_op::maximum:
      return "max";
    case device::reduce_op::minimum:
      return "min";
    default:
      return mean ? "mean" : "sum";
  }
}

/// How a loop traverses an operand that may be a part of a larger array, and the byte at which the part begins.
struct placed_operand {
  device::operand walk;
  std::size_t begin = 0;

  /// `k` numbers the inputs and then the outputs.
  placed_operand(const prepare_context& p, std::size_t k, const value_info& v, const shape& space)
      : walk(device::broadcast_operand(v.type, v.extents, space)) {
    if (!p.parts || p.parts[k].count == 1 || v.extents.elements() == 0) return;
    const operand_part& part = p.parts[k];
    begin = part.number * size_of(v.type);
    for (std::size_t axis = part.axis; axis < v.extents.rank; ++axis)
      begin *= static_cast<std::size_t>(v.extents[axis]);
    for (std::size_t axis = 0; axis < part.axis; ++axis) walk.stride[space.rank - v.extents.rank + axis] *= part.count;
  }
};

inline std::size_t operands_of(const prepare_context& p, const shape& space, device::operand* operands,
                               std::size_t* begins) {
  const std::size_t n = p.node.inputs.size();
  for (std::size_t k = 0; k < n; ++k) {
    const placed_operand o(p, k, p.inputs[k], space);
    operands[k] = o.walk, begins[k] = o.begin;
  }
  return n;
}

WEFT_DECL kernel* elementwise_op::prepare(const prepare_context& p) {
  const auto& f = *static_cast<const fused*>(p.node.detail);
  const shape& space = p.outputs[0].extents;
  device::operand in[device::max_operands];
  std::size_t begins[device::max_operands];
  const std::size_t n = operands_of(p, space, in, begins);
  const placed_operand out(p, n, p.outputs[0], space);
  const auto how = device::reduce_op::store;
  device::loop body(space, n, in, 1, &out.walk, &how, nullptr, version(f.map), nullptr, f.signature.memory_bound);
  const std::size_t elements = space.elements();
  return new device::loop_kernel(static_cast<device::loop&&>(body),
                                 {p.input_slots, p.output_slots, &elements, begins, &out.begin}, p.node.literals,
                                 {"map", &f, describe_fused});
}

WEFT_DECL kernel* reduction_op::prepare(const prepare_context& p, const attributes& a) {
  const auto& r = *static_cast<const fused_reduction*>(p.node.detail);
  const std::size_t n = p.node.inputs.size();
  const shape space = broadcast_space(p.inputs, n);
  device::operand in[device::max_operands];
  std::size_t begins[device::max_operands];
  operands_of(p, space, in, begins);
  bool kept[max_rank];
  kept_axes(a.reduced, space.rank, kept);
  const auto out = device::reduced_operand(p.outputs[0].type, space, kept);
  const device::reduce_op how = a.how;
  device::loop body(space, n, in, 1, &out, &how, &r.arithmetic, evaluation(*r.body), version(r.reduce),
                    r.body->signature.memory_bound);
  const std::size_t results = p.outputs[0].extents.elements();
  auto* k =
      new device::loop_kernel(static_cast<device::loop&&>(body), {p.input_slots, p.output_slots, &results, begins},
                              p.node.literals, {reduction_name(how, a.mean), r.body, describe_fused});
  if (a.mean) k->divide_output(static_cast<double>(space.elements()) / static_cast<double>(results));
  return k;
}

WEFT_DECL kernel* elementwise_gradient_op::prepare(const prepare_context& p, const attributes& a) {
  const auto& f = *static_cast<const fused*>(p.node.detail);
  const bool of_reduction = a.reduced >= 0;
  const std::size_t inputs = p.node.inputs.size(), arguments = f.signature.arguments;
  const value_info& upstream = p.inputs[arguments];
  const shape space = of_reduction ? broadcast_space(p.inputs, arguments) : p.inputs[arguments + 1].extents;
  const std::uint32_t read = f.gradient_reads();
  device::operand in[device::max_operands], out[device::max_operands];
  std::uint32_t in_slots[device::max_operands], out_slots[device::max_operands];
  std::size_t elements[device::max_operands], in_begin[device::max_operands]{}, out_begin[device::max_operands]{};
  for (std::size_t k = 0; k < inputs; ++k) in_slots[k] = p.input_slots[k];
  const auto place = [&](std::size_t k) {
    const placed_operand o(p, k, p.inputs[k], space);
    in[k] = o.walk, in_begin[k] = o.begin;
  };
  if (of_reduction) {
    bool kept[max_rank];
    kept_axes(a.reduced, space.rank, kept);
    in[arguments] = device::reduced_operand(upstream.type, space, kept);
  } else {
    place(arguments);
  }
  for (std::size_t k = 0; k < inputs; ++k) {
    if (k == arguments) continue;
    place(k);
    if ((read >> k) & 1) continue;
    in[k] = in[arguments];  // not read: any valid address works
    in_slots[k] = in_slots[arguments], in_begin[k] = in_begin[arguments];
  }

  // The loop computes every gradient. Gradients that are not requested go to a scratch tile.
  device::reduce_op how[device::max_operands];
  for (std::size_t k = 0; k < arguments; ++k) {
    out[k] = device::operand{p.inputs[k].type, {}};
    how[k] = device::reduce_op::discard;
    out_slots[k] = p.output_slots[0];
    elements[k] = 0;
  }
  for (std::size_t o = 0; o < p.node.outputs.size(); ++o) {
    const std::size_t k = elementwise_gradient_op::argument_of(p.node, o);
    const placed_operand to(p, inputs + o, p.outputs[o], space);
    out[k] = to.walk, out_begin[k] = to.begin;
    const bool whole = p.outputs[o].extents.elements() == space.elements();
    how[k] = whole ? device::reduce_op::store : device::reduce_op::sum;
    out_slots[k] = p.output_slots[o];
    elements[k] = p.outputs[o].extents.elements();
  }
  // Unoptimised code does read the unused arguments, and would read past the end of a narrower upstream gradient. An
  // output has the same number of elements, so it serves instead.
  for (std::size_t k = 0; k < arguments; ++k) {
    if ((read >> k) & 1 || size_of(p.inputs[k].type) <= size_of(upstream.type)) continue;
    const bool stored = how[k] == device::reduce_op::store;
    in[k] = stored ? out[k] : device::operand{p.inputs[k].type, {}};
    if (stored) in_slots[k] = out_slots[k], in_begin[k] = out_begin[k];
  }
  device::loop body(space, inputs, in, arguments, out, how, f.arithmetic, version(f.gradient), nullptr,
                    f.signature.memory_bound);
  auto* k =
      new device::loop_kernel(static_cast<device::loop&&>(body), {in_slots, out_slots, elements, in_begin, out_begin},
                              p.node.literals, {"gradient of", &f, describe_fused});
  if (a.mean)
    k->divide_input(arguments, static_cast<double>(space.elements()) / static_cast<double>(upstream.extents.elements()),
                    upstream.extents.elements(), upstream.type, *f.value_arithmetic);
  return k;
}

WEFT_DECL std::uint64_t element_bits(double number, dtype type) {
  const auto narrow = static_cast<float>(number);
  switch (type) {
    case dtype::float64:
      return literal_bits(number);
    case dtype::float16:
      return half(narrow).bits;
    case dtype::bfloat16:
      return bfloat16(narrow).bits;
    default:
      return literal_bits(narrow);
  }
}

WEFT_DECL kernel* fill_op::prepare(const prepare_context& p) {
  const double number = literal_value<double>(p.node.literals[0]);
  return new fill_kernel(p, number, element_bits(number, p.outputs[0].type));
}

WEFT_DECL bool stores_every_element(const node_def& c, const value_info* inputs, const value_info& output) {
  const std::size_t arguments = static_cast<const fused*>(c.detail)->signature.arguments;
  return broadcast_space(inputs, arguments) == output.extents;
}

// ---- symbols ----

WEFT_DECL symbol as_scalar(op_builder& where, double number, dtype type) {
  if (type == dtype::float64) return where.record_constant(&number, {type, {}}, {});
  if (type == dtype::boolean) {
    const bool b = number != 0;
    return where.record_constant(&b, {type, {}}, {});
  }
  const float f = static_cast<float>(number);
  return where.record_constant(&f, {dtype::float32, {}}, {});
}

template <class Op>
double formula_of_numbers(const symbol* x) {
  const double a = x[0].number();
  if constexpr (requires { Op::of_bools; })
    return Op::apply(a != 0);
  else if constexpr (takes_one<Op, double>)
    return Op::apply(a);
  else if constexpr (takes_two<Op, double>)
    return Op::apply(a, x[1].number());
  else
    return Op::apply(a != 0, x[1].number(), x[2].number());
}

/// Evaluates an operator or a conversion on plain numbers; the functions of `math` handle numbers themselves.
inline double operator_of_numbers(primitive p, const symbol* x) {
  switch (p) {
  #define WEFT_CASE(name, operands) \
    case primitive::name:           \
      return formula_of_numbers<formula::name>(x);
    WEFT_FORMULAS(WEFT_CASE, WEFT_NO_ROW, WEFT_NO_ROW)
  #undef WEFT_CASE
    default:
      return x[0].number();
  }
}

inline const char* name_of(primitive p) {
  #define WEFT_NAME(name, operands) #name,
  static constexpr const char* names[] = {WEFT_FORMULAS(WEFT_NAME, WEFT_NAME, WEFT_NO_ROW) "cast"};
  #undef WEFT_NAME
  return names[static_cast<unsigned>(p)];
}

WEFT_DECL symbol apply_primitive(primitive p, const symbol* operands, std::size_t count, dtype to) {
  op_builder* where = nullptr;
  dtype type = dtype::float32;
  for (std::size_t i = 0; i < count; ++i)
    if (!operands[i].is_number()) {
      where = operands[i].builder();
      if (i > 0 || p != primitive::select) type = operands[i].type();
    }
  if (!where) return symbol(operator_of_numbers(p, operands));
  if (p == primitive::convert && type == to) return operands[0];
  if (p == primitive::select && operands[0].is_number()) return operands[operands[0].number() != 0 ? 1 : 2];
  if (p == primitive::select && operands[1].is_number() && operands[2].is_number())
    type = where->compared_type(operands[0].id());
  const fused* f = where->kernels(p, type, to);
  if (!f)
    throw error(error_code::unimplemented, "gradient",
                {"a gradient formula uses ", name_of(p), ", but its kernel was not compiled for ", name(type),
                 ": list it in `gradient_uses` of the differentiated operation"});
  node_def c;
  c.op = &operation_of<elementwise_op>;
  c.detail = f;
  value_info infos[3];
  for (std::size_t i = 0; i < count; ++i) {
    const symbol x =
        operands[i].is_number() ? as_scalar(*where, operands[i].number(), f->signature.types[i]) : operands[i];
    infos[i] = x.info();
    c.inputs.push_back(x.id());
  }
  c.outputs.push_back({f->type, broadcast_space(infos, count)});
  return where->record(static_cast<node_def&&>(c));
}

WEFT_DECL symbol record_reduction(symbol x, axis_set axes, device::reduce_op how, const fused_reduction& kernel) {
  shape extents;
  for (std::size_t i = 0; i < x.extents().rank; ++i)
    if (!axes.has(i)) extents.push_back(x.extents()[i]);
  return record_call(operation_of<reduction_op>, {x}, {x.type(), extents},
                     words_of(reduction_op::attributes{axes.bits(), how, false}), &kernel);
}

/// Records a part of an expression that has no gradient as one typed kernel: conditions and integers, which symbols
/// cannot compute.
WEFT_DECL symbol record_part(const fused& f, const symbol* arguments, const std::uint64_t* literals) {
  node_def c;
  c.op = &operation_of<elementwise_op>;
  c.detail = &f;
  sequence<value_info> infos;
  for (std::size_t i = 0; i < f.signature.arguments; ++i) {
    c.inputs.push_back(arguments[i].id());
    infos.push_back(arguments[i].info());
  }
  c.outputs = {{f.type, broadcast_space(infos.data(), infos.size())}};
  c.literals.append(literals, f.signature.constants);
  return arguments[0].builder()->record(static_cast<node_def&&>(c));
}

}  // namespace detail

WEFT_DECL symbol sum(symbol x, axis_set axes, bool keep_dims) {
  const std::size_t rank = x.extents().rank;
  if ((axes.bits() >> rank) != 0)
    throw error(error_code::invalid_argument, "sum",
                {"needs axes of ", to_string(x.extents()), ", counted from 0; its rank is ", rank});
  if (axes.bits() == 0) return x;
  const dtype type = x.type();
  if (type == dtype::float16 || type == dtype::bfloat16)
    return math::convert(sum(math::convert(x, dtype::float32), axes, keep_dims), type);
  const fused_reduction* const kernel = x.builder()->sums(type);
  if (!kernel)
    throw error(error_code::unimplemented, "sum",
                {"cannot sum ", name(type), " symbols: gradients must be float or double"});
  const symbol y = detail::record_reduction(x, axes, device::reduce_op::sum, *kernel);
  return keep_dims ? expand_dims(y, axes) : y;
}

WEFT_DECL symbol sum(symbol x) { return sum(x, axis_set::of_bits((std::int64_t{1} << x.extents().rank) - 1)); }

WEFT_DECL symbol sum_to(symbol x, const shape& extents) {
  if (x.extents() == extents) return x;
  const std::size_t extra = x.extents().rank - extents.rank;
  std::int64_t repeated = 0;
  for (std::size_t i = 0; i < x.extents().rank; ++i)
    if (i < extra || (extents[i - extra] == 1 && x.extents()[i] != 1)) repeated |= std::int64_t{1} << i;
  return reshape(sum(x, axis_set::of_bits(repeated)), extents);
}

WEFT_DECL symbol broadcast_to(symbol x, const shape& extents) {
  return x.extents() == extents ? x : x * fill(*x.builder(), {x.type(), extents}, 1);
}

WEFT_DECL symbol fill(op_builder& where, const value_info& info, double number) {
  node_def c;
  c.op = &operation_of<detail::fill_op>;
  c.outputs = {info};
  c.literals = {detail::literal_bits(number)};
  return where.record(static_cast<node_def&&>(c));
}

namespace detail {

// ---- gradients ----

inline void record_fused_gradient(gradient_context& g, const fused& f, std::int64_t reduced, bool mean,
                                  symbol upstream) {
  node_def c;
  c.op = &operation_of<elementwise_gradient_op>;
  c.detail = &f;
  c.inputs = g.node.inputs;
  c.inputs.push_back(upstream.id());
  if (reduced < 0) c.inputs.push_back(g.output().id());
  c.attributes = words_of(elementwise_gradient_op::attributes{reduced, mean});
  c.literals = g.node.literals;
  const std::size_t arguments = g.node.inputs.size();
  const auto written = [&](std::size_t i) { return g.needs_gradient(i) && ((f.signature.reached >> i) & 1); };
  for (std::size_t i = 0; i < arguments; ++i) {
    if (!written(i)) continue;
    c.outputs.push_back(g.input(i).info());
    c.attributes.push_back(static_cast<std::int64_t>(i));
  }
  if (c.outputs.empty()) return;
  const symbol first = upstream.builder()->record(static_cast<node_def&&>(c));
  std::uint32_t output = 0;
  for (std::size_t i = 0; i < arguments; ++i)
    if (written(i)) g.set_gradient(i, first.output(output++));
}

/// Throws unimplemented if a requested gradient passes through an operation without one.
inline void check_differentiable(const gradient_context& g, const fused& f) {
  for (std::size_t i = 0; i < f.signature.arguments; ++i)
    if (((f.signature.refused >> i) & 1) && g.needs_gradient(i))
      throw error(error_code::unimplemented, "gradients",
                  {"has no gradient: ", skeleton::print(f.text), " contains an operation that is not differentiable"});
}

/// Registers the kernels that the gradient of an expression needs when it is written in symbols.
inline void use_primitives_of(const fused& f, op_builder& where) {
  for (const auto table : f.primitives)
    if (table) where.use(table());
}

WEFT_DECL void elementwise_op::gradient(gradient_context& g) {
  const auto& f = *static_cast<const fused*>(g.node.detail);
  check_differentiable(g, f);
  if (applies_only(g.node, skeleton::formula_id::add) && g.input(0).info() == g.input(1).info()) {
    for (std::size_t i = 0; i < 2; ++i) g.set_gradient(i, g.upstream());
    return;
  }
  if (f.gradient[0]) return record_fused_gradient(g, f, -1, false, g.upstream());
  const std::size_t n = g.node.inputs.size();
  const auto arguments = arguments_of(g, n, false);
  sequence<symbol> gradients(n);
  if (f.expand_gradient) {
    use_primitives_of(f, *g.upstream().builder());
    f.expand_gradient(arguments.data(), g.node.literals.data(), g.upstream(), gradients.data());
  }
  for (std::size_t i = 0; i < n; ++i)
    if (g.needs_gradient(i) && !gradients[i].is_number()) g.set_gradient(i, sum_to(gradients[i], g.input(i).extents()));
}

/// Differentiates a fused gradient: expands it into single operations on placeholders for its inputs, and
/// differentiates these. The placeholders prevent the chain rule from passing through inputs that depend on one
/// another.
WEFT_DECL void elementwise_gradient_op::gradient(gradient_context& g, const attributes& a) {
  const auto& f = *static_cast<const fused*>(g.node.detail);
  const std::size_t n = f.signature.arguments;
  const auto arguments = arguments_of(g, n + 1, true);
  symbol upstream = arguments[n];
  if (a.reduced >= 0) {
    sequence<value_info> infos;
    for (std::size_t i = 0; i < n; ++i) infos.push_back(arguments[i].info());
    const shape space = broadcast_space(infos.data(), n);
    const axis_set reduced = axis_set::of_bits(a.reduced);
    upstream = broadcast_to(expand_dims(upstream, reduced), space);
    if (a.mean) upstream = upstream / sum(fill(*upstream.builder(), {f.type, space}, 1), reduced, true);
  }
  sequence<symbol> gradients(n);
  use_primitives_of(f, *upstream.builder());
  f.expand_gradient(arguments.data(), g.node.literals.data(), upstream, gradients.data());
  give_of_outputs(g, arguments, [&](std::size_t output) {
    const std::size_t i = elementwise_gradient_op::argument_of(g.node, output);
    return gradients[i].is_number() ? symbol() : sum_to(gradients[i], arguments[i].extents());
  });
}

inline axis_set axes_between(std::size_t begin, std::size_t end) {
  return axis_set::of_bits((std::int64_t{1} << end) - (std::int64_t{1} << begin));
}

/// Records the products of all other elements of each row along axes [begin, end) of x.
inline symbol record_others(symbol x, std::size_t begin, std::size_t end, const fused_reduction& product) {
  return record_call(*product.others, &x, 1, {x.info(), {exclusive_product_type(x.type()), x.extents()}},
                     {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)}, product.plain);
}

// Splits the product of the others into p, the product of the nonzero elements, and the product of the zeros. Both are
// functions of x and can be differentiated again. If a row has two zeros, each is the sum of both minus the other; if
// it has three or more, the product of the others is the constant 0.
WEFT_DECL void exclusive_product_gradient(gradient_context& g, std::size_t begin, std::size_t end) {
  const axis_set along = axes_between(begin, end);
  const auto& plain = *static_cast<const fused_reduction*>(g.node.detail);
  const auto arguments = arguments_of(g, 1, true);
  const symbol x = arguments[0];
  const auto product = [&](symbol v) {
    return expand_dims(record_reduction(v, along, device::reduce_op::product, plain), along);
  };
  const symbol zero = x == symbol(0);
  const symbol others = math::select(zero, symbol(1), x), small = math::select(zero, x, symbol(0));
  const symbol p = product(others);
  const symbol zeros = sum(math::convert(zero, x.type()), along, true);
  const symbol other_zeros = math::select(zeros == symbol(1), symbol(1),
                                          math::select(zeros == symbol(2), sum(small, along, true) - small, symbol(0)));
  const symbol y = math::select(zero, p * other_zeros, p / others * product(math::select(zero, x, symbol(1))));
  give(g, arguments, x.builder()->differentiate({y}, {g.upstream()}, arguments, true));
}

WEFT_DECL void reduction_op::gradient(gradient_context& g, const attributes& a) {
  const auto& f = *static_cast<const fused_reduction*>(g.node.detail)->body;
  const device::reduce_op how = a.how;
  const axis_set reduced = axis_set::of_bits(a.reduced);
  check_differentiable(g, f);
  if (f.signature.reached == 0) return;  // conditions alone: no kernels for gradients are compiled
  if (how == device::reduce_op::sum) return record_fused_gradient(g, f, a.reduced, a.mean, g.upstream());

  const std::size_t n = g.node.inputs.size();
  const auto arguments = arguments_of(g, n, true);
  use_primitives_of(f, *g.upstream().builder());
  const symbol x = f.expand(arguments.data(), g.node.literals.data());
  const symbol y = expand_dims(g.output(), reduced), up = expand_dims(g.upstream(), reduced);
  symbol dx;
  if (how == device::reduce_op::product) {
    // The product of the other elements along the last axes, times the product of the other rows' products. Adjacent
    // axes form one row, so that no partial product is rounded or exceeds the type's range.
    const auto& product = *static_cast<const fused_reduction*>(g.node.detail);
    symbol products = x, others = symbol(1);
    for (std::size_t end = x.extents().rank; end > 0; --end) {
      if (!reduced.has(end - 1)) continue;
      std::size_t begin = end - 1;
      while (begin > 0 && reduced.has(begin - 1)) --begin;
      const axis_set along = axes_between(begin, end);
      others = record_others(products, begin, end, product) * others;
      if ((reduced.bits() & axes_between(0, begin).bits()) == 0) break;
      products = expand_dims(record_reduction(products, along, device::reduce_op::product, *product.plain), along);
      end = begin + 1;
    }
    dx = up * others;
  } else {  // equal maxima share the gradient, as in TensorFlow
    const symbol mask = math::convert(x == y, x.type());
    dx = mask * (up / sum(mask, reduced, true));
  }
  give(g, arguments, x.builder()->differentiate({x}, {dx}, arguments, true));
}

}  // namespace detail

#endif

}  // namespace weft

WEFT_COLD_END

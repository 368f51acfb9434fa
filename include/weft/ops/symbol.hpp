#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

WEFT_COLD_BEGIN
namespace weft {

class symbol;
struct fused;
struct fused_reduction;
struct primitive_table;

/// The elementwise operations that gradients are written in, one kernel each (ops/formulas.hpp).
enum class primitive : unsigned char;

/// A formula of a graph is written before its values are there.
template <class>
struct formula_branches : mistake<true> {};

/// Where operations are recorded; a graph is one.
class op_builder {
 public:
  /// The kernel of a single operation, and of a plain sum; null where there is none.
  virtual const fused* kernels(primitive, dtype, dtype to) const = 0;
  virtual const fused_reduction* sums(dtype) const = 0;
  /// Says where such kernels are.
  virtual void use(const primitive_table&) = 0;
  /// The element type that a condition compares.
  virtual dtype compared_type(value condition) const = 0;
  virtual symbol record(node_def) = 0;
  virtual const value_info& info(value) const = 0;
  /// `extents` are those of the data; of `declared`, some may be names for them.
  virtual symbol record_constant(const void* data, const value_info& declared, const shape& extents) = 0;
  /// Says what an extent is that is computed from others.
  virtual void remember_extent(const extent_definition&) = 0;
  /// The key of what a new operation draws: of the graph's seed and the operation's number among those that draw or,
  /// where it is given one of its own, of that seed.
  virtual std::uint64_t random_key(const std::uint64_t* seed) = 0;
  /// The value under a name of the caller's: its node's, or an identity's where the node has a name already.
  virtual value with_name(value, const char* name) = 0;
  /// Sums of upstream * d(ys)/d(xs), one per x; a number 0 where x has no influence. Partial derivatives do not pass
  /// through an x to another one.
  virtual sequence<symbol> differentiate(const sequence<symbol>& ys, const sequence<symbol>& upstream,
                                         const sequence<symbol>& xs, bool partial) = 0;

 protected:
  ~op_builder() = default;
};

/// A value of a graph without its static type. Operations' gradients are written in symbols: the types were checked
/// when the operation itself was written, and gradients of any order need one instantiation instead of one per shape.
///
/// A symbol without a graph is a number that takes the element type of what it meets.
class symbol {
 public:
  symbol() = default;
  WEFT_HOST_DEVICE constexpr symbol(double number) : number_(number) {}
  symbol(op_builder* where, value what) : where_(where), value_(what) {}
  template <class To>
  requires std::is_same_v<To, bool>
  explicit operator To() const {
    static_assert(correct<formula_branches<To>>, "a formula has no `if` and no `?:`: math::select(condition, a, b)");
    return {};
  }

  op_builder* builder() const { return where_; }
  value id() const { return value_; }
  WEFT_HOST_DEVICE constexpr double number() const { return number_; }
  constexpr bool is_number() const { return where_ == nullptr; }
  const value_info& info() const { return where_->info(value_); }
  WEFT_QUIET_BEGIN
  WEFT_HOST_DEVICE dtype type() const { return info().type; }
  WEFT_QUIET_END
  const shape& extents() const { return info().extents; }

 private:
  op_builder* where_ = nullptr;
  value value_;
  double number_ = 0;
};

namespace detail {
symbol apply_primitive(primitive, const symbol* operands, std::size_t count, dtype to = dtype::float32);
inline symbol apply_primitive(primitive p, symbol a) { return apply_primitive(p, &a, 1); }
inline symbol apply_primitive(primitive p, symbol a, symbol b) {
  const symbol operands[] = {a, b};
  return apply_primitive(p, operands, 2);
}
}  // namespace detail

namespace detail {
inline void check_same_graph(const char* operation, const op_builder* a, const op_builder* b) {
  if (a != b) throw error(error_code::invalid_argument, operation, "operands belong to different graphs");
}
}  // namespace detail

/// One gradient to be written: the call, its operands and results, and the gradients that arrive at the results.
class gradient_context {
 public:
  gradient_context(const node_def& call, const symbol* inputs, const symbol* outputs, const symbol* upstream,
                   const bool* wanted, symbol* results)
      : c(call), inputs_(inputs), outputs_(outputs), upstream_(upstream), wanted_(wanted), results_(results) {}

  const node_def& c;
  symbol input(std::size_t i) const { return inputs_[i]; }
  symbol output(std::size_t i = 0) const { return outputs_[i]; }
  /// The gradient that arrives at an output; a number 0 where none does.
  symbol upstream(std::size_t i = 0) const { return upstream_[i]; }
  bool has_upstream(std::size_t i) const { return !upstream_[i].is_number(); }
  /// Whether anybody asks for the gradient of an input.
  bool needs_gradient(std::size_t i) const { return wanted_[i]; }
  void set_gradient(std::size_t i, symbol g) { results_[i] = g; }

 private:
  const symbol* inputs_;
  const symbol* outputs_;
  const symbol* upstream_;
  const bool* wanted_;
  symbol* results_;
};

namespace detail {

/// A call of an operation; its first output.
symbol record_call(const operation&, std::initializer_list<symbol> operands, const value_info& output,
                   sequence<std::int64_t> attributes = {}, const void* detail = nullptr);
symbol record_call(const operation&, const symbol* operands, std::size_t count, sequence<value_info> outputs,
                   sequence<std::int64_t> attributes, const void* detail = nullptr);
/// An output of the node that another output belongs to.
inline symbol output_of(symbol x, std::uint32_t output) { return {x.builder(), {x.id().node, output}}; }

#if WEFT_DEFINITIONS

WEFT_DECL symbol record_call(const operation& op, std::initializer_list<symbol> operands, const value_info& output,
                             sequence<std::int64_t> attributes, const void* detail) {
  return record_call(op, operands.begin(), operands.size(), {output}, static_cast<sequence<std::int64_t>&&>(attributes),
                     detail);
}

WEFT_DECL symbol record_call(const operation& op, const symbol* operands, std::size_t count,
                             sequence<value_info> outputs, sequence<std::int64_t> attributes, const void* detail) {
  node_def c;
  c.op = &op;
  c.detail = detail;
  for (std::size_t i = 0; i < count; ++i) c.inputs.push_back(operands[i].id());
  c.outputs = static_cast<sequence<value_info>&&>(outputs);
  c.attributes = static_cast<sequence<std::int64_t>&&>(attributes);
  return operands[0].builder()->record(static_cast<node_def&&>(c));
}

#endif

/// Of an operation that says which functions its gradient uses (ops/primitives.hpp).
template <class Op>
void use_gradient_primitives_of(op_builder&);

template <class Op>
void gradient_of_declared(gradient_context& g) {
  if constexpr (requires { Op::gradient_uses; }) use_gradient_primitives_of<Op>(*g.output().builder());
  if constexpr (has_attributes<Op>)
    Op::gradient(g, attributes_of<Op>(g.c));
  else
    Op::gradient(g);
}

}  // namespace detail

/// A declared operation of symbols, with one output: `record<slice_op>({x}, {x.type(), extents}, {axis, begin})`.
/// Gradients are written with it.
template <class Op>
symbol record(std::initializer_list<symbol> operands, const value_info& output, const attributes_type<Op>& a = {}) {
  return detail::record_call(operation_of<Op>, operands, output, words_of(a));
}
/// One of as many operands and outputs as there are: its first output. detail::output_of finds the others.
template <class Op>
symbol record(const sequence<symbol>& operands, const sequence<value_info>& outputs,
              const attributes_type<Op>& a = {}) {
  return detail::record_call(operation_of<Op>, operands.data(), operands.size(), outputs, words_of(a));
}

}  // namespace weft

WEFT_COLD_END

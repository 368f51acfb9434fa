// SPDX-License-Identifier: BSL-1.0
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

/// The elementwise operations in which gradients are written, with one kernel each (ops/elementwise/formulas.hpp).
enum class primitive : unsigned char;

/// A graph's formula is evaluated before its values exist, so it cannot branch.
template <class>
struct formula_branches : mistake<true> {};

/// Records operations; a graph is an op_builder. Symbols refer to `self()`, the builder that does not move with its
/// owner and is never freed. Its generation shows whether the records of a symbol still exist.
class op_builder {
 public:
  op_builder& self() { return *self_; }
  const op_builder& self() const { return *self_; }
  /// Changes when the records are released. Atomic, because another thread may reuse the records while a stale symbol
  /// checks the generation.
  std::uint64_t generation() const { return bits() & ~in_body; }
  /// Returns the value that the body of a loop or branch reads in place of a value outside of it. Called while the body
  /// is recorded.
  virtual const symbol& captured(value) = 0;

  /// Returns the kernel of a primitive, and of a plain sum, or null if there is none.
  virtual const fused* kernels(primitive, dtype, dtype to) const = 0;
  virtual const fused_reduction* sums(dtype) const = 0;
  /// Registers the kernels of a table.
  virtual void use(const primitive_table&) = 0;
  /// Returns the element type of the operands of a condition.
  virtual dtype compared_type(value condition) const = 0;
  virtual symbol record(node_def) = 0;
  virtual const value_info& info(value) const = 0;
  /// `extents` are the data's; some extents of `declared` may be names.
  virtual symbol record_constant(const void* data, const value_info& declared, const shape& extents) = 0;
  /// Registers the formula of a computed extent.
  virtual void remember_extent(const extent_definition&) = 0;
  /// Returns the random key of a new operation, computed from the graph's seed and either `seed` or the operation's
  /// index among the operations that draw.
  virtual std::uint64_t random_key(const std::uint64_t* seed) = 0;
  /// Describes a value in messages: "'w'", or "an unnamed result of matmul".
  virtual std::string description(value) const = 0;
  /// Returns the value under the given name. If its node already has a name, this is an identity of the value.
  virtual value with_name(value, const char* name) = 0;
  /// Returns the sum of upstream * d(ys)/d(xs) for each x, or the number 0 if x has no influence. If `partial`,
  /// derivatives do not pass through one x to another.
  virtual sequence<symbol> differentiate(const sequence<symbol>& ys, const sequence<symbol>& upstream,
                                         const sequence<symbol>& xs, bool partial) = 0;

 protected:
  op_builder() = default;
  ~op_builder() = default;

  static constexpr std::uint64_t in_body = 1;  // added to the generation while a body within the graph is recorded
  std::uint64_t bits() const { return __atomic_load_n(&generation_, __ATOMIC_RELAXED); }

  op_builder* self_ = this;
  std::uint64_t generation_ = 2;

  friend class symbol;
};

/// A value of a graph without its static type. Gradients of operations are written in symbols: the compiler has checked
/// the types at the forward operation, and gradients of any order need one instantiation instead of one for each shape.
///
/// A symbol without a graph is a number, which takes the element type of the other operand.
class symbol {
 public:
  symbol() = default;
  WEFT_HOST_DEVICE constexpr symbol(double number) : number_(number) {}
  symbol(op_builder* where, value what) : where_(&where->self()), value_(what), generation_(where_->generation()) {}
  template <class To>
    requires std::is_same_v<To, bool>
  explicit operator To() const {
    static_assert(correct<formula_branches<To>>,
                  "a formula cannot use `if` or `?:`: use math::select(condition, a, b)");
    return {};
  }

  op_builder* builder() const { return where_; }
  value id() const { return value_; }
  /// Only for a symbol without a graph.
  WEFT_HOST_DEVICE constexpr double number() const { return number_; }
  constexpr bool is_number() const { return where_ == nullptr; }
  /// Returns true for a value of a graph that still exists.
  bool is_in_a_graph() const { return where_ && where_->generation() == generation_; }
  /// Returns false if the graph no longer exists, and while a body within it is recorded, which captures the value.
  bool is_current() const { return where_ && where_->bits() == generation_; }
  /// Throws failed_precondition if the graph no longer exists.
  const value_info& info() const;
  WEFT_QUIET_BEGIN
  WEFT_HOST_DEVICE dtype type() const { return info().type; }
  WEFT_QUIET_END
  const shape& extents() const { return info().extents; }
  /// Returns another output of the same call.
  symbol output(std::uint32_t number) const { return {where_, {value_.node, number}}; }

 private:
  op_builder* where_ = nullptr;
  value value_;
  union {
    double number_ = 0;
    std::uint64_t generation_;  // of where_ when the symbol was created
  };
};

namespace detail {

/// Throws failed_precondition with the reason why the symbol is not usable.
[[noreturn]] void refuse_symbol(const symbol&);
/// Returns the value that the body being recorded reads in place of a symbol that is not current. Throws like
/// refuse_symbol.
const symbol& captured_symbol(const symbol&);

#if WEFT_DEFINITIONS
WEFT_DECL const symbol& captured_symbol(const symbol& s) {
  if (!s.is_in_a_graph()) refuse_symbol(s);
  return s.builder()->captured(s.id());
}
WEFT_DECL void refuse_symbol(const symbol& s) {
  throw error(error_code::failed_precondition, "node",
              s.is_number() ? "is empty: assign it before it is used, as in `node<float, dims<3>> h; h = x * 2;`"
                            : "its graph no longer exists: keep the graph, or a session of it, for as long as its "
                              "nodes are used; a function that makes a model returns the graph with the nodes");
}
#endif

}  // namespace detail

#if WEFT_DEFINITIONS
WEFT_DECL const value_info& symbol::info() const {
  if (!is_in_a_graph()) detail::refuse_symbol(*this);
  return where_->info(value_);
}
#endif

namespace detail {
symbol apply_primitive(primitive, const symbol* operands, std::size_t count, dtype to = dtype::float32);
inline symbol apply_primitive(primitive p, symbol a) { return apply_primitive(p, &a, 1); }
inline symbol apply_primitive(primitive p, symbol a, symbol b) {
  const symbol operands[] = {a, b};
  return apply_primitive(p, operands, 2);
}
}  // namespace detail

namespace detail {
/// Throws invalid_argument, naming `operand`, unless it is a value of this graph.
void check_same_graph(const char* operation, const op_builder* where, const symbol& operand);
#if WEFT_DEFINITIONS
WEFT_DECL void check_same_graph(const char* operation, const op_builder* where, const symbol& operand) {
  if (operand.builder() && &where->self() == &operand.builder()->self()) return;
  throw error(error_code::invalid_argument, operation,
              {"operands belong to different graphs: ",
               operand.is_in_a_graph() ? operand.builder()->description(operand.id()) : "a value without a graph",
               " is not in the graph of the others"});
}
#endif
}  // namespace detail

/// The gradient of one call: the call, its operands and results, and the upstream gradients.
class gradient_context {
 public:
  gradient_context(const node_def& call, const symbol* inputs, const symbol* outputs, const symbol* upstream,
                   const bool* wanted, symbol* results)
      : node(call), inputs_(inputs), outputs_(outputs), upstream_(upstream), wanted_(wanted), results_(results) {}

  const node_def& node;
  symbol input(std::size_t i) const { return inputs_[i]; }
  symbol output(std::size_t i = 0) const { return outputs_[i]; }
  /// Returns the upstream gradient of an output, or the number 0 if there is none.
  symbol upstream(std::size_t i = 0) const { return upstream_[i]; }
  bool has_upstream(std::size_t i) const { return !upstream_[i].is_number(); }
  /// Returns true if the gradient of an input is requested.
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

/// Records a call of an operation and returns its first output.
symbol record_call(const operation&, std::initializer_list<symbol> operands, const value_info& output,
                   sequence<std::int64_t> attributes = {}, const void* detail = nullptr);
symbol record_call(const operation&, const symbol* operands, std::size_t count, sequence<value_info> outputs,
                   sequence<std::int64_t> attributes, const void* detail = nullptr);

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

/// Registers the primitives that an operation declares for its gradient (ops/primitives.hpp).
template <class Op>
void use_gradient_primitives_of(op_builder&);

template <class Op>
void gradient_of_declared(gradient_context& g) {
  if constexpr (requires { Op::gradient_uses; }) use_gradient_primitives_of<Op>(*g.output().builder());
  if constexpr (has_attributes<Op>)
    Op::gradient(g, attributes_of<Op>(g.node));
  else
    Op::gradient(g);
}

}  // namespace detail

/// Records a declared operation with one output, for use in gradients: `record<slice_op>({x}, {x.type(), extents},
/// {axis, begin})`.
template <class Op>
symbol record(std::initializer_list<symbol> operands, const value_info& output, const attributes_type<Op>& a = {}) {
  return detail::record_call(operation_of<Op>, operands, output, words_of(a));
}
/// Records an operation with any number of operands and outputs. Returns its first output; `output(1)` is the second.
template <class Op>
symbol record(const sequence<symbol>& operands, const sequence<value_info>& outputs,
              const attributes_type<Op>& a = {}) {
  return detail::record_call(operation_of<Op>, operands.data(), operands.size(), outputs, words_of(a));
}

// ---- array functions on symbols, for gradients, in addition to + - * /, `math` and `record` ----
// matmul is in ops/products/matmul.hpp.

/// Axes of a value, counted from 0: `{0, 2}`.
class axis_set {
 public:
  constexpr axis_set(std::initializer_list<std::size_t> axes) {
    for (const std::size_t axis : axes) bits_ |= std::uint64_t{1} << (axis < 63 ? axis : 63);
  }
  /// Contains axis i if bit i is 1.
  static constexpr axis_set of_bits(std::int64_t bits) {
    axis_set s{};
    s.bits_ = static_cast<std::uint64_t>(bits);
    return s;
  }

  constexpr std::int64_t bits() const { return static_cast<std::int64_t>(bits_); }
  constexpr bool has(std::size_t axis) const { return (bits_ >> axis) & 1; }

 private:
  std::uint64_t bits_ = 0;
};

/// Returns the sum over some axes, which are removed or kept with extent 1 (tf.reduce_sum). Sums half and bfloat16 in
/// float. Throws invalid_argument if x has no such axis.
symbol sum(symbol x, axis_set axes, bool keep_dims = false);
/// Returns the sum of all elements.
symbol sum(symbol x);
/// Returns the sum over the axes along which a value of these extents was broadcast to the extents of x (torch's
/// sum_to_size): the gradient of a broadcast operand.
symbol sum_to(symbol x, const shape& extents);
/// Broadcasts x to these extents (tf.broadcast_to). The operands of + - * / broadcast without it.
symbol broadcast_to(symbol x, const shape& extents);
/// Returns the same elements with other extents (tf.reshape). Throws invalid_argument if the number of elements
/// differs.
symbol reshape(symbol x, const shape& extents);
/// Inserts axes of extent 1, at the given positions in the result (numpy.expand_dims), so that the result of a
/// reduction broadcasts against the operand. Throws invalid_argument if the result would have no such axis.
symbol expand_dims(symbol x, axis_set axes);
/// Permutes the axes of x: axis i of the result is axis `axes[i]` of x (tf.transpose). For GPUs, the operation's
/// function must call `gpu::compile_kernels<gpu::moves, T>()`. Throws invalid_argument unless each axis is listed once.
symbol transpose(symbol x, const sequence<std::int64_t>& axes);
/// Returns an array of equal numbers: `fill(*x.builder(), x.info(), 1)` for ones like x (tf.fill).
symbol fill(op_builder&, const value_info&, double number);

}  // namespace weft

WEFT_COLD_END

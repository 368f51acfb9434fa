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

/// Where operations are recorded; a graph is one. Symbols refer to the builder that stays where it is while its owner
/// moves, `self()`, which is never freed: its generation tells whether the records that they mean are still there.
class op_builder {
 public:
  op_builder& self() { return *self_; }
  const op_builder& self() const { return *self_; }
  /// Changes when the records end. Atomic: another thread may use them again while a stale symbol asks.
  std::uint64_t generation() const { return __atomic_load_n(&generation_, __ATOMIC_RELAXED); }

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
  /// The name of a value for messages: "'w'", or "an unnamed result of matmul".
  virtual std::string description(value) const = 0;
  /// The value under a name of the caller's: its node's, or an identity's where the node has a name already.
  virtual value with_name(value, const char* name) = 0;
  /// Sums of upstream * d(ys)/d(xs), one per x; a number 0 where x has no influence. Partial derivatives do not pass
  /// through an x to another one.
  virtual sequence<symbol> differentiate(const sequence<symbol>& ys, const sequence<symbol>& upstream,
                                         const sequence<symbol>& xs, bool partial) = 0;

 protected:
  op_builder() = default;
  ~op_builder() = default;

  op_builder* self_ = this;
  std::uint64_t generation_ = 1;
};

/// A value of a graph without its static type. Operations' gradients are written in symbols: the types were checked
/// when the operation itself was written, and gradients of any order need one instantiation instead of one per shape.
///
/// A symbol without a graph is a number that takes the element type of what it meets.
class symbol {
 public:
  symbol() = default;
  WEFT_HOST_DEVICE constexpr symbol(double number) : number_(number) {}
  symbol(op_builder* where, value what) : where_(&where->self()), value_(what), generation_(where_->generation()) {}
  template <class To>
    requires std::is_same_v<To, bool>
  explicit operator To() const {
    static_assert(correct<formula_branches<To>>, "a formula has no `if` and no `?:`: math::select(condition, a, b)");
    return {};
  }

  op_builder* builder() const { return where_; }
  value id() const { return value_; }
  /// Of a symbol without a graph alone.
  WEFT_HOST_DEVICE constexpr double number() const { return number_; }
  constexpr bool is_number() const { return where_ == nullptr; }
  /// Whether it is a value of a graph that still exists.
  bool is_in_a_graph() const { return where_ && where_->generation() == generation_; }
  /// Throws failed_precondition if the graph no longer exists.
  const value_info& info() const;
  WEFT_QUIET_BEGIN
  WEFT_HOST_DEVICE dtype type() const { return info().type; }
  WEFT_QUIET_END
  const shape& extents() const { return info().extents; }
  /// An output of the call that this is an output of.
  symbol output(std::uint32_t number) const { return {where_, {value_.node, number}}; }

 private:
  op_builder* where_ = nullptr;
  value value_;
  union {
    double number_ = 0;
    std::uint64_t generation_;  // of where_
  };
};

namespace detail {

/// Throws failed_precondition that says why the symbol is not of use.
[[noreturn]] void refuse_symbol(const symbol&);

#if WEFT_DEFINITIONS
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
/// Throws invalid_argument that names `operand` unless it is a value of this graph.
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

/// One gradient to be written: the call, its operands and results, and the gradients that arrive at the results.
class gradient_context {
 public:
  gradient_context(const node_def& call, const symbol* inputs, const symbol* outputs, const symbol* upstream,
                   const bool* wanted, symbol* results)
      : node(call), inputs_(inputs), outputs_(outputs), upstream_(upstream), wanted_(wanted), results_(results) {}

  const node_def& node;
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

/// Registers the functions that an operation says its gradient uses (ops/primitives.hpp).
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

/// A declared operation of symbols, with one output: `record<slice_op>({x}, {x.type(), extents}, {axis, begin})`.
/// Gradients are written with it.
template <class Op>
symbol record(std::initializer_list<symbol> operands, const value_info& output, const attributes_type<Op>& a = {}) {
  return detail::record_call(operation_of<Op>, operands, output, words_of(a));
}
/// One of as many operands and outputs as there are: its first output, of which `output(1)` is the next.
template <class Op>
symbol record(const sequence<symbol>& operands, const sequence<value_info>& outputs,
              const attributes_type<Op>& a = {}) {
  return detail::record_call(operation_of<Op>, operands.data(), operands.size(), outputs, words_of(a));
}

// ---- functions of arrays, over symbols: what gradients are written in beside + - * /, `math` and `record` ----
// There is matmul too, in ops/matmul.hpp.

/// Axes of a value, counted from 0: `{0, 2}`.
class axis_set {
 public:
  constexpr axis_set(std::initializer_list<std::size_t> axes) {
    for (const std::size_t axis : axes) bits_ |= std::uint64_t{1} << (axis < 63 ? axis : 63);
  }
  /// Axis i is among them where bit i is 1.
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

/// The sum over some axes, which are dropped, or stay with extent 1 (tf.reduce_sum). half and bfloat16 are summed in
/// float. Throws invalid_argument if x has no such axis.
symbol sum(symbol x, axis_set axes, bool keep_dims = false);
/// The sum of all elements.
symbol sum(symbol x);
/// The sum over the axes along which something of these extents was broadcast to those of x (torch's sum_to_size): the
/// gradient of an operand that was broadcast.
symbol sum_to(symbol x, const shape& extents);
/// x repeated to these extents (tf.broadcast_to). Operands of + - * / broadcast without it.
symbol broadcast_to(symbol x, const shape& extents);
/// The same elements under other extents (tf.reshape). Throws invalid_argument if they are not as many.
symbol reshape(symbol x, const shape& extents);
/// x with more axes of one element, at these places among those of the result (numpy.expand_dims): a reduction's result
/// as it broadcasts against the operand. Throws invalid_argument if the result would have no such axis.
symbol expand_dims(symbol x, axis_set axes);
/// The axes of x in another order: axis i of the result is axis `axes[i]` of x (tf.transpose). On a GPU it runs where
/// the operation's function calls `gpu::compile_kernels<gpu::moves, T>()`. Throws invalid_argument if an axis is not
/// named once.
symbol transpose(symbol x, const sequence<std::int64_t>& axes);
/// A number once for each element: `fill(*x.builder(), x.info(), 1)` for ones like x (tf.fill).
symbol fill(op_builder&, const value_info&, double number);

}  // namespace weft

WEFT_COLD_END

#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>
#include <weft/error.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

WEFT_COLD_BEGIN
namespace weft {

class symbol;
struct fused;
struct fused_reduction;
struct primitive_table;

/// The elementwise operations that gradients are written in, one kernel each.
enum class primitive : unsigned char {
  add,
  subtract,
  multiply,
  divide,
  negate,
  exp,
  log,
  sqrt,
  tanh,
  sigmoid,
  pow,
  abs,
  sign,
  floor,
  less,
  less_equal,
  equal,
  logical_not,
  select,
  maximum,
  minimum,
  convert,
  count
};

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

// Formulas are for kernels too, but no kernel computes in symbols.
WEFT_QUIET_BEGIN
WEFT_HOST_DEVICE inline symbol operator+(symbol a, symbol b) { return detail::apply_primitive(primitive::add, a, b); }
WEFT_HOST_DEVICE inline symbol operator-(symbol a, symbol b) {
  return detail::apply_primitive(primitive::subtract, a, b);
}
WEFT_HOST_DEVICE inline symbol operator*(symbol a, symbol b) {
  return detail::apply_primitive(primitive::multiply, a, b);
}
WEFT_HOST_DEVICE inline symbol operator/(symbol a, symbol b) {
  return detail::apply_primitive(primitive::divide, a, b);
}
WEFT_HOST_DEVICE inline symbol operator-(symbol a) { return detail::apply_primitive(primitive::negate, a); }
WEFT_HOST_DEVICE inline symbol operator<(symbol a, symbol b) { return detail::apply_primitive(primitive::less, a, b); }
WEFT_HOST_DEVICE inline symbol operator<=(symbol a, symbol b) {
  return detail::apply_primitive(primitive::less_equal, a, b);
}
WEFT_HOST_DEVICE inline symbol operator>(symbol a, symbol b) { return b < a; }
WEFT_HOST_DEVICE inline symbol operator>=(symbol a, symbol b) { return b <= a; }
WEFT_HOST_DEVICE inline symbol operator==(symbol a, symbol b) {
  return detail::apply_primitive(primitive::equal, a, b);
}
WEFT_HOST_DEVICE inline symbol operator!(symbol a) { return detail::apply_primitive(primitive::logical_not, a); }
WEFT_HOST_DEVICE inline symbol operator!=(symbol a, symbol b) { return !(a == b); }
WEFT_QUIET_END

namespace detail {
inline void check_same_graph(const char* operation, const op_builder* a, const op_builder* b) {
  if (a != b) throw error(error_code::invalid_argument, operation, "operands belong to different graphs");
}
}  // namespace detail

/// The functions that an operation's formulas may use, on numbers and on symbols alike.
namespace math {

WEFT_QUIET_BEGIN
WEFT_HOST_DEVICE inline symbol exp(symbol x) { return weft::detail::apply_primitive(primitive::exp, x); }
WEFT_HOST_DEVICE inline symbol log(symbol x) { return weft::detail::apply_primitive(primitive::log, x); }
WEFT_HOST_DEVICE inline symbol sqrt(symbol x) { return weft::detail::apply_primitive(primitive::sqrt, x); }
WEFT_HOST_DEVICE inline symbol tanh(symbol x) { return weft::detail::apply_primitive(primitive::tanh, x); }
WEFT_HOST_DEVICE inline symbol sigmoid(symbol x) { return weft::detail::apply_primitive(primitive::sigmoid, x); }
WEFT_HOST_DEVICE inline symbol abs(symbol x) { return weft::detail::apply_primitive(primitive::abs, x); }
WEFT_HOST_DEVICE inline symbol sign(symbol x) { return weft::detail::apply_primitive(primitive::sign, x); }
WEFT_HOST_DEVICE inline symbol floor(symbol x) { return weft::detail::apply_primitive(primitive::floor, x); }
WEFT_HOST_DEVICE inline symbol pow(symbol a, symbol b) { return weft::detail::apply_primitive(primitive::pow, a, b); }
WEFT_HOST_DEVICE inline symbol maximum(symbol a, symbol b) {
  return weft::detail::apply_primitive(primitive::maximum, a, b);
}
WEFT_HOST_DEVICE inline symbol minimum(symbol a, symbol b) {
  return weft::detail::apply_primitive(primitive::minimum, a, b);
}
WEFT_HOST_DEVICE inline symbol select(symbol condition, symbol a, symbol b) {
  const symbol operands[] = {condition, a, b};
  return weft::detail::apply_primitive(primitive::select, operands, 3);
}
WEFT_HOST_DEVICE inline symbol log1p(symbol x) { return log(symbol(1) + x); }
// tanh(x / 2) is (e^x - 1) / (e^x + 1), and as accurate near 0 as expm1.
WEFT_HOST_DEVICE inline symbol expm1(symbol x) { return tanh(symbol(0.5) * x) * (exp(x) + symbol(1)); }
WEFT_HOST_DEVICE inline symbol convert(symbol x, dtype to) {
  return weft::detail::apply_primitive(primitive::convert, &x, 1, to);
}
WEFT_QUIET_END

WEFT_HOST_DEVICE inline float select(bool condition, float a, float b) { return detail::select(condition, a, b); }
WEFT_HOST_DEVICE inline double select(bool condition, double a, double b) { return detail::select(condition, a, b); }
template <class T>
requires std::is_integral_v<T> WEFT_HOST_DEVICE T select(bool condition, T a, T b) { return condition ? a : b; }
template <class T>
requires std::is_integral_v<T> WEFT_HOST_DEVICE T abs(T x) { return x < T(0) ? static_cast<T>(-wrapping(x)) : x; }
template <class T>
requires std::is_integral_v<T> WEFT_HOST_DEVICE T maximum(T a, T b) { return a > b ? a : b; }
template <class T>
requires std::is_integral_v<T> WEFT_HOST_DEVICE T minimum(T a, T b) { return a < b ? a : b; }
/// What is neither above nor below zero is itself: NaN, and zero.
template <class T>
requires std::is_arithmetic_v<T> WEFT_HOST_DEVICE T sign(T x) {
  return select(x > T(0), T(1), select(x < T(0), static_cast<T>(-1), x));
}

}  // namespace math

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

/// A call of an operation, with one output.
symbol record_call(const operation&, std::initializer_list<symbol> operands, const value_info& output,
                   sequence<std::int64_t> attributes = {}, const void* detail = nullptr);

#if WEFT_BODIES

WEFT_DECL symbol record_call(const operation& op, std::initializer_list<symbol> operands, const value_info& output,
                             sequence<std::int64_t> attributes, const void* detail) {
  node_def c;
  c.op = &op;
  c.detail = detail;
  for (const symbol& x : operands) c.inputs.push_back(x.id());
  c.outputs = {output};
  c.attributes = static_cast<sequence<std::int64_t>&&>(attributes);
  return operands.begin()->builder()->record(static_cast<node_def&&>(c));
}

#endif

template <class Op>
void gradient_of_declared(gradient_context& g) {
  if constexpr (has_attributes<Op>)
    Op::gradient(g, attributes_of<Op>(g.c));
  else
    Op::gradient(g);
}

}  // namespace detail
}  // namespace weft

WEFT_COLD_END

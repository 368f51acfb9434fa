#pragma once

#include <type_traits>

#include <weft/ops/check.hpp>
#include <weft/ops/formulas.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

/// A C++ number as an operand, of whatever type: it becomes one of the element type that it meets.
template <class Num>
concept Number = detail::Arithmetic<Num>;

template <class X>
concept Operand = Expression<X> || Number<X>;

// ---- mistakes, by name ----

/// The extents of the operands of an elementwise operation do not broadcast.
template <class A, class B>
struct elementwise_shapes_differ : mistake<!detail::broadcastable(A::spec, B::spec)> {};

/// The operation has no meaning for this element type.
template <class Op, class T>
struct operation_undefined_for : mistake<!detail::defined_for<Op, T>()> {};

/// The operation has no kernel for a kind of device.
template <class Op, class Device>
struct no_kernel_for_device : mistake<!detail::has_kernel<Op, Device>()> {};

namespace detail {

template <class Op, class T, int Operands>
constexpr bool has_gradient(T v) {
  if constexpr (!std::is_floating_point_v<T> || requires { Op::predicate; } || requires { Op::not_differentiable; })
    return true;
  else if constexpr (Operands == 1)
    return requires { Op::gradient(v, v, v); };
  else
    return requires { Op::gradient_a(v, v, v, v), Op::gradient_b(v, v, v, v); };
}

template <class X>
inline constexpr bool symbolic_operand = false;
template <Expression X>
inline constexpr bool symbolic_operand<X> = X::symbolic;

}  // namespace detail

/// A user's operation enters a graph without a gradient, and without saying that it has none.
template <class Op, class T, bool Symbolic, int Operands>
struct operation_without_gradient : mistake<Symbolic && !detail::has_gradient<Op, T, Operands>(T{})> {};

namespace detail {

template <class Op, class T>
constexpr auto result_of() {
  if constexpr (requires { Op::predicate; })
    return bool{};
  else
    return T{};
}

template <class Op, class T>
using result_type = decltype(result_of<Op, T>());

/// Whether a user's formula is used for symbols. elementwise() uses it first, so that what is wrong in it is said of
/// the call that names the operation.
template <class Op, class T, bool Symbolic, int Operands>
inline constexpr bool is_differentiated =
    Symbolic && skeleton::may_differentiate<Op> && is_differentiable<result_type<Op, T>> &&
    correct<operation_without_gradient<Op, T, Symbolic, Operands>>;

}  // namespace detail

/// Whether `a + b` and its like compile.
template <class A, class B>
concept Broadcastable = !elementwise_shapes_differ<A, B>::value;

namespace detail {

[[noreturn]] void refuse_number(bool negative, std::uint64_t magnitude, dtype);

#if WEFT_DEFINITIONS

WEFT_DECL void refuse_number(bool negative, std::uint64_t magnitude, dtype type) {
  throw error(error_code::invalid_argument, "expression",
              {"the number ", negative ? "-" : "", negative ? 0 - magnitude : magnitude, " is no ", name(type),
               ", which it meets: use cast<T>(x)"});
}

#endif

/// A number as an element. Integers that hold another number then are refused; fractions are by their types.
template <class T, class Num>
T as_element(Num number) {
  const T t = static_cast<T>(number);
  if constexpr (std::is_integral_v<T> && std::is_integral_v<Num>)
    if (static_cast<Num>(t) != number || (t < T{}) != (number < Num{}))
      refuse_number(number < Num{}, static_cast<std::uint64_t>(number), dtype_of<T>);
  return t;
}

/// The properties of a number as an operand.
template <class Num>
struct number_operand {
  using value_type = Num;
  using dims_type = dims<>;
  using device_type = void;
};

template <class X>
using as_typed = typename choose<Number<X>>::template type<number_operand<X>, X>;
template <class X>
using operand_dims = typename as_typed<X>::dims_type;
/// The element type of an operation on the two: a number takes that of the other operand.
template <class X, class Other>
using operand_type =
    typename choose<Number<X> && !Number<Other>>::template type<as_typed<Other>, as_typed<X>>::value_type;
template <class A, class B>
using operand_device =
    typename common_device<typename as_typed<A>::device_type, typename as_typed<B>::device_type>::type;

template <class X>
inline constexpr bool holds_integers = false;
template <Expression X>
inline constexpr bool holds_integers<X> = !is_floating(dtype_of<value_t<X>>);

// `a == b` of the same extents, `a != b`, and what `!`, `&&` and `||` make of them, are true or false as a whole.
template <class X>
inline constexpr bool is_truth_operand = false;
template <>
inline constexpr bool is_truth_operand<literal<bool>> = true;
template <class Op, class D, class Dev, class... Operands>
inline constexpr bool is_truth_operand<expression<Op, bool, D, Dev, Operands...>> = is_truth<Op, Operands...>;

/// An operand as an expression over `Dims` has it: a number as a literal of the element type that it meets, and a
/// sub-expression of other extents computed at its own, not again for each element that it is broadcast to; but a
/// comparison stays one, which is true or false. What stays as it is is returned by reference: a copy counts an owner
/// of every tensor in it.
template <class T, class Dims, class X>
decltype(auto) as_operand(const X& x) {
  if constexpr (Number<X>)
    return literal<T>{as_element<T>(x)};
  else if constexpr (is_node<X>)
    return static_cast<const node<value_t<X>, dims_t<X>, device_t<X>>&>(x);
  else if constexpr (X::operations > 0 && !std::is_same_v<dims_t<X>, Dims> && !(is_truth_operand<X> && !X::symbolic))
    return materialize(x);
  else
    return (x);
}

template <class Expr>
constexpr std::size_t operations_of_largest(std::size_t so_far = 0) {
  return Expr::operations > so_far ? Expr::operations : so_far;
}
template <class Expr, class Next, class... More>
constexpr std::size_t operations_of_largest(std::size_t so_far = 0) {
  return operations_of_largest<Next, More...>(operations_of_largest<Expr>(so_far));
}

template <std::size_t Operations, class Expr>
decltype(auto) materialize_largest(const Expr& e) {
  if constexpr (Expr::operations == Operations)
    return materialize(e);
  else
    return (e);
}

/// Where the whole is too large its operands materialize, largest first. The types go by their own names, as
/// make_tensor's.
template <class Op, class T, class Dims, class Device, class... Expr>
auto make_expression(const Expr&... e) {
  using result =
      expression<Op, typename element<T>::value_type, typename Dims::dims_type, typename Device::device_type, Expr...>;
  if constexpr (result::operations > max_operations)
    return make_expression<Op, T, Dims, Device>(materialize_largest<operations_of_largest<Expr...>()>(e)...);
  else
    return result(e...);
}

}  // namespace detail

/// A fraction meets integers, which cannot hold it.
template <class A, class B>
struct fraction_meets_integers : mistake<(Number<A> && std::is_floating_point_v<A> && detail::holds_integers<B>) ||
                                         (Number<B> && std::is_floating_point_v<B> && detail::holds_integers<A>)> {};

namespace detail {

template <class Op, class X>
constexpr auto find_mistake() {
  return operation_undefined_for<Op, value_t<X>>{};
}
template <class Op, class A, class B>
constexpr auto find_mistake() {
  using T = operand_type<A, B>;
  using shapes_differ = elementwise_shapes_differ<operand_dims<A>, operand_dims<B>>;
  using types_differ = element_types_differ<T, operand_type<B, A>>;
  if constexpr (shapes_differ::value) {
    return shapes_differ{};
  } else if constexpr (types_differ::value) {
    return types_differ{};
  } else if constexpr (Number<A> || Number<B>) {
    if constexpr (fraction_meets_integers<A, B>::value)
      return fraction_meets_integers<A, B>{};
    else
      return operation_undefined_for<Op, T>{};
  } else {
    return operation_undefined_for<Op, T>{};
  }
}

}  // namespace detail

/// The mistake in the operands of an elementwise operation, if there is one: in their extents before their element
/// types.
template <class Op, class... Operands>
using elementwise_mistake = decltype(detail::find_mistake<Op, Operands...>());

namespace detail {

template <class Op, class X>
auto unary(const X& x) {
  using T = value_t<X>;
  if constexpr (correct<elementwise_mistake<Op, X>>)
    return make_expression<Op, result_type<Op, T>, dims_t<X>, device_t<X>>(as_operand<T, dims_t<X>>(x));
  else
    return after_mistake<result_type<Op, T>, dims_t<X>>(x);
}

template <class Op, class A, class B>
auto binary(const A& a, const B& b) {
  using T = operand_type<A, B>;
  if constexpr (correct<elementwise_mistake<Op, A, B>>) {
    using D = broadcast_dims<operand_dims<A>, operand_dims<B>>;
    return make_expression<Op, result_type<Op, T>, D, operand_device<A, B>>(as_operand<T, D>(a), as_operand<T, D>(b));
  } else {
    return after_mistake<result_type<Op, T>, operand_dims<A>>(a, b);
  }
}

}  // namespace detail

/// Applies an operation of one operand to every element.
template <class Op, Expression X>
[[nodiscard]] auto elementwise(const X& x) {
  static_assert(correct<elementwise_mistake<Op, X>>, "elementwise: not defined for this element type: cast<T>(x)");
  static_assert(correct<no_kernel_for_device<Op, device_t<X>>>,
                "elementwise: the operation has no kernel for this device");
  static_assert(correct<operation_without_gradient<Op, value_t<X>, X::symbolic, 1>>,
                "write gradient(g, x, y), or say `static constexpr bool not_differentiable = true;`");
  if constexpr (detail::is_differentiated<Op, value_t<X>, X::symbolic, 1>)
    if (symbol s; false) static_cast<void>(Op::gradient(s, s, Op::apply(s)));
  if constexpr (correct<operation_without_gradient<Op, value_t<X>, X::symbolic, 1>>)
    return detail::unary<Op>(x);
  else
    return detail::after_mistake<detail::result_type<Op, value_t<X>>, dims_t<X>>(x);
}

/// Applies an operation of two operands, which broadcast against each other from the last axis on.
template <class Op, Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto elementwise(const A& a, const B& b) {
  using T = detail::operand_type<A, B>;
  static_assert(correct<elementwise_mistake<Op, A, B>>,
                "elementwise: needs extents that broadcast and numbers of one type: cast<T>(x)");
  static_assert(correct<no_kernel_for_device<Op, detail::operand_device<A, B>>>,
                "elementwise: the operation has no kernel for this device");
  constexpr bool symbolic = detail::symbolic_operand<A> || detail::symbolic_operand<B>;
  static_assert(correct<operation_without_gradient<Op, T, symbolic, 2>>,
                "write gradient_a and gradient_b, or say `static constexpr bool not_differentiable = true;`");
  if constexpr (detail::is_differentiated<Op, T, symbolic, 2>)
    if (symbol x; false) static_cast<void>(Op::gradient_a(x, x, x, Op::gradient_b(x, x, x, Op::apply(x, x))));
  if constexpr (correct<operation_without_gradient<Op, T, symbolic, 2>>)
    return detail::binary<Op>(a, b);
  else
    return detail::after_mistake<detail::result_type<Op, T>, detail::operand_dims<A>>(a, b);
}

// ---- arithmetic (tf.add, tf.subtract, tf.multiply, tf.divide, tf.negative) ----

template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator+(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::add, A, B>>,
                "operator+: needs extents that broadcast and numbers of one type: cast<T>(x)");
  return detail::binary<formula::add>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator-(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::subtract, A, B>>,
                "operator-: needs extents that broadcast and numbers of one type: cast<T>(x)");
  return detail::binary<formula::subtract>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator*(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::multiply, A, B>>,
                "operator*: needs extents that broadcast and numbers of one type: cast<T>(x); matmul multiplies "
                "matrices");
  return detail::binary<formula::multiply>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator/(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::divide, A, B>>,
                "operator/: needs extents that broadcast and numbers of one type: cast<T>(x)");
  return detail::binary<formula::divide>(a, b);
}
template <Expression X>
[[nodiscard]] auto operator-(const X& x) {
  static_assert(correct<elementwise_mistake<formula::negate, X>>,
                "operator-: needs numbers, not bool, half or bfloat16: cast<float>(x)");
  return detail::unary<formula::negate>(x);
}

// ---- arithmetic in place, of tensors and views ----

namespace detail {

/// Tensors and views, whose elements are written in place.
template <class X>
inline constexpr bool owns_or_views = false;
template <class T, class D, class Dev>
inline constexpr bool owns_or_views<tensor<T, D, Dev>> = true;
template <class T, class D>
inline constexpr bool owns_or_views<tensor_view<T, D>> = true;

template <class Op, class A, class B>
constexpr auto find_update_mistake() {
  using X = std::remove_const_t<A>;
  using mistake = elementwise_mistake<Op, X, B>;
  if constexpr (std::is_const_v<std::remove_pointer_t<decltype(std::declval<A&>().data())>>)
    return elements_are_read_only<A>{};
  else if constexpr (!correct<mistake>)
    return mistake{};
  else if constexpr (symbolic_operand<B>)
    return value_needs_a_session<operand_dims<B>>{};
  else
    return assigned_extents_differ<broadcast_dims<dims_t<X>, operand_dims<B>>, dims_t<X>>{};
}

}  // namespace detail

/// The mistake in `a += b` and its like, if there is one: b broadcasts to the extents of a, which stay.
template <class Op, class A, class B>
using update_mistake = decltype(detail::find_update_mistake<Op, A, B>());

namespace detail {

/// a = a Op b, in place but for elements that b reads elsewhere.
template <class Op, class T, class D, class B>
void update(const tensor_view<T, D>& a, const B& b) {
  evaluate(binary<Op>(tensor_view<const T, D>(a), b), a);
}

}  // namespace detail

/// Computes `a + b` into the elements of a tensor or a view, in place: b broadcasts to the extents of a. Where b reads
/// elements of a, these have their values of before. Throws invalid_argument if extents known at run time do not fit.
template <class A, Operand B>
  requires detail::owns_or_views<std::remove_cvref_t<A>>
A&& operator+=(A&& a, const B& b) {
  using mistake = update_mistake<formula::add, std::remove_reference_t<A>, B>;
  static_assert(correct<mistake>, "operator+=: the elements that it writes keep their extents and type");
  if constexpr (correct<mistake>) detail::update<formula::add>(tensor_view(a), b);
  return static_cast<A&&>(a);
}
template <class A, Operand B>
  requires detail::owns_or_views<std::remove_cvref_t<A>>
A&& operator-=(A&& a, const B& b) {
  using mistake = update_mistake<formula::subtract, std::remove_reference_t<A>, B>;
  static_assert(correct<mistake>, "operator-=: the elements that it writes keep their extents and type");
  if constexpr (correct<mistake>) detail::update<formula::subtract>(tensor_view(a), b);
  return static_cast<A&&>(a);
}
template <class A, Operand B>
  requires detail::owns_or_views<std::remove_cvref_t<A>>
A&& operator*=(A&& a, const B& b) {
  using mistake = update_mistake<formula::multiply, std::remove_reference_t<A>, B>;
  static_assert(correct<mistake>, "operator*=: the elements that it writes keep their extents and type");
  if constexpr (correct<mistake>) detail::update<formula::multiply>(tensor_view(a), b);
  return static_cast<A&&>(a);
}
template <class A, Operand B>
  requires detail::owns_or_views<std::remove_cvref_t<A>>
A&& operator/=(A&& a, const B& b) {
  using mistake = update_mistake<formula::divide, std::remove_reference_t<A>, B>;
  static_assert(correct<mistake>, "operator/=: the elements that it writes keep their extents and type");
  if constexpr (correct<mistake>) detail::update<formula::divide>(tensor_view(a), b);
  return static_cast<A&&>(a);
}

// ---- comparisons and logic: tensors of bool ----

namespace detail {

template <class A, class B>
inline constexpr bool is_truth<formula::equal, A, B> = assignable(dims_t<A>::spec, dims_t<B>::spec);
template <class A, class B>
inline constexpr bool is_truth<formula::not_equal, A, B> = is_truth<formula::equal, A, B>;
template <class A>
inline constexpr bool is_truth<formula::logical_not, A> = is_truth_operand<A>;
template <class A, class B>
inline constexpr bool is_truth<formula::logical_and, A, B> = is_truth_operand<A> && is_truth_operand<B>;
template <class A, class B>
inline constexpr bool is_truth<formula::logical_or, A, B> = is_truth_operand<A> && is_truth_operand<B>;

/// Whether two comparisons have extents that do not broadcast, so that `&&` and `||` make a bool of them alone.
template <class A, class B>
inline constexpr bool truths_of_other_extents = false;
template <Expression A, Expression B>
  requires(is_truth_operand<A> && is_truth_operand<B> && !A::symbolic && !B::symbolic)
inline constexpr bool truths_of_other_extents<A, B> = !Broadcastable<dims_t<A>, dims_t<B>>;

template <class A, class B>
bool equal_elements(const A& a, const B& b) {
  if constexpr (A::operations > 0) {
    return equal_elements(eval(a), b);
  } else if constexpr (B::operations > 0) {
    return equal_elements(a, eval(b));
  } else {
    const auto *x = a.data(), *const end = x + a.elements(), *y = b.data();
    if (!(a.extents() == b.extents())) return false;
    for (; x != end; ++x, ++y)
      if (!(*x == *y)) return false;
    return true;
  }
}

template <class X>
bool is_true(const X& x) {
  if constexpr (is_literal<X>) {
    return x.value;
  } else {
    return is_true_as(x);
  }
}
template <class Op, class D, class Dev, class A, class B>
bool is_true_as(const expression<Op, bool, D, Dev, A, B>& e) {
  if constexpr (std::is_same_v<Op, formula::logical_and>)
    return is_true(e.a) && is_true(e.b);
  else if constexpr (std::is_same_v<Op, formula::logical_or>)
    return is_true(e.a) || is_true(e.b);
  else
    return equal_elements(e.a, e.b) == std::is_same_v<Op, formula::equal>;
}
template <class Op, class D, class Dev, class A>
bool is_true_as(const expression<Op, bool, D, Dev, A>& e) {
  return !is_true(e.a);
}

}  // namespace detail

template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator<(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::less, A, B>>,
                "operator<: needs extents that broadcast and numbers of one type: cast<T>(x); write a < b && b < c");
  return detail::binary<formula::less>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator<=(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::less_equal, A, B>>,
                "operator<=: needs extents that broadcast and numbers of one type: cast<T>(x); write a < b && b < c");
  return detail::binary<formula::less_equal>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator>(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::greater, A, B>>,
                "operator>: needs extents that broadcast and numbers of one type: cast<T>(x); write a < b && b < c");
  return detail::binary<formula::greater>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator>=(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::greater_equal, A, B>>,
                "operator>=: needs extents that broadcast and numbers of one type: cast<T>(x); write a < b && b < c");
  return detail::binary<formula::greater_equal>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator==(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::equal, A, B>>,
                "operator==: needs extents that broadcast and elements of one type: cast<T>(x)");
  return detail::binary<formula::equal>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator!=(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::not_equal, A, B>>,
                "operator!=: needs extents that broadcast and elements of one type: cast<T>(x)");
  return detail::binary<formula::not_equal>(a, b);
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator&&(const A& a, const B& b) {
  if constexpr (detail::truths_of_other_extents<A, B>) {
    return detail::is_true(a) && detail::is_true(b);
  } else {
    static_assert(correct<elementwise_mistake<formula::logical_and, A, B>>,
                  "operator&&: needs extents that broadcast and elements of bool: x > 0");
    return detail::binary<formula::logical_and>(a, b);
  }
}
template <Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto operator||(const A& a, const B& b) {
  if constexpr (detail::truths_of_other_extents<A, B>) {
    return detail::is_true(a) || detail::is_true(b);
  } else {
    static_assert(correct<elementwise_mistake<formula::logical_or, A, B>>,
                  "operator||: needs extents that broadcast and elements of bool: x > 0");
    return detail::binary<formula::logical_or>(a, b);
  }
}
template <Expression X>
[[nodiscard]] auto operator!(const X& x) {
  static_assert(correct<elementwise_mistake<formula::logical_not, X>>, "operator!: needs elements of bool: x > 0");
  return detail::unary<formula::logical_not>(x);
}

// ---- functions ----

namespace detail {

template <class Op, Expression X>
auto function(const X& x) {
  if constexpr (requires { Op::floating_only; })
    static_assert(correct<elementwise_mistake<Op, X>>, "needs float or double: cast<float>(x)");
  else
    static_assert(correct<elementwise_mistake<Op, X>>, "needs numbers, not bool, half or bfloat16: cast<float>(x)");
  return unary<Op>(x);
}
template <class Op, Operand A, Operand B>
auto function(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<Op, A, B>>,
                "needs extents that broadcast and numbers of one type: cast<T>(x)");
  return binary<Op>(a, b);
}

}  // namespace detail

// exp(x), pow(a, b) and all others of the list in ops/formulas.hpp.
#define WEFT_FUNCTION_1(name)                  \
  template <Expression X>                      \
  [[nodiscard]] auto name(const X& x) {        \
    return detail::function<formula::name>(x); \
  }
#define WEFT_FUNCTION_2(name)                       \
  template <Operand A, Operand B>                   \
    requires(Expression<A> || Expression<B>)        \
  [[nodiscard]] auto name(const A& a, const B& b) { \
    return detail::function<formula::name>(a, b);   \
  }
#define WEFT_FUNCTION(name, operands) WEFT_FUNCTION_##operands(name)
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_FUNCTION, WEFT_FUNCTION)
#undef WEFT_FUNCTION
#undef WEFT_FUNCTION_1
#undef WEFT_FUNCTION_2

namespace detail {

/// An integer behind a tensor or a node is taken for an axis (ops/reduce.hpp).
template <class A, class B>
concept operands_of_max =
    (Expression<A> && (Expression<B> || std::is_floating_point_v<B>)) || (Number<A> && Expression<B>);

}  // namespace detail

// max(a, b) is maximum(a, b). The first of each two is preferred to std::max where both are found.
template <Expression T>
[[nodiscard]] auto max(const T& a, const T& b) {
  static_assert(correct<elementwise_mistake<formula::maximum, T, T>>,
                "max: needs extents that broadcast and numbers of one type: cast<T>(x)");
  return detail::binary<formula::maximum>(a, b);
}
template <Operand A, Operand B>
  requires detail::operands_of_max<A, B>
[[nodiscard]] auto max(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::maximum, A, B>>,
                "max: needs extents that broadcast and numbers of one type: cast<T>(x)");
  return detail::binary<formula::maximum>(a, b);
}
template <Expression T>
[[nodiscard]] auto min(const T& a, const T& b) {
  static_assert(correct<elementwise_mistake<formula::minimum, T, T>>,
                "min: needs extents that broadcast and numbers of one type: cast<T>(x)");
  return detail::binary<formula::minimum>(a, b);
}
template <Operand A, Operand B>
  requires detail::operands_of_max<A, B>
[[nodiscard]] auto min(const A& a, const B& b) {
  static_assert(correct<elementwise_mistake<formula::minimum, A, B>>,
                "min: needs extents that broadcast and numbers of one type: cast<T>(x)");
  return detail::binary<formula::minimum>(a, b);
}

/// Elements of `a` where the condition holds, of `b` elsewhere (tf.where).
template <Expression P, Operand A, Operand B>
  requires(Expression<A> || Expression<B>)
[[nodiscard]] auto select(const P& condition, const A& a, const B& b) {
  using T = detail::operand_type<A, B>;
  using U = detail::operand_type<B, A>;
  using DA = detail::operand_dims<A>;
  using DB = detail::operand_dims<B>;
  using DP = dims_t<P>;
  static_assert(correct<element_types_differ<value_t<P>, bool>>, "select: the condition is a tensor of bool");
  static_assert(correct<elementwise_shapes_differ<DA, DB>>, "select: the operands' extents do not broadcast");
  static_assert(correct<element_types_differ<T, U>>, "select: the operands' element types differ: use cast<T>(x)");
  static_assert(correct<fraction_meets_integers<A, B>>, "select: integers hold no fraction: use cast<float>(x)");
  if constexpr (!elementwise_shapes_differ<DA, DB>::value && std::is_same_v<T, U> && std::is_same_v<value_t<P>, bool> &&
                correct<fraction_meets_integers<A, B>>) {
    using DAB = broadcast_dims<DA, DB>;
    static_assert(correct<elementwise_shapes_differ<DP, DAB>>, "select: the condition's extents do not broadcast");
    if constexpr (!elementwise_shapes_differ<DP, DAB>::value) {
      using D = broadcast_dims<DP, DAB>;
      return detail::make_expression<formula::select, T, D, device_t<P>>(
          detail::as_operand<bool, D>(condition), detail::as_operand<T, D>(a), detail::as_operand<T, D>(b));
    } else {
      return detail::after_mistake<T, DAB>(condition, a, b);
    }
  } else {
    return detail::after_mistake<T, DA>(condition, a, b);
  }
}

/// x where it is positive, alpha * x elsewhere (tf.nn.leaky_relu). `alpha` is a number, or a tensor or a node whose
/// extents broadcast, such as one slope for each channel (PReLU).
template <Expression X, Operand Alpha = double>
[[nodiscard]] auto leaky_relu(const X& x, const Alpha& alpha = 0.2) {
  return select(x > 0, x, alpha * x);
}

/// x where it is positive, alpha * (e^x - 1) elsewhere (torch.nn.functional.elu). `elu(x)` has the alpha 1.
template <Expression X, Operand Alpha>
[[nodiscard]] auto elu(const X& x, const Alpha& alpha) {
  return select(x > 0, x, alpha * expm1(minimum(x, 0)));
}

/// The elements converted to another type, as static_cast does (tf.cast); to half and bfloat16 by way of float. A
/// number that an integer type does not have becomes the nearest that it has, and a NaN 0, on CPUs and GPUs. Its
/// gradient is that of the result, converted back.
template <Element To, Expression X>
[[nodiscard]] auto cast(const X& x) {
  if constexpr (std::is_same_v<To, value_t<X>>)
    return detail::as_operand<To, dims_t<X>>(x);
  else
    return detail::make_expression<formula::cast<To>, To, dims_t<X>, device_t<X>>(
        detail::as_operand<value_t<X>, dims_t<X>>(x));
}

}  // namespace weft

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/elementwise/formulas_of_symbols.hpp>
#include <weft/ops/fused.hpp>

WEFT_COLD_BEGIN
namespace weft {
namespace detail {

/// A single operation, from which second gradients are built; its gradient is written in other single operations.
/// Addition and multiplication, which first gradients use as well, have a fused gradient.
template <class Op, class T, class... S>
inline constexpr fused single = [] {
  using skeleton_type = skeleton::apply<Op, T, S...>;
  fused f = {.signature = signature_of<skeleton_type>,
             .type = dtype_of<T>,
             .map = WEFT_RARE_LOOP_VERSIONS(map_loop<skeleton_type>),
             .text = tokens_of<skeleton_type>.tokens,
             .gpu = &gpu::kernels_of<skeleton_type>};
  if constexpr (skeleton_type::differentiable) {
    f.expand_gradient = expand_gradient<skeleton_type>;
    name_primitives<skeleton_type>(f);
  }
  return f;
}();

template <class T>
using arg0 = skeleton::argument<0, T>;
template <class T>
using arg1 = skeleton::argument<1, T>;

/// Returns the kernel of a formula for elements of type T; conditions are bool.
template <class Op, class T>
const fused* primitive_kernel() {
  using R = primitive_result<Op, T>;
  if constexpr (std::is_same_v<Op, formula::add> || std::is_same_v<Op, formula::multiply>)
    return &differentiated<skeleton::apply<Op, T, arg0<T>, arg1<T>>>;
  else if constexpr (requires { Op::of_bools; })
    return &single<Op, R, arg0<bool>>;
  else if constexpr (takes_one<Op, T>)
    return &single<Op, R, arg0<T>>;
  else if constexpr (takes_two<Op, T>)
    return &single<Op, R, arg0<T>, arg1<T>>;
  else
    return &single<Op, R, arg0<bool>, arg1<T>, skeleton::argument<2, T>>;
}

template <class T, primitive_set Set, class... Op>
const fused* find_in(formula_list<Op...>, primitive p) {
  // Functions, because nvcc does not evaluate them while it instantiates kernels that refer to each other.
  constexpr const fused* (*kernels[])() = {[]() -> const fused* (*)() {
    if constexpr (Set.has(primitive_of<Op>))
      return primitive_kernel<Op, T>;
    else
      return nullptr;
  }()...};
  const auto kernel = kernels[static_cast<std::size_t>(p)];
  return kernel ? kernel() : nullptr;
}

/// Returns a kernel of the set for elements of type T, or null. A conversion depends on two types: between float and
/// double, or from bool.
template <class T, primitive_set Set>
const fused* find_primitive(primitive p, dtype type, dtype to) {
  using other = std::conditional_t<std::is_same_v<T, float>, double, float>;
  if (p == primitive::convert) {
    if constexpr (Set.has(primitive::convert)) {
      if (type == dtype_of<T> && to == dtype_of<other>) return &single<formula::cast<other>, other, arg0<T>>;
      if (type == dtype::boolean && to == dtype_of<T>) return &single<formula::cast<T>, T, arg0<bool>>;
    }
    return nullptr;
  }
  return type == dtype_of<T> || p == primitive::logical_not ? find_in<T, Set>(primitive_formulas(), p) : nullptr;
}

/// Returns a primitive of a storage type: the sum of several gradients of a value, or a conversion.
template <class T>
const fused* find_storage_primitive(primitive p, dtype type, dtype to) {
  if (p == primitive::add && type == dtype_of<T>) return &single<formula::add, T, arg0<T>, arg1<T>>;
  if (p != primitive::convert) return nullptr;
  if (type == dtype_of<T>) {
    if (to == dtype::float32) return &single<formula::cast<float>, float, arg0<T>>;
    if (to == dtype::float64) return &single<formula::cast<double>, double, arg0<T>>;
  }
  if (to != dtype_of<T>) return nullptr;
  if (type == dtype::float32) return &single<formula::cast<T>, T, arg0<float>>;
  if (type == dtype::float64) return &single<formula::cast<T>, T, arg0<double>>;
  return nullptr;
}

template <class T>
const fused_reduction* kernel_of_sum() {
  return &reduced<skeleton::argument<0, T>, device::reduce_op::sum, true>;
}

}  // namespace detail

/// The kernels of symbols for one element type: only the kernels that are used are compiled.
struct primitive_table {
  dtype type;
  const fused* (*find)(primitive, dtype, dtype to);
  const fused_reduction* (*sum)();  ///< null if this type has no kernel for sums
};

template <class T, primitive_set Set>
inline constexpr primitive_table primitives_in = {dtype_of<T>, detail::find_primitive<T, Set>,
                                                  detail::kernel_of_sum<T>};

/// The primitives in which the first gradients of operations are written.
template <class T>
inline constexpr const primitive_table& gradient_primitives = primitives_in<T, detail::in_first_gradients>;

/// The primitives in the gradients of first gradients, and in the gradients of maxima, minima and products. An
/// expression's table contains the others that its formulas need (fused::primitives).
template <class T>
inline constexpr const primitive_table& primitives = primitives_in<T, detail::in_gradients>;

/// The primitives of half or bfloat16. They include no sums, since an expression converts broadcast operands first.
template <class T>
inline constexpr primitive_table storage_primitives = {dtype_of<T>, detail::find_storage_primitive<T>, nullptr};

namespace detail {

/// True if an expression's formulas can be evaluated at compile time.
template <class S>
concept constexpr_formulas = requires { typename std::bool_constant<(gradient_dependence<S, true>(), true)>; };

/// The primitives of an expression's gradient, written in symbols. Users' formulas that are not constexpr may need any
/// primitive.
template <class S>
inline constexpr primitive_set primitives_of = in_formulas;
template <constexpr_formulas S>
inline constexpr primitive_set primitives_of<S> = gradient_dependence<S, true>().by | primitive_set(primitive::add);

template <class T, primitive_set Set>
const primitive_table& table_of_primitives() {
  return primitives_in<T, Set>;
}

template <class S>
constexpr void name_primitives(fused& f) {
  constexpr primitive_set set = primitives_of<S>;
  constexpr std::uint32_t elements = signature_of<S>.elements;
  if constexpr ((elements >> static_cast<unsigned>(dtype::float32)) & 1)
    f.primitives[0] = table_of_primitives<float, set>;
  if constexpr ((elements >> static_cast<unsigned>(dtype::float64)) & 1)
    f.primitives[1] = table_of_primitives<double, set>;
}

template <class Op>
void use_gradient_primitives_of(op_builder& where) {
  where.use(primitives_in<float, Op::gradient_uses>);
  where.use(primitives_in<double, Op::gradient_uses>);
}

#define WEFT_PRIMITIVE_KERNEL(name, operands)                              \
  WEFT_INSTANTIATE(const fused* primitive_kernel<formula::name, float>()); \
  WEFT_INSTANTIATE(const fused* primitive_kernel<formula::name, double>());
WEFT_FORMULAS(WEFT_PRIMITIVE_KERNEL, WEFT_PRIMITIVE_KERNEL, WEFT_NO_ROW)
#undef WEFT_PRIMITIVE_KERNEL
WEFT_INSTANTIATE(const fused* find_primitive<float, in_first_gradients>(primitive, dtype type, dtype to));
WEFT_INSTANTIATE(const fused* find_primitive<float, in_gradients>(primitive, dtype type, dtype to));
WEFT_INSTANTIATE(const fused* find_primitive<double, in_first_gradients>(primitive, dtype type, dtype to));
WEFT_INSTANTIATE(const fused* find_primitive<double, in_gradients>(primitive, dtype type, dtype to));
WEFT_INSTANTIATE(const fused_reduction* kernel_of_sum<float>());
WEFT_INSTANTIATE(const fused_reduction* kernel_of_sum<double>());

}  // namespace detail

// The sum of a plain node or tensor.
WEFT_INSTANTIATE(const fused_reduction reduced<skeleton::argument<0, float>, device::reduce_op::sum, true>);
WEFT_INSTANTIATE(const fused_reduction reduced<skeleton::argument<0, double>, device::reduce_op::sum, true>);
WEFT_INSTANTIATE(const fused_reduction reduced<skeleton::argument<0, float>, device::reduce_op::sum, false>);
WEFT_INSTANTIATE(const fused_reduction reduced<skeleton::argument<0, double>, device::reduce_op::sum, false>);

}  // namespace weft

WEFT_COLD_END

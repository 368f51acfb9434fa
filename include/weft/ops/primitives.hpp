#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/formulas.hpp>
#include <weft/ops/fused.hpp>

WEFT_COLD_BEGIN
namespace weft {
namespace detail {

/// A single operation: what gradients of gradients are made of. Rare, so compiled for the plain instruction set alone;
/// addition and multiplication, which first gradients need too, are compiled in full.
template <class Op, class T, class... S>
inline constexpr fused single = [] {
  using skeleton_type = skeleton::apply<Op, T, S...>;
  fused f = {.signature = signature_of<skeleton_type>,
             .type = dtype_of<T>,
             .text = tokens_of<skeleton_type>.tokens,
             .gpu = &gpu::kernels_of<skeleton_type>};
  for (auto& version : f.map) version = map_loop<skeleton_type>;
  if constexpr (skeleton_type::differentiable) f.expand_gradient = expand_gradient<skeleton_type>;
  return f;
}();

template <class T>
using arg0 = skeleton::argument<0, T>;
template <class T>
using arg1 = skeleton::argument<1, T>;

template <class From>
const fused* conversion(dtype to) {
  switch (to) {
    case dtype::float32:
      return &single<formula::cast<float>, float, arg0<From>>;
    case dtype::float64:
      return &single<formula::cast<double>, double, arg0<From>>;
    default:
      return nullptr;
  }
}

/// The kernel of a formula on elements of T; conditions are bool.
template <class Op, class T>
constexpr const fused* primitive_kernel() {
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

/// Those that first gradients are made of, or all but these. A conversion, the last, depends on two types.
template <class T, bool First, class... Op>
const fused* find_in(formula_list<Op...>, primitive p) {
  static constexpr const fused* kernels[] = {[] {
    if constexpr (in_first_gradients<Op> == First && !std::is_same_v<Op, formula::cast<T>>)
      return primitive_kernel<Op, T>();
    else
      return static_cast<const fused*>(nullptr);
  }()...};
  return kernels[static_cast<std::size_t>(p)];
}

template <class T>
const fused* find_gradient_primitive(primitive p, dtype type, dtype) {
  return type == dtype_of<T> ? find_in<T, true>(primitive_formulas<T>(), p) : nullptr;
}

template <class T>
const fused* find_primitive(primitive p, dtype type, dtype to) {
  if (const fused* f = find_gradient_primitive<T>(p, type, to)) return f;
  if (p == primitive::convert)
    return type == dtype_of<T> ? conversion<T>(to) : type == dtype::boolean ? conversion<bool>(to) : nullptr;
  return type == dtype_of<T> || p == primitive::logical_not ? find_in<T, false>(primitive_formulas<T>(), p) : nullptr;
}

WEFT_INSTANTIATE(const fused* find_gradient_primitive<float>(primitive, dtype type, dtype to));
WEFT_INSTANTIATE(const fused* find_primitive<float>(primitive, dtype type, dtype to));

/// Of a storage type: the sum of gradients that meet, and conversions.
template <class T>
const fused* find_storage_primitive(primitive p, dtype type, dtype to) {
  if (p == primitive::add && type == dtype_of<T>) return &single<formula::add, T, arg0<T>, arg1<T>>;
  if (p != primitive::convert) return nullptr;
  if (type == dtype_of<T>) return conversion<T>(to);
  if (to != dtype_of<T>) return nullptr;
  if (type == dtype::float32) return &single<formula::cast<T>, T, arg0<float>>;
  if (type == dtype::float64) return &single<formula::cast<T>, T, arg0<double>>;
  return nullptr;
}

template <class T>
inline constexpr fused_reduction reduced_sum = reduced<skeleton::argument<0, T>, device::reduce_op::sum, true>;

}  // namespace detail

/// The kernels behind symbols, for one element type. A table, so that a program compiles what it asks for alone.
struct primitive_table {
  dtype type;
  const fused* (*find)(primitive, dtype, dtype to);
  const fused_reduction* sum;
};

/// In these the gradients of operations are written.
template <class T>
inline constexpr primitive_table gradient_primitives = {dtype_of<T>, detail::find_gradient_primitive<T>,
                                                        &detail::reduced_sum<T>};

/// And in these those of gradients, of the largest and the smallest element, and of products.
template <class T>
inline constexpr primitive_table primitives = {dtype_of<T>, detail::find_primitive<T>, &detail::reduced_sum<T>};

/// The same for half or bfloat16. Nothing is summed there: an expression converts what is broadcast before.
template <class T>
inline constexpr primitive_table storage_primitives = {dtype_of<T>, detail::find_storage_primitive<T>, nullptr};

}  // namespace weft

WEFT_COLD_END

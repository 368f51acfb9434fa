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

template <class T>
const fused* find_gradient_primitive(primitive p, dtype type, dtype) {
  namespace f = formula;
  if (type != dtype_of<T>) return nullptr;
  switch (p) {
    case primitive::add:
      return &differentiated<skeleton::apply<f::add, T, arg0<T>, arg1<T>>>;
    case primitive::subtract:
      return &single<f::subtract, T, arg0<T>, arg1<T>>;
    case primitive::multiply:
      return &differentiated<skeleton::apply<f::multiply, T, arg0<T>, arg1<T>>>;
    case primitive::negate:
      return &single<f::negate, T, arg0<T>>;
    case primitive::exp:
      return &single<f::exp, T, arg0<T>>;
    default:
      return nullptr;
  }
}

template <class T>
const fused* further_primitive(primitive p, dtype to) {
  namespace f = formula;
  switch (p) {
    case primitive::divide:
      return &single<f::divide, T, arg0<T>, arg1<T>>;
    case primitive::log:
      return &single<f::log, T, arg0<T>>;
    case primitive::sqrt:
      return &single<f::sqrt, T, arg0<T>>;
    case primitive::tanh:
      return &single<f::tanh, T, arg0<T>>;
    case primitive::sigmoid:
      return &single<f::sigmoid, T, arg0<T>>;
    case primitive::pow:
      return &single<f::pow, T, arg0<T>, arg1<T>>;
    case primitive::abs:
      return &single<f::abs, T, arg0<T>>;
    case primitive::sign:
      return &single<f::sign, T, arg0<T>>;
    case primitive::floor:
      return &single<f::floor, T, arg0<T>>;
    case primitive::less:
      return &single<f::less, bool, arg0<T>, arg1<T>>;
    case primitive::less_equal:
      return &single<f::less_equal, bool, arg0<T>, arg1<T>>;
    case primitive::equal:
      return &single<f::equal, bool, arg0<T>, arg1<T>>;
    case primitive::select:
      return &single<f::select, T, arg0<bool>, arg1<T>, skeleton::argument<2, T>>;
    case primitive::maximum:
      return &single<f::maximum, T, arg0<T>, arg1<T>>;
    case primitive::minimum:
      return &single<f::minimum, T, arg0<T>, arg1<T>>;
    case primitive::convert:
      return conversion<T>(to);
    default:
      return nullptr;
  }
}

template <class T>
const fused* find_primitive(primitive p, dtype type, dtype to) {
  if (const fused* f = find_gradient_primitive<T>(p, type, to)) return f;
  if (p == primitive::logical_not) return &single<formula::logical_not, bool, arg0<bool>>;
  if (type == dtype_of<T>) return further_primitive<T>(p, to);
  if (type == dtype::boolean && p == primitive::convert) return conversion<bool>(to);
  return nullptr;
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

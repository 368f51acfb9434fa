// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/random.hpp>
#include <weft/ops/fused.hpp>
#include <weft/ops/random/random_position.hpp>

/// Arrays of random numbers, drawn anew in every step; see random_uniform, random_normal and random_int in
/// graph/random.hpp.
WEFT_COLD_BEGIN
namespace weft {
namespace detail {

template <class T, class Element>
struct random_op {
  using element = Element;
  struct attributes {
    attribute<std::uint64_t> key;
  };
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new random_kernel<T, Element>(p, a.key);
  }
};

}  // namespace detail

/// Input: the position.
template <class T>
struct random_uniform_op : detail::random_op<T, device::uniform_element<T>> {
  static constexpr const char* name = "random_uniform";
};
template <class T>
struct random_normal_op : detail::random_op<T, device::normal_element<T>> {
  static constexpr const char* name = "random_normal";
};
template <class T>
struct random_truncated_normal_op : detail::random_op<T, device::truncated_normal_element<T>> {
  static constexpr const char* name = "random_truncated_normal";
};
template <class T>
struct random_int_op : detail::random_op<T, device::integer_element<T>> {
  static constexpr const char* name = "random_int";
};

namespace detail {

/// `Number`: std::int64_t for integers, otherwise double.
template <class Op, class Number = double>
symbol record_random(op_builder& where, const value_info& output, std::type_identity_t<Number> a,
                     std::type_identity_t<Number> b, const random_options& options) {
  const symbol position = record_random_position(where);
  node_def c;
  c.op = &operation_of<Op>;
  c.inputs = {position.id()};
  c.outputs = {output};
  c.attributes = words_of(attributes_type<Op>{where.random_key(options.seed.get())});
  c.literals = {literal_bits(a), literal_bits(b)};
  return position.builder()->record(static_cast<node_def&&>(c));
}

}  // namespace detail
}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/random.hpp>
#endif

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/config.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>

/// The computation of a kernel for one element, independent of the positions of elements. A program is a type with
///
///     static constexpr int inputs, outputs, constants;
///     static constexpr bool reads_all;                       // if false, inputs may be null
///     static constexpr int reads;                            // optional: the number of inputs that are read
///     template <int Index> using input = ...;                // element types
///     template <int O> using output = ...;
///     template <int O> static constexpr bool writes = ...;   // false if the output does not exist
///     template <class In, class Out>
///     static void run(const In& in, const std::uint64_t* constants, double factor, Out& out);
///
/// that reads `in.template get<Index>()` and writes `out.template set<O>(value)`.
namespace weft::gpu {

template <class P>
inline constexpr int reads_of = P::inputs;
template <class P>
  requires requires { P::reads; }
inline constexpr int reads_of<P> = P::reads;

namespace detail {

template <class... T>
struct elements_of_types : element<T>... {};
using all_elements = elements_of_types<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                                       std::uint16_t, std::uint32_t, std::uint64_t, half, bfloat16, float, double>;

template <dtype Type, class T>
std::type_identity<T> find_type(const weft::detail::known_element<T, Type>*);

}  // namespace detail

/// The element type of a dtype: the inverse of dtype_of.
template <dtype Type>
struct type_of : decltype(detail::find_type<Type>(static_cast<detail::all_elements*>(nullptr))) {};

/// Count elements that one instruction moves.
template <class T, int Count>
struct alignas(sizeof(T) * Count) pack {
  T x[Count];
};

namespace detail {

template <int Index, class T, int Count>
struct slot {
  T x[Count];
};

template <class P, int Count, class Indices>
struct input_slots;
template <class P, int Count, std::size_t... Index>
struct input_slots<P, Count, weft::detail::indices<Index...>>
    : slot<static_cast<int>(Index), typename P::template input<Index>, Count>... {};

template <class P, int Count, class Indices>
struct output_slots;
template <class P, int Count, std::size_t... O>
struct output_slots<P, Count, weft::detail::indices<O...>>
    : slot<static_cast<int>(O), typename P::template output<O>, Count>... {};

template <int Count>
using index_list = typename weft::detail::make_indices<static_cast<std::size_t>(Count)>::type;

}  // namespace detail

/// The inputs of Count elements, in registers.
template <class P, int Count>
struct inputs_of : detail::input_slots<P, Count, detail::index_list<P::inputs>> {
  template <int Index>
  WEFT_HOST_DEVICE auto& at() {
    return static_cast<detail::slot<Index, typename P::template input<Index>, Count>&>(*this).x;
  }
  template <int Index>
  WEFT_HOST_DEVICE const auto& at() const {
    return static_cast<const detail::slot<Index, typename P::template input<Index>, Count>&>(*this).x;
  }
};

template <class P, int Count>
struct outputs_of : detail::output_slots<P, Count, detail::index_list<P::outputs>> {
  template <int O>
  WEFT_HOST_DEVICE auto& at() {
    return static_cast<detail::slot<O, typename P::template output<O>, Count>&>(*this).x;
  }
};

/// One of the Count elements, in the form that a program reads.
template <class P, int Count>
struct element_inputs {
  const inputs_of<P, Count>& all;
  int lane;
  template <int Index>
  WEFT_HOST_DEVICE auto get() const {
    return all.template at<Index>()[lane];
  }
};

template <class P, int Count>
struct element_outputs {
  outputs_of<P, Count>& all;
  int lane;
  template <int O, class T>
  WEFT_HOST_DEVICE void set(T value) {
    all.template at<O>()[lane] = value;
  }
};

/// Returns the number of elements of a program's widest operand in the 16 bytes that one instruction moves; at most 8.
template <class P, std::size_t... Index, std::size_t... O>
constexpr int lanes_of(weft::detail::indices<Index...>, weft::detail::indices<O...>) {
  std::size_t widest = 2;
  ((widest = sizeof(typename P::template input<Index>) > widest ? sizeof(typename P::template input<Index>) : widest),
   ...);
  ((widest = sizeof(typename P::template output<O>) > widest ? sizeof(typename P::template output<O>) : widest), ...);
  return static_cast<int>(16 / widest);
}

}  // namespace weft::gpu

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/loop.hpp>
#include <weft/device/exact.hpp>
#include <weft/ops/optimizer_traits.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// An optimizer's formula as a loop for a CPU kernel and for a parameter server.
namespace weft::detail {

// The numbers of a step: the hyperparameters, then the scalar slots, all as the bits of doubles.

template <class Optimizer, std::size_t... Index>
WEFT_INLINE Optimizer optimizer_of(const std::uint64_t* numbers, indices<Index...> all) {
  static_cast<void>(numbers);
  const member_value members[] = {{literal_value<double>(numbers[Index])}..., {0.0}};
  return optimizer_of<Optimizer>(members, all);
}

template <class Optimizer, std::size_t Slot, class T>
WEFT_INLINE void load_slot(exact<T>& x, exact<T> scalar, const T* array, std::size_t i) {
  if constexpr (is_scalar<Optimizer, Slot>)
    x = scalar;
  else
    x = exact<T>(array[i]);
}
template <class Optimizer, std::size_t Slot, class T>
WEFT_INLINE void store_slot(exact<T> x, T* array, std::size_t i) {
  if constexpr (!is_scalar<Optimizer, Slot>) array[i] = x.value();
}

/// in: the gradient, last. out: the variable and the slots that are arrays; with `Copies`, also a second destination
/// for the variable's new values.
template <class Optimizer, class T, bool Copies, std::size_t... Slot, std::size_t... Norm>
WEFT_INLINE void update_elements(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* numbers,
                                 indices<Slot...>, indices<Norm...>) {
  using V = exact<T>;
  constexpr std::size_t slots = sizeof...(Slot), arrays = 1 + arrays_before(scalars_of<Optimizer>, slots);
  [[maybe_unused]] constexpr std::size_t parameters = hyperparameters_of<Optimizer>;
  const Optimizer optimizer = optimizer_of<Optimizer>(numbers, parameter_indices<Optimizer>());
  const T* const gradient = static_cast<const T*>(in[arrays]);
  T* const variable = static_cast<T*>(out[0]);
  [[maybe_unused]] T* const copy = static_cast<T*>(Copies ? out[arrays] : nullptr);
  [[maybe_unused]] T* const array[slots + 1] = {
      static_cast<T*>(is_scalar<Optimizer, Slot> ? nullptr : out[1 + arrays_before(scalars_of<Optimizer>, Slot)])...,
      nullptr};
  [[maybe_unused]] const V scalar[slots + 1] = {
      V(is_scalar<Optimizer, Slot>
            ? literal_value<double>(numbers[parameters + scalars_before(scalars_of<Optimizer>, Slot)])
            : 0.0)...,
      V(0)};
  [[maybe_unused]] const V norm[] = {V(literal_value<double>(numbers[members_of<Optimizer> + Norm]))..., V(0)};
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) {
    V x(variable[i]), s[slots + 1];
    const V upstream(gradient[i]);
    (load_slot<Optimizer, Slot>(s[Slot], scalar[Slot], array[Slot], i), ...);
    optimizer.update(x, as_operand<Optimizer, Slot>(s[Slot])..., upstream, norm[Norm]...);
    (store_slot<Optimizer, Slot>(s[Slot], array[Slot], i), ...);
    variable[i] = x.value();
    if constexpr (Copies) copy[i] = x.value();
  }
}
template <class Optimizer, class T, bool Copies>
void update_block(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* numbers) {
  update_elements<Optimizer, T, Copies>(in, out, n, numbers, slot_indices<Optimizer>(), norm_indices<Optimizer>());
}

template <class Optimizer, class T, std::size_t... Scalar>
WEFT_INLINE void advance_scalars(std::uint64_t* numbers, indices<Scalar...>) {
  using V = exact<T>;
  const Optimizer optimizer = optimizer_of<Optimizer>(numbers, parameter_indices<Optimizer>());
  std::uint64_t* const at = numbers + hyperparameters_of<Optimizer>;
  V scalar[] = {V(literal_value<double>(at[Scalar]))...};
  optimizer.advance(scalar[Scalar]...);
  ((at[Scalar] = literal_bits(static_cast<double>(scalar[Scalar].value()))), ...);
}
template <class Optimizer, class T>
WEFT_UNFUSED()
void advance_numbers(std::uint64_t* numbers) {
  if constexpr (scalar_count<Optimizer> != 0) advance_scalars<Optimizer, T>(numbers, scalar_indices<Optimizer>());
}

/// Advances the numbers of the previous step to the current step, for elements of type T.
using advance_function = void (*)(std::uint64_t* numbers);
inline constexpr std::size_t max_numbers = max_hyperparameters + max_slots;

}  // namespace weft::detail

#pragma pop_macro("slots")

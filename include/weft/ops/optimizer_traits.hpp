// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/device/exact.hpp>
#include <weft/ops/hyperparameter.hpp>
#include <weft/tensor/mistake.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// The parts of an optimizer (train/optimizers.hpp; docs/how-to/optimizers.md), derived from its structure: members,
/// slots, norms and functions.
namespace weft {

/// State that an optimizer keeps between steps in a separate variable: one number for each element of the trained
/// variable, or one for all elements.
struct slot {
  const char* name;
  hyperparameter first = 0;  ///< its value before the first step
  bool scalar = false;

  constexpr slot(const char* slot_name, hyperparameter first_value = 0) : name(slot_name), first(first_value) {}
};
/// Makes a slot of one number for all elements of the variable.
constexpr slot scalar_slot(const char* name, hyperparameter first = 0) {
  slot s(name, first);
  s.scalar = true;
  return s;
}

/// The result of an optimizer's `slots()`: `return slot_list{slot("m"), slot("v")};`
template <std::size_t Count>
struct slot_list {
  slot all[Count];
};
template <class... Slot>
slot_list(Slot...) -> slot_list<sizeof...(Slot)>;

/// The result of an optimizer's `norms`: the value of each norm at one element.
template <class V, std::size_t Count>
struct norm_list {
  V all[Count];
};
template <class V, class... More>
norm_list(V, More...) -> norm_list<V, 1 + sizeof...(More)>;

namespace detail {

inline constexpr std::size_t max_slots = 8, max_hyperparameters = 16;

template <class Member>
inline constexpr bool is_member_type =
    std::is_same_v<Member, hyperparameter> || std::is_same_v<Member, bool> || std::is_same_v<Member, float> ||
    std::is_same_v<Member, double> || ((std::is_integral_v<Member> || std::is_enum_v<Member>) && sizeof(Member) <= 4);

/// The value of an optimizer's member as a double, which represents it exactly.
struct member_value {
  double number;
  template <class Member>
    requires(is_member_type<Member>)
  WEFT_HOST_DEVICE constexpr operator Member() const {
    return static_cast<Member>(number);
  }
};
/// Converts only to a hyperparameter.
struct hyperparameter_probe {
  constexpr operator hyperparameter() const { return 0; }
};
struct any_member {
  template <class Member>
  constexpr operator Member() const;
};
template <class Optimizer, class Member, std::size_t... Index>
constexpr bool takes_members(indices<Index...>) {
  return requires { Optimizer{(static_cast<void>(Index), Member{})...}; };
}
template <class Optimizer, class Member, std::size_t Count>
inline constexpr bool is_made_of = takes_members<Optimizer, Member>(typename make_indices<Count>::type());

template <class Optimizer, std::size_t Count>
constexpr std::size_t count_members_down() {
  if constexpr (Count == 0 || is_made_of<Optimizer, member_value, Count>)
    return Count;
  else
    return count_members_down<Optimizer, Count - 1>();
}
template <class Optimizer>
constexpr std::size_t count_members() {
  constexpr std::size_t most = sizeof(Optimizer) / sizeof(hyperparameter);
  if constexpr (std::is_empty_v<Optimizer>)
    return 0;
  else if constexpr (most > 0 && sizeof(Optimizer) == most * sizeof(hyperparameter) &&
                     is_made_of<Optimizer, hyperparameter_probe, most>)
    return most;
  else
    return count_members_down<Optimizer, max_hyperparameters>();
}
template <class Optimizer>
inline constexpr std::size_t members_of = count_members<Optimizer>();

template <std::size_t Count>
constexpr std::size_t count_slots(const slot_list<Count>&) {
  return Count;
}
template <class Optimizer>
constexpr std::size_t count_slots() {
  if constexpr (requires { Optimizer{}.slots(); })
    return count_slots(Optimizer{}.slots());
  else
    return 0;
}
/// Returns a mask of the scalar slots.
template <class Optimizer>
constexpr std::uint32_t find_scalars() {
  std::uint32_t mask = 0;
  if constexpr (count_slots<Optimizer>() != 0)
    for (std::size_t k = 0; k < count_slots<Optimizer>(); ++k)
      mask |= std::uint32_t{Optimizer{}.slots().all[k].scalar} << k;
  return mask;
}

template <class Optimizer>
inline constexpr std::size_t slots_of = count_slots<Optimizer>();
template <class Optimizer>
inline constexpr std::uint32_t scalars_of = find_scalars<Optimizer>();
template <class Optimizer, std::size_t Slot>
inline constexpr bool is_scalar = (scalars_of<Optimizer> & (1u << Slot)) != 0;
/// Return how many of the preceding slots are scalars, or have one number for each element.
constexpr std::size_t scalars_before(std::uint32_t scalars, std::size_t slot) {
  return static_cast<std::size_t>(__builtin_popcount(scalars & ((1u << slot) - 1)));
}
constexpr std::size_t arrays_before(std::uint32_t scalars, std::size_t slot) {
  return slot - scalars_before(scalars, slot);
}

template <class Optimizer>
using parameter_indices = typename make_indices<members_of<Optimizer>>::type;
template <class Optimizer>
using slot_indices = typename make_indices<slots_of<Optimizer>>::type;

template <class Optimizer>
constexpr bool has_right_members() {
  return std::is_empty_v<Optimizer> || (std::is_trivially_copyable_v<Optimizer> && members_of<Optimizer> != 0 &&
                                        !is_made_of<Optimizer, any_member, members_of<Optimizer> + 1>);
}

/// Returns a slot as `update` receives it: a scalar applies to all elements and is const.
template <class Optimizer, std::size_t Slot, class V>
WEFT_HOST_DEVICE WEFT_INLINE auto& as_operand(V& x) {
  if constexpr (is_scalar<Optimizer, Slot>)
    return static_cast<const V&>(x);
  else
    return x;
}

// Uses traits instead of `requires`, in which packs of operands cause an internal error of nvcc 13.
template <class Optimizer, std::size_t Slot>
std::conditional_t<is_scalar<Optimizer, Slot>, const exact<float>&, exact<float>&> operand_of();
template <std::size_t>
exact<float>& scalar_operand();

template <std::size_t Count>
struct norm_count {
  static constexpr std::size_t value = Count;
};
template <class V, std::size_t Count>
norm_count<Count> count_norms(const norm_list<V, Count>&);
template <class Optimizer, std::size_t... Slot>
constexpr auto find_norms(indices<Slot...>, const Optimizer* o, const exact<float>* x)
    -> decltype(count_norms(o->norms(*x, x[Slot]..., *x)).value) {
  return decltype(count_norms(o->norms(*x, x[Slot]..., *x)))::value;
}
template <class Optimizer>
constexpr std::size_t find_norms(...) {
  return 0;
}
template <class Optimizer>
inline constexpr std::size_t norms_of = find_norms<Optimizer>(slot_indices<Optimizer>(), nullptr, nullptr);
template <class Optimizer>
using norm_indices = typename make_indices<norms_of<Optimizer>>::type;
/// The number of values in a step that are not slots: the members, followed by the norms.
template <class Optimizer>
inline constexpr std::size_t hyperparameters_of = members_of<Optimizer> + norms_of<Optimizer>;

template <class Optimizer, std::size_t... Slot, std::size_t... Norm>
constexpr auto has_update(indices<Slot...>, indices<Norm...>, const Optimizer* o, exact<float>* x,
                          const exact<float>* gradient)
    -> decltype(o->update(*x, operand_of<Optimizer, Slot>()..., *gradient, gradient[Norm]...), true) {
  return true;
}
template <class Optimizer>
constexpr bool has_update(...) {
  return false;
}
template <class Optimizer>
constexpr bool has_name() {
  if constexpr (requires { Optimizer::name; })
    return std::is_convertible_v<decltype(Optimizer::name), const char*>;
  else
    return false;
}
template <class Optimizer, std::size_t... Scalar>
constexpr auto has_advance(indices<Scalar...>, const Optimizer* o)
    -> decltype(o->advance(scalar_operand<Scalar>()...), true) {
  return true;
}
template <class Optimizer>
constexpr bool has_advance(...) {
  return false;
}
template <class Optimizer>
inline constexpr std::size_t scalar_count = scalars_before(scalars_of<Optimizer>, slots_of<Optimizer>);
template <class Optimizer>
using scalar_indices = typename make_indices<scalar_count<Optimizer>>::type;

}  // namespace detail

/// An optimizer's members must be hyperparameters, of type `hyperparameter`, or numbers, bools and enumerations.
template <class Optimizer>
struct optimizer_members_are_not_hyperparameters : mistake<!detail::has_right_members<Optimizer>()> {};

template <class Optimizer>
struct optimizer_has_no_name : mistake<!detail::has_name<Optimizer>()> {};

template <class Optimizer>
struct optimizer_is_too_large : mistake<(detail::slots_of<Optimizer> > detail::max_slots) ||
                                        (detail::hyperparameters_of<Optimizer> > detail::max_hyperparameters)> {};

/// `update` must take the variable, the slots in the order of slots(), with scalars as `const V&` or `V`, the gradient,
/// and the norms, if any, like scalars.
template <class Optimizer>
struct optimizer_has_no_fitting_update
    : mistake<!detail::has_update<Optimizer>(detail::slot_indices<Optimizer>(), detail::norm_indices<Optimizer>(),
                                             nullptr, nullptr, nullptr)> {};

/// An optimizer with scalar slots must have `advance`, which updates them once in each step, before any element.
template <class Optimizer>
struct optimizer_has_no_fitting_advance
    : mistake<detail::scalar_count<Optimizer> != 0 &&
              !detail::has_advance<Optimizer>(detail::scalar_indices<Optimizer>(), nullptr)> {};

/// The first mistake in an optimizer, if any.
template <class Optimizer>
using optimizer_mistake =
    first_mistake<optimizer_members_are_not_hyperparameters<Optimizer>, optimizer_is_too_large<Optimizer>,
                  optimizer_has_no_name<Optimizer>, optimizer_has_no_fitting_update<Optimizer>,
                  optimizer_has_no_fitting_advance<Optimizer>>;

namespace detail {

/// Uses the formula, so that errors in it appear at the call that names the optimizer.
template <class Optimizer, class V, std::size_t... Slot, std::size_t... Scalar, std::size_t... Norm>
auto use_formula(const Optimizer& o, V* x, indices<Slot...>, indices<Scalar...>, indices<Norm...>) {
  if constexpr (sizeof...(Scalar) != 0) o.advance(x[Scalar]...);
  o.update(*x, as_operand<Optimizer, Slot>(x[Slot])..., *x, x[Norm]...);
}

/// Returns the optimizer whose members have these values.
template <class Optimizer, std::size_t... Index>
WEFT_HOST_DEVICE WEFT_INLINE constexpr Optimizer optimizer_of(const member_value* members, indices<Index...>) {
  static_cast<void>(members);
  if constexpr (requires { typename Optimizer::extended; }) {  // an optimizer that contains another one
                                                               // (train/decay.hpp)
    using inner = typename Optimizer::extended;
    return Optimizer{optimizer_of<inner>(members, parameter_indices<inner>()), members[sizeof...(Index) - 1]};
  } else {
    return Optimizer{members[Index]...};
  }
}

}  // namespace detail

}  // namespace weft

#pragma pop_macro("slots")

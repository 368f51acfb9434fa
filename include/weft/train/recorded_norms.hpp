// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/ops/optimizer_traits.hpp>
#include <weft/ops/symbol.hpp>
#include <weft/ops/update_view.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/train/recorded_updates.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// Records an optimizer's norms as nodes of a graph.
WEFT_COLD_BEGIN
namespace weft {
namespace detail {

/// The number type with which `norms` and `advance` are recorded: a graph value, rounded to `type`.
class recorded_number {
 public:
  recorded_number(double number) : value_(number) {}
  recorded_number(symbol value) : value_(value) {}
  recorded_number(const hyperparameter& h) : value_(h.node()) {}
  symbol value(dtype type) const {
    return value_.is_number() || value_.type() == type ? value_ : math::convert(value_, type);
  }

#define WEFT_RECORDED(op)                                                                  \
  friend recorded_number operator op(const recorded_number& a, const recorded_number& b) { \
    const dtype type = common(a, b);                                                       \
    return a.value(type) op b.value(type);                                                 \
  }                                                                                        \
  recorded_number& operator op##=(const recorded_number & b) { return *this = *this op b; }
  WEFT_RECORDED(+)
  WEFT_RECORDED(-)
  WEFT_RECORDED(*)
  WEFT_RECORDED(/)
#undef WEFT_RECORDED
  friend recorded_number operator-(const recorded_number& a) { return -a.value_; }
  friend recorded_number sqrt(const recorded_number& a) { return math::sqrt(a.value_); }
  friend recorded_number abs(const recorded_number& a) { return math::abs(a.value_); }

 private:
  // A hyperparameter that is a graph value is a double, and takes the type of the other operand.
  static dtype common(const recorded_number& a, const recorded_number& b) {
    if (a.value_.is_number()) return b.value_.is_number() ? dtype::float64 : b.value_.type();
    if (b.value_.is_number()) return a.value_.type();
    return a.value_.type() == dtype::float32 ? dtype::float32 : b.value_.type();
  }

  symbol value_;
};

// A template, so that it is not compiled for optimizers without norms.
template <class Optimizer>
inline constexpr primitive_set in_norms{primitive::add,    primitive::subtract, primitive::multiply,
                                        primitive::divide, primitive::negate,   primitive::sqrt,
                                        primitive::abs,    primitive::convert};

template <class Optimizer, std::size_t... Slot, std::size_t... Scalar>
void record_norms(const Optimizer& o, const symbol* operands, symbol* norms, indices<Slot...>, indices<Scalar...>) {
  constexpr std::size_t slots = sizeof...(Slot);
  sequence<recorded_number> slot, scalar;
  for (std::size_t k = 0; k < slots; ++k) {
    slot.push_back(operands[1 + k]);
    if (layout_of<Optimizer>.is_scalar(k)) scalar.push_back(operands[1 + k]);
  }
  if constexpr (sizeof...(Scalar) != 0) o.advance(scalar[Scalar]...);
  for (std::size_t k = 0, next = 0; k < slots; ++k)
    if (layout_of<Optimizer>.is_scalar(k)) slot[k] = scalar[next++];
  const auto list = o.norms(recorded_number(operands[0]), slot[Slot]..., recorded_number(operands[1 + slots]));
  for (std::size_t k = 0; k < norms_of<Optimizer>; ++k) {
    const symbol sum = record_sum_of_squares(list.all[k].value(operands[0].type()));
    norms[k] = recorded_number(math::sqrt(sum)).value(dtype::float64);
  }
}
template <class Optimizer>
void record_norms(const void* optimizer, const symbol* operands, symbol* norms) {
  record_norms(*static_cast<const Optimizer*>(optimizer), operands, norms, slot_indices<Optimizer>(),
               scalar_indices<Optimizer>());
}

}  // namespace detail

}  // namespace weft
WEFT_COLD_END

#pragma pop_macro("slots")

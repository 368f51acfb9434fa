// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Elementwise operators whose text depends on types or attributes.
namespace tool::importer {

inline void averaged(call& c) {
  joined_operands(c);
  if (c.in.size() > 1) c.text = "(" + c.text + ") / " + std::to_string(c.in.size());
}

/// The exponent has any type. Integers are raised in double.
inline void raised(call& c) {
  broadcast_extents(c);
  const int base = c.operand(0).type, exponent = c.operand(1).type;
  if (!is_float(base))
    c.text = cast_text(base, "pow(cast<double>({0}), cast<double>({1}))");
  else if (base != exponent && !is_half(exponent))
    c.text = "pow({0}, " + cast_text(is_half(base) ? static_cast<int>(float32) : base, "{1}") + ")";
}

inline void divided_with_remainder(call& c) {
  broadcast_extents(c);
  c.text = c.number("fmod", 0) != 0 ? "fmod({0}, {1})" : "floor_mod({0}, {1})";
}
inline void shifted(call& c) {
  broadcast_extents(c);
  c.text = c.word_of("direction", {"LEFT", "RIGHT"}) == "LEFT" ? "{0} << {1}" : "{0} >> {1}";
}

inline void found_infinite(call& c) {
  same_extents(c);
  const bool low = c.number("detect_negative", 1) != 0, high = c.number("detect_positive", 1) != 0;
  if (!low && !high) c.refuse("detect_negative and detect_positive are 0");
  if (!low || !high)
    c.text = "{0} == " + literal(c.operand(0).type == float64 ? float64 : float32, high ? HUGE_VAL : -HUGE_VAL);
}

/// Activations that have a name of their own for some attributes.
inline void activated(call& c) {
  same_extents(c);
  const auto near = [&](std::string_view name, double otherwise, double number) {
    return std::abs(c.real(name, otherwise) - number) < 1e-6;
  };
  const std::string_view op = c.of.op;
  if (op == "Gelu" && c.word_of("approximate", {"none", "tanh"}) == "tanh") c.text = "gelu_tanh({0})";
  if (op == "Swish" && near("alpha", 1, 1)) c.text = "silu({0})";
  if (op == "SwiGLU" && near("alpha", 1, 1)) c.text = "silu({0}) * {1}";
  if (op == "Selu" && near("alpha", 1.6732632, 1.6732632) && near("gamma", 1.0507010, 1.0507010)) c.text = "selu({0})";
  if (op == "HardSigmoid") {
    if (near("alpha", 0.2, 1.0 / 6) && near("beta", 0.5, 0.5))
      c.text = "hard_sigmoid({0})";
    else
      c.need_header("ops/elementwise/clamp.hpp");
  }
  if (op == "Shrink") {
    const double bias = c.real("bias", 0), limit = c.real("lambd", 0.5);
    if (bias == 0) c.text = "hard_shrink({0}, {lambd=0.5})";
    if (bias == limit) c.text = "soft_shrink({0}, {lambd=0.5})";
    if (bias == 0 || bias == limit) c.need_header("ops/elementwise/activations.hpp");
  }
}

/// A rule of the same order of axes, in float for half and bfloat16.
constexpr rule elementwise(void (*apply)(call&)) { return {apply, layout::kept, true}; }

/// Slopes of channels, [C], before opset 7.
inline void sloped(call& c) {
  if (c.opset < 7 && c.rank() > 2 && c.operand(1).rank() == 1 && c.extent(1, 0) == c.extent(0, 1)) {
    c.reorder(0, true);
    c.result(0, c.operand(0).extents, true);
    return;
  }
  broadcast_extents(c);
}

inline constexpr rule cast_like_rule{casted_like, layout::kept};
inline constexpr rule mean_rule = elementwise(averaged), power = elementwise(raised),
                      remainder_rule = elementwise(divided_with_remainder), shift_rule = elementwise(shifted),
                      infinite = elementwise(found_infinite), activation = elementwise(activated),
                      slopes = elementwise(sloped);

}  // namespace tool::importer

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Functions of elements.
namespace tool::importer {

/// The row's text joins operands 0 and 1; any number of operands are joined in this way.
inline void joined_operands(call& c) {
  broadcast_extents(c);
  c.text = "{0}";
  for (std::size_t i = 1; i < c.in.size(); ++i) {
    std::string next(c.of.text);
    next.replace(next.find("{1}"), 3, operand_hole(i));
    c.text = next.replace(next.find("{0}"), 3, c.text);
  }
}
inline void averaged(call& c) {
  joined_operands(c);
  if (c.in.size() > 1) c.text = form("($) / $", c.text, c.in.size());
}

/// Makes the result the constant that operand 0 is.
inline void keep_constant(call& c) {
  c.out[0]->constant = c.operand(0).constant;
  c.out[0]->elements = c.in[0]->elements;
  c.out[0]->parameter = c.in[0]->parameter;
}
/// The attribute `to` is the element type: {to}. Large integers of constants are converted when the model runs.
inline void cast_to(call& c, int to) {
  const value& x = c.operand(0);
  c.flag("saturate");
  c.word("round_mode", "");
  c.result(0, x.extents, x.last, to);
  c.holes["to"] = cpp_type(to);
  c.fuses |= x.type == boolean && to != boolean;
  if (to == x.type) {
    c.pass(0);
    if (!x.last && x.constant) keep_constant(c);
  } else if (!x.last && x.constant && is_float(to) && weft::size_of(element_type(x.type)) < 8) {
    std::vector<double> numbers;
    for (std::size_t i = 0; i < count_of(*x.constant); ++i) numbers.push_back(number_at(*x.constant, i));
    set_constant(*c.out[0], new_tensor(c, x.constant->name, x.constant->extents, numbers, to));
    c.out[0]->parameter = x.parameter;
  }
}
inline void casted(call& c) { cast_to(c, static_cast<int>(c.number("to", float32))); }
/// The element type is that of operand 1.
inline void casted_like(call& c) {
  const int to = c.operand(1).type;
  c.in.resize(1);
  cast_to(c, to);
}
/// The bits of integers of one size, which C++ converts in this way.
inline void reinterpreted(call& c) {
  const int from = c.operand(0).type, to = static_cast<int>(c.number("to", 0));
  if (is_float(from) || is_float(to) || weft::size_of(element_type(from)) != weft::size_of(element_type(to)))
    c.refuse("only integers of one size are supported");
  cast_to(c, to);
}
inline void passed(call& c) {
  same_extents(c);
  keep_constant(c);
  c.fuses = false;
  c.pass(0);
}

inline void dropped_out(call& c) {
  same_extents(c);
  value& x = c.operand(0);
  const double rate = c.opset < 12 ? c.real("ratio", 0.5) : c.has(1) ? c.known_numbers(1).at(0) : 0.5;
  const bool training = c.has(2) && c.known_numbers(2).at(0) != 0, has_mask = c.out.size() > 1;
  if (!(rate >= 0 && rate < 1)) c.refuse("the ratio must be at least 0 and less than 1");
  c.number("seed", 0);
  c.fuses = false;
  // Without its mask it is a layer, whose mode decides.
  if (!has_mask && rate > 0) {
    c.layer("nn::dropout", ".rate = " + digits(static_cast<float>(rate)), {}, true);
    return;
  }
  c.to.uses_graph |= has_mask;
  const std::string dims = c.to.dims_of(x), kept = literal(x.type, 1 - rate);
  c.pass(0);
  if (!training || rate == 0) return also(c, 1, form("fill<bool, $>(g, true)", dims), x.extents, x.last, boolean);
  c.need_header("ops/random/distributions.hpp");
  const std::string mask =
      stated(c, "mask", form("random_bernoulli(fill<$, $>(g, $)) > 0", cpp_type(x.type), dims, kept));
  c.text = form("select($, {0} / $, 0)", mask, kept);
  also(c, 1, mask, x.extents, x.last, boolean);
}

inline void clipped(call& c) {
  broadcast_extents(c);
  std::string bounds[] = {c.has(1) ? "{1}" : "", c.has(2) ? "{2}" : ""};
  if (c.opset < 11)
    for (const int i : {0, 1}) {
      const double bound = i == 0 ? c.real("min", -INFINITY) : c.real("max", INFINITY);
      bounds[i] = std::isinf(bound) ? "" : literal(c.operand(0).type, bound);
    }
  const auto is = [&](std::size_t i, double x) {
    return c.has(i) && c.in[i]->constant && c.in[i]->scalar() && number_at(*c.in[i]->constant, 0) == x;
  };
  c.text = "{0}";
  if (is(1, 0) && is(2, 6)) {
    c.text = "relu6({0})";
    return;
  }
  if (!bounds[0].empty()) c.text = form("maximum($, $)", c.text, bounds[0]);
  if (!bounds[1].empty()) c.text = form("minimum($, $)", c.text, bounds[1]);
}

/// The exponent has any type. Integers are raised in double.
inline void raised(call& c) {
  broadcast_extents(c);
  const int base = c.operand(0).type, exponent = c.operand(1).type;
  if (!is_float(base))
    c.text = cast_text(base, "pow(cast<double>({0}), cast<double>({1}))");
  else if (base != exponent && !is_half(exponent))
    c.text = form("pow({0}, $)", cast_text(wide(base), "{1}"));
}

inline void divided_with_remainder(call& c) {
  broadcast_extents(c);
  c.text = c.flag("fmod") ? "fmod({0}, {1})" : "floor_mod({0}, {1})";
}
inline void shifted(call& c) {
  broadcast_extents(c);
  c.text = c.word_of("direction", {"LEFT", "RIGHT"}) == "LEFT" ? "{0} << {1}" : "{0} >> {1}";
}

inline void found_infinite(call& c) {
  same_extents(c);
  const bool low = c.flag("detect_negative", true), high = c.flag("detect_positive", true);
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

/// Slopes of channels, [C], before opset 7.
inline void sloped(call& c) {
  if (c.opset >= 7 || c.rank() <= 2 || c.rank(1) != 1 || !(c.extent(1, 0) == c.extent(0, 1)))
    return broadcast_extents(c);
  c.reorder(0, true);
  same_extents(c);
}

inline constexpr row elementwise_rows[] = {
    {"Abs", same, "abs({0})"},
    {"Acos", same, "acos({0})", "ops/elementwise/trigonometry.hpp"},
    {"Acosh", same, "acosh({0})", "ops/elementwise/trigonometry.hpp"},
    {"Add", broadcast, "{0} + {1}"},
    {"And", broadcast, "{0} && {1}", "", boolean},
    {"Asin", same, "asin({0})", "ops/elementwise/trigonometry.hpp"},
    {"Asinh", same, "asinh({0})", "ops/elementwise/trigonometry.hpp"},
    {"Atan", same, "atan({0})", "ops/elementwise/trigonometry.hpp"},
    {"Atanh", same, "atanh({0})", "ops/elementwise/trigonometry.hpp"},
    {"BitCast", {reinterpreted, layout::kept}, "cast<{to}>({0})"},
    {"BitShift", elementwise(shifted), "", "ops/elementwise/bits.hpp"},
    {"BitwiseAnd", broadcast, "{0} & {1}", "ops/elementwise/bits.hpp"},
    {"BitwiseNot", same, "~{0}", "ops/elementwise/bits.hpp"},
    {"BitwiseOr", broadcast, "{0} | {1}", "ops/elementwise/bits.hpp"},
    {"BitwiseXor", broadcast, "{0} ^ {1}", "ops/elementwise/bits.hpp"},
    {"Cast", {casted, layout::kept}, "cast<{to}>({0})"},
    {"CastLike", {casted_like, layout::kept}, "cast<{to}>({0})"},
    {"Ceil", same, "ceil({0})", "ops/elementwise/rounding.hpp"},
    {"Celu", same, "celu({0}, {alpha=1.0})", "ops/elementwise/activations.hpp"},
    {"Clip", elementwise(clipped)},
    {"Cos", same, "cos({0})"},
    {"Cosh", same, "cosh({0})", "ops/elementwise/trigonometry.hpp"},
    {"Div", broadcast, "{0} / {1}"},
    {"Dropout", {dropped_out, layout::kept}},
    {"Elu", same, "elu({0}, {alpha=1.0})"},
    {"Equal", broadcast, "{0} == {1}", "", boolean},
    {"Erf", same, "erf({0})"},
    {"Exp", same, "exp({0})"},
    {"Floor", same, "floor({0})"},
    {"Gelu", elementwise(activated), "gelu({0})"},
    {"Greater", broadcast, "{0} > {1}", "", boolean},
    {"GreaterOrEqual", broadcast, "{0} >= {1}", "", boolean},
    {"HardSigmoid", elementwise(activated), "clamp({0} * {alpha=0.2} + {beta=0.5}, 0, 1)"},
    {"HardSwish", same, "hard_swish({0})"},
    {"Identity", {passed, layout::kept}},
    {"IsInf", elementwise(found_infinite), "is_inf({0})", "ops/elementwise/predicates.hpp", boolean},
    {"IsNaN", same, "is_nan({0})", "ops/elementwise/predicates.hpp", boolean},
    {"LeakyRelu", same, "leaky_relu({0}, {alpha=0.01})"},
    {"Less", broadcast, "{0} < {1}", "", boolean},
    {"LessOrEqual", broadcast, "{0} <= {1}", "", boolean},
    {"Log", same, "log({0})"},
    {"Max", elementwise(joined_operands), "maximum({0}, {1})"},
    {"Mean", elementwise(averaged), "{0} + {1}"},
    {"Min", elementwise(joined_operands), "minimum({0}, {1})"},
    {"Mish", same, "mish({0})", "ops/elementwise/activations.hpp"},
    {"Mod", elementwise(divided_with_remainder), "", "ops/elementwise/rounding.hpp"},
    {"Mul", broadcast, "{0} * {1}"},
    {"Neg", same, "-{0}"},
    {"Not", same, "!{0}"},
    {"Or", broadcast, "{0} || {1}", "", boolean},
    {"PRelu", elementwise(sloped), "leaky_relu({0}, {1})"},
    {"Pow", elementwise(raised), "pow({0}, {1})"},
    {"Reciprocal", same, "1 / {0}"},
    {"Relu", same, "relu({0})"},
    {"Round", same, "round({0})", "ops/elementwise/rounding.hpp"},
    {"Selu", elementwise(activated), "{gamma=1.0507010} * elu({0}, {alpha=1.6732632})"},
    {"Shrink", elementwise(activated),
     "select({0} < -{lambd=0.5}, {0} + {bias=0.0}, select({0} > {lambd=0.5}, {0} - {bias=0.0}, 0))"},
    {"Sigmoid", same, "sigmoid({0})"},
    {"Sign", same, "sign({0})"},
    {"Sin", same, "sin({0})"},
    {"Sinh", same, "sinh({0})", "ops/elementwise/trigonometry.hpp"},
    {"Softplus", same, "softplus({0})"},
    {"Softsign", same, "softsign({0})"},
    {"Sqrt", same, "sqrt({0})"},
    {"Sub", broadcast, "{0} - {1}"},
    {"Sum", elementwise(joined_operands), "{0} + {1}"},
    {"SwiGLU", elementwise(activated), "{0} * sigmoid({alpha=1.0} * {0}) * {1}"},
    {"Swish", elementwise(activated), "{0} * sigmoid({alpha=1.0} * {0})"},
    {"Tan", same, "tan({0})", "ops/elementwise/trigonometry.hpp"},
    {"Tanh", same, "tanh({0})"},
    {"ThresholdedRelu", same, "threshold({0}, {alpha=1.0}, 0)", "ops/elementwise/activations.hpp"},
    {"Where", broadcast, "select({0}, {1}, {2})"},
    {"Xor", broadcast, "{0} != {1}", "", boolean},
    {"weft.NotEqual", broadcast, "{0} != {1}", "", boolean},  // made by simplify.cpp
};

}  // namespace tool::importer

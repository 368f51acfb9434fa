// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "rules.hpp"

/// Integers with a scale and a zero point.
namespace tool::importer {

/// Returns the text of a scale or a zero point, operand i, in float. It broadcasts against operand 0: one number,
/// numbers of an axis, or numbers of blocks of an axis.
inline std::string spread(call& c, std::size_t i, std::size_t axis, std::int64_t block) {
  value& v = c.operand(i);
  if (v.constant && v.scalar()) return literal(float32, number_at(*v.constant, 0));
  const std::string text = v.type == float32 ? operand_hole(i) : cast_text(float32, operand_hole(i));
  const integers& extents = v.extents;
  if (block > 0) {
    if (c.operand(0).last) c.refuse("block_size is not supported for images");
    c.need_header("ops/arrays/stack.hpp");
    const std::string repeated = form("repeat<$, $>($)", axis, block, text);
    const integer& n = c.extent(0, axis);
    return extents[axis] * block == n ? repeated : slice_text(axis, 0, n, repeated);
  }
  if (extents.empty() || (extents.size() == 1 && c.physical_axis(0, axis) + 1 == c.rank())) return text;
  if (extents.size() != 1) c.refuse("a scale must be a number, or have one axis");
  integers places(c.rank(), 1);
  if (!extents[0].is(1)) places[c.physical_axis(0, axis)] = extents[0];
  return reshape_text(extents[0].is(1) ? integers() : places, text);
}

/// Returns `text + number`, without a zero, or `text - number` for a negative number.
inline std::string plus(const std::string& text, const std::string& number) {
  if (number == "0.0f" || number == "-0.0f") return text;
  return number[0] == '-' ? text + " - " + number.substr(1) : text + " + " + number;
}
inline std::string minus(const std::string& text, const std::string& number) {
  return number[0] == '-' ? plus(text, number.substr(1)) : plus(text, "-" + number);
}
inline std::string times(const std::string& text, const std::string& number) {
  return number == "1.0f" ? text : text + " * " + number;
}

/// Returns the text of numbers as the nearest ones that an integer type has.
inline std::string saturated(call& c, int type, const std::string& text) {
  const auto [low, high] = with_type(element_type(type), [&]<class T>(T) -> std::pair<double, double> {
    if constexpr (std::is_integral_v<T> && sizeof(T) <= 2)
      if (type != boolean) return {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
    c.refuse("integers must have 8 or 16 bits");
  });
  c.need_header("ops/elementwise/clamp.hpp");
  c.need_header("ops/elementwise/rounding.hpp");
  return cast_text(type, form("clamp($, $, $)", text, literal(float32, low), literal(float32, high)));
}

inline std::size_t axis_of_scales(call& c) {
  const std::int64_t given = c.number("axis", 1);
  return c.rank() < 2 ? 0 : c.axis(given, c.rank());
}

inline void quantize(call& c) {
  int type = static_cast<int>(c.number("output_dtype", 0));
  if (type == 0) type = c.has(2) ? c.operand(2).type : uint8;
  c.number("saturate", 1), c.number("precision", 0);
  const std::int64_t block = c.number("block_size", 0);
  const std::size_t axis = axis_of_scales(c);
  std::string text = c.operand(0).type == float32 ? "{0}" : "cast<float>({0})";
  text = "round(" + text + " / " + spread(c, 1, axis, block) + ")";
  if (c.has(2)) text = plus(text, spread(c, 2, axis, block));
  c.text = saturated(c, type, text);
  c.result(0, c.operand(0).extents, c.operand(0).last, type);
}

/// Makes the result a parameter of the model if the operands are constants: the weights of a layer.
inline bool dequantize_constant(call& c, std::size_t axis) {
  const auto of = [&](std::size_t i) { return c.has(i) ? c.in[i]->constant : nullptr; };
  const auto *x = of(0), *scale = of(1), *zero = of(2), *factor = of(3);
  if (!x || !scale || (c.has(2) && !zero) || (c.has(3) && !factor) || c.operand(0).last) return false;
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < c.rank(); ++i) inner *= static_cast<std::size_t>(x->extents[i]);
  const auto at = [&](const weft::onnx::tensor_value& of_axis, std::size_t i) {
    const std::size_t count = count_of(of_axis);
    if (count > 1 && (c.rank() == 0 || count != static_cast<std::size_t>(x->extents[axis])))
      c.refuse("a scale or a zero point must have the extent of the axis");
    return number_at(of_axis, count > 1 ? i / inner % count : 0);
  };
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count_of(*x); ++i)
    numbers.push_back((number_at(*x, i) - (zero ? at(*zero, i) : 0)) * at(*scale, i) * (factor ? at(*factor, i) : 1));
  set_constant(*c.out[0], new_tensor(c, x->name, x->extents, numbers, float32));
  return c.out[0]->parameter = true;
}

/// Operand 3 is another scale, which the bias of an operator on quantized numbers has.
inline void dequantize(call& c) {
  int type = static_cast<int>(c.number("output_dtype", 0));
  if (type == 0) type = c.operand(1).type;
  const std::int64_t block = c.number("block_size", 0);
  const std::size_t axis = axis_of_scales(c);
  if (block == 0 && type == float32 && dequantize_constant(c, axis)) return;
  c.text = "cast<float>({0})";
  if (c.has(2)) c.text = minus(c.text, spread(c, 2, axis, block));
  if (looseness(c.text) > 0) c.text = "(" + c.text + ")";
  for (const std::size_t i : {1u, 3u})
    if (c.has(i)) c.text = times(c.text, spread(c, i, axis, block));
  if (type != float32) c.text = cast_text(type, c.text);
  c.result(0, c.operand(0).extents, c.operand(0).last, type);
}

/// Results: integers, their scale and their zero point.
inline void quantize_dynamically(call& c) {
  c.need_header("ops/elementwise/clamp.hpp");
  c.text = c.after_statements(
      "least = let(minimum(min({0}), 0)); step = let((maximum(max({0}), 0) - {least}) / 255); "
      "scale = let(select({step} > 0, {step}, 1)); "
      "zero_point = let(clamp(round(-{least} / {scale}), 0, 255)); "
      "cast<std::uint8_t>(clamp(round({0} / {scale}) + {zero_point}, 0, 255))");
  c.result(0, c.operand(0).extents, c.operand(0).last, uint8);
  c.result(1, {}, false, float32);
  c.result(2, {}, false, uint8);
  if (c.out.size() > 1 && c.out[1]) c.to.define(*c.out[1], c.holes["scale"]);
  if (c.out.size() > 2 && c.out[2]) c.to.define(*c.out[2], cast_text(uint8, c.holes["zero_point"]));
}

inline constexpr row quantized_rows[] = {
    {"QuantizeLinear", {quantize, layout::first}, "round clamp", "ops/elementwise/rounding.hpp"},
    {"DequantizeLinear", {dequantize, layout::first}},
    {"DynamicQuantizeLinear", {quantize_dynamically, layout::first}, "", "ops/elementwise/rounding.hpp"},
    {"com.microsoft.DequantizeLinear", {dequantize, layout::first}},
    {"com.microsoft.QuantizeLinear", {quantize, layout::first}, "", "ops/elementwise/rounding.hpp"},
};

}  // namespace tool::importer

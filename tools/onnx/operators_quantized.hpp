// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "statements.hpp"

/// Integers with a scale and a zero point, and their products, which are computed in double: exact below 2^53.
namespace tool::importer {

/// Returns the text of a scale or a zero point, operand i, that broadcasts against operand 0: one number, numbers of an
/// axis, or numbers of blocks of an axis.
inline std::string spread(call& c, std::size_t i, std::size_t axis, std::int64_t block) {
  const std::string text = "{" + std::to_string(i) + "}";
  const integers extents = c.operand(i).extents;
  if (block > 0) {
    const integer all = extents.at(axis) * block;
    const std::string at = std::to_string(axis);
    c.need_header("ops/arrays/stack.hpp");
    const std::string repeated = "repeat<" + at + ", " + std::to_string(block) + ">(" + text + ")";
    return all == c.extent(0, axis) ? repeated
                                    : "slice<" + at + ", 0, " + c.extent(0, axis).text() + ">(" + repeated + ")";
  }
  if (extents.empty() || (extents.size() == 1 && axis + 1 == c.rank())) return text;
  if (extents.size() != 1) c.refuse("a scale must be a number, or have one axis");
  integers places(c.rank(), 1);
  if (!extents[0].is(1)) places.at(axis) = extents[0];
  return reshape_text(extents[0].is(1) ? integers() : places, text);
}

/// Returns the smallest and the largest integer of a type as numbers of float or double.
inline std::pair<std::string, std::string> range_of(call& c, int type, const std::string& suffix = ".0f") {
  switch (weft::onnx::element_type(type).value_or(dtype::float32)) {
    case dtype::uint8:
      return {"0" + suffix, "255" + suffix};
    case dtype::int8:
      return {"-128" + suffix, "127" + suffix};
    case dtype::uint16:
      return {"0" + suffix, "65535" + suffix};
    case dtype::int16:
      return {"-32768" + suffix, "32767" + suffix};
    default:
      c.refuse("integers must have 8 or 16 bits");
  }
}
inline std::string saturated(call& c, int type, const std::string& text, const std::string& suffix = ".0f") {
  const auto [low, high] = range_of(c, type, suffix);
  c.need_header("ops/elementwise/clamp.hpp");
  c.need_header("ops/elementwise/rounding.hpp");
  return cast_text(type, "clamp(" + text + ", " + low + ", " + high + ")");
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
  const auto wide = [&](std::size_t i, const std::string& text) {
    return c.operand(i).type == float32 ? text : "cast<float>(" + text + ")";
  };
  std::string text = "round(" + wide(0, "{0}") + " / " + wide(1, spread(c, 1, axis, block)) + ")";
  if (c.has(2)) text += " + cast<float>(" + spread(c, 2, axis, block) + ")";
  c.text = saturated(c, type, text);
  c.result(0, c.operand(0).extents, false, type);
}
inline void dequantize(call& c) {
  int type = static_cast<int>(c.number("output_dtype", 0));
  if (type == 0) type = c.operand(1).type;
  const std::int64_t block = c.number("block_size", 0);
  const std::size_t axis = axis_of_scales(c);
  std::string text = "cast<float>({0})";
  if (c.has(2)) text = "(" + text + " - cast<float>(" + spread(c, 2, axis, block) + "))";
  const std::string scale = spread(c, 1, axis, block);
  c.text = text + " * " + (c.operand(1).type == float32 ? scale : "cast<float>(" + scale + ")");
  if (type != float32) c.text = cast_text(type, c.text);
  c.result(0, c.operand(0).extents, false, type);
}

/// Results: integers, their scale and their zero point.
inline void quantize_dynamically(call& c) {
  c.need_header("ops/elementwise/clamp.hpp");
  const std::string x = stated(c, "least", "let(minimum(min({0}), 0))"),
                    scale = stated(c, "scale", "let((maximum(max({0}), 0) - " + x + ") / 255)"),
                    zero = stated(c, "zero_point", "let(clamp(round(-" + x + " / " + scale + "), 0, 255))");
  c.text = "cast<std::uint8_t>(clamp(round({0} / " + scale + ") + " + zero + ", 0, 255))";
  c.result(0, c.operand(0).extents, false, uint8);
  c.result(1, {}, false, float32);
  c.result(2, {}, false, uint8);
  if (c.out.size() > 1 && c.out[1]) c.to.define(*c.out[1], scale);
  if (c.out.size() > 2 && c.out[2]) c.to.define(*c.out[2], "cast<std::uint8_t>(" + zero + ")");
}

/// Returns the text of operand i minus its zero point in double; the numbers of a zero point belong to rows or columns.
inline std::string centred(call& c, std::size_t i, std::size_t zero, bool rows) {
  const std::string text = "cast<double>({" + std::to_string(i) + "})";
  if (!c.has(zero)) return text;
  const value& z = c.operand(zero);
  std::string of = "cast<double>({" + std::to_string(zero) + "})";
  if (z.rank() == 1 && z.extents[0].is(1))
    of = reshape_text({}, of);
  else if (z.rank() == 1 && rows)
    of = "expand_dims<1>(" + of + ")";
  return text + " - " + of;
}
inline void matmul_integer(call& c) {
  c.text = "cast<std::int32_t>(broadcast_matmul(" + centred(c, 0, 2, true) + ", " + centred(c, 1, 3, false) + "))";
  c.result(0, product_extents(c, c.operand(0).extents, c.operand(1).extents), false, int32);
}
/// Operands: a, its scale and zero point, b, its scale and zero point, the result's scale and zero point.
inline void qlinear_matmul(call& c) {
  const auto scale = [&](std::size_t i) {
    const std::string text = "cast<double>({" + std::to_string(i) + "})";
    return c.rank(i) == 1 && c.extent(i, 0).is(1) ? reshape_text({}, text) : text;
  };
  for (const std::size_t i : {1u, 4u, 6u})
    if (!c.operand(i).scalar()) c.refuse("a scale must be one number");
  const std::string product = "broadcast_matmul(" + centred(c, 0, 2, true) + ", " + centred(c, 3, 5, false) + ")";
  const int type = c.operand(7).type;
  c.text = saturated(
      c, type, "round(" + product + " * (" + scale(1) + " * " + scale(4) + " / " + scale(6) + ")) + " + scale(7), ".0");
  c.result(0, product_extents(c, c.operand(0).extents, c.operand(3).extents), false, type);
}

inline constexpr row quantized_rows[] = {
    {"QuantizeLinear", {quantize}, "round clamp", "ops/elementwise/rounding.hpp"},
    {"DequantizeLinear", {dequantize}},
    {"DynamicQuantizeLinear", {quantize_dynamically}, "", "ops/elementwise/rounding.hpp"},
    {"MatMulInteger", {matmul_integer}, "", "ops/products/tensordot.hpp"},
    {"QLinearMatMul", {qlinear_matmul}, "", "ops/products/tensordot.hpp"},
};

}  // namespace tool::importer

// SPDX-License-Identifier: BSL-1.0
#include <set>

#include "importer.hpp"

/// Operators on quantized numbers, which are imported as operators on real numbers.
namespace tool::importer {

namespace onnx = weft::onnx;

std::vector<onnx::node> with_real_numbers(const onnx::node& n) {
  const bool in_integers = n.op_type == "ConvInteger" || n.op_type == "MatMulInteger", is_gemm = n.op_type == "QGemm";
  std::string op = n.op_type;
  if (in_integers) op.resize(op.size() - 7);
  if (is_gemm) op = "Gemm";
  if (op.starts_with("QLinear")) op.erase(0, 7);
  static const std::set<std::string> known = {
      "Add", "AveragePool", "Concat", "Conv", "Gemm", "GlobalAveragePool", "MatMul", "Mul", "LeakyRelu", "Sigmoid"};
  if (op == n.op_type || n.outputs.empty() || !known.contains(op)) return {};
  if (!n.domain.empty() && n.domain != "com.microsoft") return {};
  std::vector<onnx::node> nodes;
  const auto input = [&](std::size_t i) { return i < n.inputs.size() ? n.inputs[i] : std::string(); };
  const auto add = [&](const std::string& type, std::vector<std::string> inputs,
                       std::vector<onnx::attribute> attributes = {}) {
    onnx::node part;
    part.op_type = type;
    part.name = n.name;
    part.metadata = n.metadata;
    part.inputs = std::move(inputs);
    part.outputs = {n.outputs[0] + "/" + std::to_string(nodes.size())};
    part.attributes = std::move(attributes);
    nodes.push_back(std::move(part));
    return nodes.back().outputs[0];
  };
  const auto real = [&](const std::string& x, const std::string& scale, const std::string& zero, std::int64_t axis) {
    return add("DequantizeLinear", {x, scale, zero}, {attribute_of("axis", axis)});
  };
  std::vector<onnx::attribute> attributes = n.attributes;
  std::erase_if(attributes, [](const onnx::attribute& a) { return a.name == "channels_last" && a.i == 0; });
  const onnx::attribute* const transposed = n.find("transB");
  // The axes of the scales of rows of a, and of the filters or the columns of b.
  const std::int64_t axes[] = {-2, op == "Conv" || (transposed && transposed->i != 0) ? 0 : -1};
  std::vector<std::string> operands;
  if (in_integers) {
    const std::string one = add("Constant", {}, {attribute_of("value_float", 1.0f)});
    for (const std::size_t i : {0u, 1u}) operands.push_back(real(input(i), one, input(i + 2), axes[i]));
    const std::string y = add(op, operands, attributes);
    add("Cast", {y}, {attribute_of("to", std::int64_t{int32})});
  } else {
    // Each operand has a scale and a zero point. The result's are the first of Concat, and the last of others.
    const std::size_t first = op == "Concat" ? 2 : 0,
                      bias = op == "Conv" ? 8
                             : is_gemm    ? 6
                                          : n.inputs.size(),
                      count = op == "Conv" || is_gemm
                                  ? 2
                                  : (n.inputs.size() - std::min<std::size_t>(2, n.inputs.size())) / 3,
                      result = op == "Concat" ? 0 : 3 * count + (is_gemm ? 1 : 0);
    for (std::size_t i = 0; i < count; ++i)
      operands.push_back(real(input(first + 3 * i), input(first + 3 * i + 1), input(first + 3 * i + 2),
                              axes[std::min<std::size_t>(i, 1)]));
    if (!input(bias).empty()) {
      operands.push_back(
          add("DequantizeLinear", {input(bias), input(1), "", input(4)}, {attribute_of("axis", std::int64_t{0})}));
      if (const onnx::attribute* const alpha = n.find("alpha"); is_gemm && alpha)
        attributes.push_back(attribute_of("beta", alpha->f));  // the bias has the scale of the product
    }
    const std::string y = add(op, operands, attributes);
    if (!input(result).empty()) add("QuantizeLinear", {y, input(result), input(result + 1)});
  }
  nodes.back().outputs[0] = n.outputs[0];
  return nodes;
}

}  // namespace tool::importer

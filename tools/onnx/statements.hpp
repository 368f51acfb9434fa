// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <stdexcept>

#include "rules.hpp"

/// Parts of rules whose results take several statements.
namespace tool::importer {

/// Writes a statement and returns the name of its value.
inline std::string stated(call& c, const std::string& name, const std::string& text, const std::string& comment = "") {
  const std::string unused = c.to.name_for(name);
  c.to.add_statement({{unused}, c.filled(text), comment});
  return unused;
}

/// Returns the name of operand i, which gets one if it is an expression.
inline std::string named(call& c, std::size_t i, const std::string& name = "x") {
  value& v = c.operand(i);
  const std::string text = c.to.text_of(v);
  if (is_name(text)) return text;
  v.text = c.to.name_for(v.known() && !v.name.empty() ? v.name : name);
  c.to.state(v, text);
  return v.text;
}

/// Makes a text a result besides the first.
inline void also(call& c, std::size_t i, const std::string& text, integers extents, bool last = false,
                 int type = same_type) {
  if (i >= c.out.size() || !c.out[i]) return;
  c.result(i, std::move(extents), last, type);
  c.out[i]->text = is_name(text) ? text : stated(c, c.from.outputs[i], text);
  c.out[i]->stated = true;
}

/// Returns a constant that the importer has computed and owns.
inline weft::onnx::tensor_value& new_tensor(call& c, const std::string& name, const std::vector<std::int64_t>& extents,
                                            const std::vector<double>& numbers, int type) {
  auto& t = c.to.new_constant();
  t.name = name;
  t.type = type;
  t.extents = extents;
  std::vector<std::byte> bytes;
  for (const double x : numbers) append_number(bytes, type, x);
  t.own(std::move(bytes));
  return t;
}

/// Returns the name of a constant that the importer has computed.
inline std::string constant_text(call& c, const std::string& name, const std::vector<std::int64_t>& extents,
                                 const std::vector<double>& numbers, int type = float32) {
  const std::string node = c.from.outputs.empty() ? std::string() : c.from.outputs[0];
  value v;
  v.name = name;
  v.uses = 1;
  set_constant(v, new_tensor(c, node + "/" + name, extents, numbers, type));
  const std::string text = c.to.text_of(v);  // with braces, which are not holes
  if (is_name(text)) return text;
  const std::string unused = c.to.name_for(name);
  c.to.add_statement({{unused}, text, ""});
  return unused;
}

template <class Integer = std::int64_t>
std::string list_text(const std::vector<Integer>& all) {
  std::string text;
  for (const Integer n : all) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text;
}

inline std::string reshape_text(const integers& extents, const std::string& of) {
  return "reshape<" + importer::dims_text(extents) + ">(" + of + ")";
}

inline std::string operand_hole(std::size_t i) { return "{" + std::to_string(i) + "}"; }

/// Returns the operand with elements that have arithmetic.
inline std::string widened(call& c, std::size_t i) {
  const std::string hole = operand_hole(i);
  return is_half(c.operand(i).type) ? "cast<float>(" + hole + ")" : hole;
}
inline std::string narrowed(int type, const std::string& text) { return is_half(type) ? cast_text(type, text) : text; }

}  // namespace tool::importer

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/nn/pytorch.hpp>

/// Loads the files of Hugging Face's transformers. Not part of `<weft/nn.hpp>`, because it requires checkpoints.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Returns the table with which `load_weights` loads a model with a member struct `hugging_face`, which lists the names
/// of its tensors, such as nn::gpt2 and nn::bert. Throws failed_precondition before the model's first call.
template <class Model>
[[nodiscard]] weight_table hugging_face_table(const Model& model);

/// Loads the weights of nn::gpt2 or nn::bert from a safetensors file of Hugging Face's transformers, with or without
/// the prefix "transformer." or "bert.". Other tensors, such as those of heads and buffers, are left out.
///
///     nn::load_hugging_face_weights("model.safetensors", net, s);
///
/// Throws the errors of load_weights with a table.
template <class Model>
restore_report load_hugging_face_weights(const std::string& path, const Model& model, session& s,
                                         restore_options options = {});

namespace detail {

/// Replaces the first occurrence of a text.
inline void replace(std::string& in, std::string_view from, std::string_view to) {
  if (const std::size_t at = in.find(from); at != in.npos) in.replace(at, from.size(), to);
}

template <class Names>
void rename_row(weight_row& row, const Names& names) {
  std::string name = weft::detail::name_of_part(row);
  for (const auto& [ours, theirs] : names.names) replace(name, ours, theirs);
  if (row.layout.parts > 1 && !name.ends_with(']'))
    row.layout.part = 0, row.layout.parts = 1;  // the part is a tensor of its own
  if (row.layout.parts > 1) name.resize(name.rfind('['));
  if (names.conv1d && !row.layout.axes.empty())
    row.layout = {.part = row.layout.part, .parts = row.layout.parts, .split_axis = 1};
  row.in_file = std::move(name);
}

}  // namespace detail

template <class Model>
weight_table hugging_face_table(const Model& model) {
  constexpr typename Model::hugging_face names;
  weight_table table = pytorch_table(model);
  for (weight_row& row : table.rows) detail::rename_row(row, names);
  if constexpr (requires { names.tied; }) {
    weight_row& first = table[std::string(names.tied[0])];
    first.tied = true;
    weight_row other = first;
    other.in_file = names.tied[1];
    table.rows.push_back(std::move(other));
  }
  return table;
}

template <class Model>
restore_report load_hugging_face_weights(const std::string& path, const Model& model, session& s,
                                         restore_options options) {
  const weight_table table = hugging_face_table(model);
  options.variables = parameters(model);
  options.rename = [&table, by_caller = std::move(options.rename)](const std::string& in_file) {
    std::string name = by_caller(in_file);
    if (name.starts_with(Model::hugging_face::prefix)) name.erase(0, Model::hugging_face::prefix.size());
    detail::replace(name, "LayerNorm.gamma", "LayerNorm.weight");  // files that TensorFlow has written
    detail::replace(name, "LayerNorm.beta", "LayerNorm.bias");
    for (const weight_row& row : table.rows)
      if (row.in_file == name) return name;
    return std::string();
  };
  return load_weights(path, s, table, options);
}

}  // namespace weft::nn
WEFT_COLD_END

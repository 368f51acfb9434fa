// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <weft/checkpoint/weights.hpp>
#include <weft/nn/model.hpp>

/// Saves and loads the weights of one of several models in a graph. Not part of `<weft/nn.hpp>`, because it requires
/// checkpoints.
namespace weft::nn {

namespace detail {

/// The variables of a model by their names in the model: "hidden/weights" is "net/encoder/hidden/weights" in the graph.
class relative_names final : public layer_visitor {
 public:
  void layer(const std::string& path, const layer_state&, const parameter_list& parameters) override {
    for (const named_parameter& p : parameters) variable(path_of(path, p.name), *p.variable);
  }
  void variable(const std::string& path, const weft::detail::handle& member) override {
    if (is_variable(member)) names_.emplace_back(path, graph_of(member.erased())[member.id().node].name);
  }
  /// Returns the name in the graph, or `name` itself if the model has no such variable.
  std::string in_graph(const std::string& name) const {
    for (const auto& [in_model, found] : names_)
      if (in_model == name) return found;
    return name;
  }

 private:
  std::vector<std::pair<std::string, std::string>> names_;
};

}  // namespace detail

/// Writes a model's variables, with their names in the graph, into a safetensors file:
/// `save_weights("encoder.safetensors", net.encoder, s)`. Throws failed_precondition before the model's first call or
/// if a variable has no value yet, and the errors of write_safetensors.
template <class Model>
void save_weights(const std::string& path, const Model& model, session& s, const safetensors_metadata& metadata = {}) {
  weft::save_weights(path, s, metadata, parameters(model));
}

/// Loads a model's variables from a safetensors file; all other variables are unchanged. The file's names are those in
/// the graph, "net/encoder/hidden/weights", or in the model, "hidden/weights". `options.rename` maps other names to
/// either: `{.rename = {{"net/encoder", "other/encoder"}}}`. Options and errors are those of weft::load_weights.
template <class Model>
restore_report load_weights(const std::string& path, const Model& model, session& s, restore_options options = {}) {
  options.variables = parameters(model);
  detail::relative_names names;
  detail::visit_model("", model, names);
  options.rename = [rename = options.rename, &names, &s](const std::string& in_file) {
    const std::string name = rename(in_file);
    return name.empty() || s.of().find(name) != graph_node::no_node ? name : names.in_graph(name);
  };
  return weft::load_weights(path, s, options);
}

}  // namespace weft::nn

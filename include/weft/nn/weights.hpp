#pragma once

#include <string>

#include <weft/checkpoint/weights.hpp>
#include <weft/nn/model.hpp>

/// The weights of one model in a file, where a graph has several. Included by name, since it needs checkpoints.
namespace weft::nn {

/// Writes the variables of a model, by their names in the graph, into a safetensors file:
/// `save_weights("encoder.safetensors", net.encoder, s)`. Throws failed_precondition before the model's first call or
/// if a variable has no value yet, and what write_safetensors throws.
template <class Model>
void save_weights(const std::string& path, const Model& model, session& s, const safetensors_metadata& metadata = {}) {
  weft::save_weights(path, s, metadata, parameters(model));
}

/// Gives the variables of a model the values of a safetensors file, and leaves all other variables as they are. The
/// options are those of weft::load_weights, and so are the errors.
template <class Model>
restore_report load_weights(const std::string& path, const Model& model, session& s, restore_options options = {}) {
  options.variables = parameters(model);
  return weft::load_weights(path, s, options);
}

}  // namespace weft::nn

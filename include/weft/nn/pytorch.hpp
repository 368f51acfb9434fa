#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <weft/checkpoint/weight_table.hpp>
#include <weft/nn/model.hpp>

/// Weights that PyTorch has trained. Included by name, since it needs checkpoints.
WEFT_COLD_BEGIN
namespace weft::nn {

/// The table by which `load_weights` gives a model the values of a PyTorch module whose members have the same names:
/// the tensor "layer1.0.conv1.weight" is the variable "net/layer1/0/conv1/weights". Change a row where the layout
/// differs:
///
///     weight_table table = nn::pytorch_table(net);
///     table["fc1.weight"].layout = pytorch::linear_after_flatten(64, 7, 7);
///
/// Throws unimplemented if the model has a layer other than dense, conv2d, batch_norm, layer_norm and embedding, and
/// failed_precondition before the model's first call.
template <class Model>
[[nodiscard]] weight_table pytorch_table(const Model& model);

/// Gives a model the values of a PyTorch module with the same names of members, from a safetensors file of its
/// state_dict, and leaves all other variables as they are:
///
///     safetensors.torch.save_file(torchvision.models.resnet50(weights="DEFAULT").state_dict(), "resnet50.safetensors")
///     nn::load_pytorch_weights("resnet50.safetensors", net, s);
///
/// It uses `pytorch_table`, and leaves out counters (num_batches_tracked). Throws what pytorch_table and load_weights
/// with a table throw.
template <class Model>
restore_report load_pytorch_weights(const std::string& path, const Model& model, session& s,
                                    restore_options options = {});

namespace detail {

class pytorch_rows final : public layer_visitor {
 public:
  void layer(const std::string& path, const layer_state& l,
             std::initializer_list<named_parameter> parameters) override {
    static constexpr std::pair<std::string_view, const char*> names[] = {{"weights", "weight"},
                                                                         {"bias", "bias"},
                                                                         {"scale", "weight"},
                                                                         {"offset", "bias"},
                                                                         {"table", "weight"},
                                                                         {"moving_mean", "running_mean"},
                                                                         {"moving_variance", "running_var"}};
    const std::string_view kind = l.kind();
    if (kind != "dense" && kind != "conv2d" && kind != "batch_norm" && kind != "layer_norm" && kind != "embedding")
      throw error(error_code::unimplemented, path, {"no rule says how PyTorch stores the weights of a ", l.kind()});
    std::string prefix = path.empty() ? path : path + ".";
    for (char& c : prefix)
      if (c == '/') c = '.';
    for (const named_parameter& p : parameters)
      for (const auto& [ours, theirs] : names)
        if (ours == p.name && !p.variable->empty())
          table.rows.push_back({prefix + theirs, graph_of(p.variable->erased())[p.variable->id().node].name,
                                ours != "weights"  ? weight_layout()
                                : kind == "conv2d" ? pytorch::conv2d()
                                                   : pytorch::linear()});
  }

  weight_table table{};
};

}  // namespace detail

template <class Model>
weight_table pytorch_table(const Model& model) {
  static_cast<void>(parameters(model));  // throws before the first call
  detail::pytorch_rows rows;
  detail::visit_model("", model, rows);
  return std::move(rows.table);
}

template <class Model>
restore_report load_pytorch_weights(const std::string& path, const Model& model, session& s, restore_options options) {
  options.variables = parameters(model);
  options.rename = [rename = std::move(options.rename)](const std::string& name) {
    return name.ends_with("num_batches_tracked") ? std::string() : rename(name);
  };
  return load_weights(path, s, pytorch_table(model), options);
}

}  // namespace weft::nn
WEFT_COLD_END

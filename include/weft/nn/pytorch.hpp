// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/checkpoint/weight_table.hpp>
#include <weft/nn/model.hpp>

/// Loads weights trained in PyTorch. Not part of `<weft/nn.hpp>`, because it requires checkpoints.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Returns the table with which `load_weights` loads a PyTorch module whose members have the same names: the tensor
/// "layer1.0.conv1.weight" becomes the variable "net/layer1/0/conv1/weights". Change a row if its layout differs:
///
///     weight_table table = nn::pytorch_table(net);
///     table["fc1.weight"].layout = pytorch::linear_after_flatten(64, 7, 7);
///
/// Stacked and bidirectional recurrent layers are one torch.nn.RNN, LSTM or GRU, with tensors such as
/// "lstm.weight_ih_l1_reverse". An lstm's bias is the sum of bias_ih and bias_hh, unless it has `.two_biases`. In
/// attention, queries, keys and values are the thirds of in_proj_weight.
///
/// The model's own variables, and those of layers that are not Weft's, are loaded from parameters and buffers of the
/// same names and extents: "scaled.scale". Counters and local variables keep their values. A layer that several members
/// share has rows for each name, and the file must contain one of them.
///
/// Throws unimplemented if PyTorch has no module for a recurrent layer of the model, and failed_precondition before the
/// model's first call.
template <class Model>
[[nodiscard]] weight_table pytorch_table(const Model& model);

/// Loads the values of a PyTorch module whose members have the same names from a safetensors file of its state_dict.
/// All other variables are unchanged:
///
///     safetensors.torch.save_file(torchvision.models.resnet50(weights="DEFAULT").state_dict(), "resnet50.safetensors")
///     nn::load_pytorch_weights("resnet50.safetensors", net, s);
///
/// Uses `pytorch_table`. `options.rename` removes prefixes of the file's names: `{.rename = {{"module.", ""}}}` for
/// torch.nn.DataParallel, `{{"_orig_mod.", ""}}` for torch.compile. Throws the errors of pytorch_table and of
/// load_weights with a table.
template <class Model>
restore_report load_pytorch_weights(const std::string& path, const Model& model, session& s,
                                    restore_options options = {});

namespace detail {

/// Returns true for parameters and moving averages, which a state_dict contains.
inline bool is_saved_by_pytorch(const symbol& variable) {
  return weft::detail::is_weight(graph_of(variable), variable.id().node);
}
/// Returns the variables of a list that a state_dict contains, or the whole list if it contains none of them.
inline variable_list saved_by_pytorch(variable_list all) {
  sequence<symbol> saved;
  for (const symbol& v : all.erased())
    if (is_saved_by_pytorch(v)) saved.push_back(v);
  return saved.empty() ? all : variable_list{"", saved};
}

/// Creates the rows for a model's layers. PyTorch encodes the stacked layers and the directions of a recurrent layer as
/// suffixes of tensor names: "lstm.weight_ih_l1_reverse" is a tensor of "lstm/1/backward".
class pytorch_rows final : public layer_visitor {
 public:
  void layer(const std::string& path, const layer_state& l, const parameter_list& parameters) override {
    switch (l.type()) {
      case layer_class::simple_rnn:
      case layer_class::lstm:
      case layer_class::gru:
        return recurrent(path, parameters);
      case layer_class::attention:
        if (parameters.size() == 8) return attention(path, parameters);
        [[fallthrough]];
      default:
        return plain(l.type(), path, parameters);
    }
  }
  /// A variable of the model is a torch.nn.Parameter or a buffer with the same name and extents.
  void variable(const std::string& path, const weft::detail::handle& member) override {
    if (!is_variable(member)) return;
    std::string name = prefix_of(path.empty() ? last_name_of(member) : path);
    name.pop_back();
    add_own(std::move(name), {"", &member});
  }
  void enter(const std::string& path, const char* kind) override {
    if (!around_.empty() &&
        (around_.size() > 1 || around_[0].kind != "stacked" || kind != std::string_view("bidirectional")))
      throw error(error_code::unimplemented, path,
                  {"PyTorch has no ", std::string(around_.back().kind), " layer of ", kind,
                   " ones: it stacks bidirectional layers, stacked<bidirectional<...>>"});
    around_.push_back({path, kind});
  }
  void leave() override { around_.pop_back(); }

  weight_table table{};

 private:
  struct surrounding {
    std::string path;
    std::string_view kind;
  };

  static std::string prefix_of(std::string path) {
    if (!path.empty()) path += '.';
    for (char& c : path)
      if (c == '/') c = '.';
    return path;
  }
  static const std::string& name_of(const weft::detail::handle& variable) {
    return graph_of(variable.erased())[variable.id().node].name;
  }
  /// Returns "scale" for "net/scale".
  static std::string last_name_of(const weft::detail::handle& variable) {
    const std::string& name = name_of(variable);
    return name.substr(name.rfind('/') + 1);
  }
  void add(std::string in_file, const named_parameter& p, weight_layout layout = {}, std::string plus = {}) {
    weight_row row{std::move(in_file), name_of(*p.variable), std::move(layout), std::move(plus)};
    for (weight_row& other : table.rows)
      if (other.variable == row.variable) other.tied = row.tied = true;
    table.rows.push_back(std::move(row));
  }
  /// Adds a variable of the user's. Counters and local variables are not loaded.
  void add_own(std::string in_file, const named_parameter& p) {
    if (is_saved_by_pytorch(p.variable->erased()))
      add(std::move(in_file), p);
    else
      table.rows.push_back({std::move(in_file), ""});
  }

  void plain(layer_class type, const std::string& path, const parameter_list& parameters) {
    static constexpr std::pair<std::string_view, const char*> names[] = {{"weights", "weight"},
                                                                         {"bias", "bias"},
                                                                         {"scale", "weight"},
                                                                         {"offset", "bias"},
                                                                         {"table", "weight"},
                                                                         {"slopes", "weight"},
                                                                         {"moving_mean", "running_mean"},
                                                                         {"moving_variance", "running_var"}};
    const std::string prefix = prefix_of(path);
    if (type == layer_class::custom || type == layer_class::attention) {
      for (const named_parameter& p : parameters)
        if (is_variable(*p.variable)) add_own(prefix + std::string(p.name), p);
      return;
    }
    std::string weight = "weight";  // weight_norm and spectral_norm store it under another name
    for (const named_parameter& p : parameters) {
      const std::string of_weights = prefix + "parametrizations.weight.";
      if (p.name == "weights_scale") {
        weight = "parametrizations.weight.original1";
        add(of_weights + "original0", p, {.viewed = {-1}});
      } else if (p.name == "weights_u") {
        weight = "parametrizations.weight.original";
        add(of_weights + "0._u", p);
      } else if (p.name == "weights_v") {
        add(of_weights + "0._v", p, vector_of_inputs(type, parameters.begin()->variable->erased().extents()));
      }
    }
    for (const named_parameter& p : parameters)
      for (const auto& [ours, theirs] : names)
        if (ours == p.name && !p.variable->empty())
          add(prefix + (ours == "weights" ? weight : theirs), p,
              ours != "weights"                                                      ? weight_layout()
              : type == layer_class::conv1d || type == layer_class::conv1d_transpose ? pytorch::conv1d()
              : type == layer_class::conv3d                                          ? pytorch::conv3d()
              : type == layer_class::dense                                           ? pytorch::linear()
              : type == layer_class::depthwise_conv2d ? pytorch::depthwise_conv2d(p.variable->erased().extents())
                                                      : pytorch::conv2d());
    if (type == layer_class::batch_norm) table.rows.push_back({prefix + "num_batches_tracked", ""});
  }

  /// A vector with an element for each input of each filter: [input, height, width] becomes [height, width, input].
  static weight_layout vector_of_inputs(layer_class type, const shape& weights) {
    if (weights.rank < 3 || type == layer_class::depthwise_conv2d) return {};
    const bool transposed = type == layer_class::conv1d_transpose || type == layer_class::conv2d_transpose;
    weight_layout layout{.viewed = {weights[weights.rank - (transposed ? 1 : 2)]}, .merged = weights.rank - 1};
    for (std::size_t i = 0; i + 2 < weights.rank; ++i) {
      layout.viewed.push_back(weights[i]);
      layout.axes.push_back(i + 1);
    }
    layout.axes.push_back(0);
    return layout;
  }

  void recurrent(const std::string& path, const parameter_list& parameters) {
    std::string_view rest = path;  // "1/backward", relative to the path of the whole layer
    if (!around_.empty()) rest.remove_prefix(around_[0].path.size() + !around_[0].path.empty());
    const std::string prefix = prefix_of(around_.empty() ? path : around_[0].path);
    std::string suffix = "_l0";
    if (!around_.empty() && around_[0].kind == "stacked")
      suffix = str_cat({"_l", std::string(rest.substr(0, rest.find('/')))});
    if (!around_.empty() && rest.ends_with("backward")) suffix += "_reverse";
    bool two_biases = false;
    for (const named_parameter& p : parameters) two_biases |= p.name == "recurrent_bias" && !p.variable->empty();
    for (const named_parameter& p : parameters) {
      if (p.variable->empty()) continue;
      const std::string_view name = p.name;
      if (name == "bias")
        add(prefix + "bias_ih" + suffix, p, {}, two_biases ? std::string() : prefix + "bias_hh" + suffix);
      else if (name == "recurrent_bias")
        add(prefix + "bias_hh" + suffix, p);
      else if (name == "peephole_weights")
        add(prefix + "peephole_weights" + suffix, p);  // torch has none
      else
        add(prefix +
                (name == "weights"              ? "weight_ih"
                 : name == "projection_weights" ? "weight_hr"
                                                : "weight_hh") +
                suffix,
            p, pytorch::linear());
    }
  }

  /// If keys and values have as many features as queries, one tensor contains the weights of all three.
  void attention(const std::string& path, const parameter_list& parameters) {
    static constexpr const char* of_operand[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    const std::string prefix = prefix_of(path);
    const named_parameter* const p = parameters.begin();  // weights and then biases of query, key, value, output
    if (p[0].variable->empty()) return;
    bool same = true;
    for (std::size_t i = 1; i < 3; ++i) same &= p[i].variable->erased().extents() == p[0].variable->erased().extents();
    for (std::size_t i = 0; i < 3; ++i) {
      if (same)
        add(prefix + "in_proj_weight", p[i], pytorch::third_of_linear(i));
      else
        add(prefix + of_operand[i], p[i], pytorch::linear());
      if (!p[4 + i].variable->empty()) add(prefix + "in_proj_bias", p[4 + i], {.part = i, .parts = 3});
    }
    add(prefix + "out_proj.weight", p[3], pytorch::linear());
    if (!p[7].variable->empty()) add(prefix + "out_proj.bias", p[7]);
  }

  std::vector<surrounding> around_;  // the stacked and bidirectional layers around the current one
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
  options.variables = detail::saved_by_pytorch(parameters(model));
  return load_weights(path, s, pytorch_table(model), options);
}

}  // namespace weft::nn
WEFT_COLD_END

#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/checkpoint/restore.hpp>
#include <weft/checkpoint/safetensors.hpp>
#include <weft/nn/visit.hpp>

/// Weights that PyTorch has trained. Included by name, since it needs checkpoints.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Gives a model the values of a PyTorch module, from a safetensors file of its state_dict:
///
///     safetensors.torch.save_file(torchvision.models.resnet50(weights="DEFAULT").state_dict(), "resnet50.safetensors")
///     nn::load_pytorch_weights("resnet50.safetensors", net, s);
///
/// The members of the model have the names of the module's: the tensor "layer1.0.conv1.weight" is the variable
/// "layer1/0/conv1/weights". Weights of dense layers are transposed, and filters [out, in, h, w] become [h, w, in,
/// out]. A dense layer that follows `flatten` still sees its features in another order: here, channels vary fastest.
///
/// `options.rename` maps tensors' names to others of the file's form; an empty name leaves a tensor out, as are
/// counters (num_batches_tracked). Throws invalid_argument if something is missing, extra or of other extents unless
/// `partial` is set, unimplemented if the model has a layer other than dense, conv2d, batch_norm, layer_norm and
/// embedding, failed_precondition before the model's first call, and what safetensors_file throws.
template <class Model>
restore_report load_pytorch_weights(const std::string& path, const Model& model, session& s,
                                    const restore_options& options = {});

namespace detail {

/// A variable, the name that PyTorch has for it, and whether the axes are in another order there.
struct pytorch_variable {
  std::string name;
  symbol variable;
  bool reorder;
};

class pytorch_names final : public layer_visitor {
 public:
  void layer(const std::string& path, const layer_state& l,
             std::initializer_list<named_parameter> parameters) override {
    static constexpr std::pair<const char*, const char*> names[] = {{"weights", "weight"},
                                                                    {"bias", "bias"},
                                                                    {"scale", "weight"},
                                                                    {"offset", "bias"},
                                                                    {"table", "weight"},
                                                                    {"moving_mean", "running_mean"},
                                                                    {"moving_variance", "running_var"}};
    const std::string_view kind = l.kind();
    const bool known =
        kind == "dense" || kind == "conv2d" || kind == "batch_norm" || kind == "layer_norm" || kind == "embedding";
    if (!known)
      throw error(error_code::unimplemented, path, {"no rule says how PyTorch stores the weights of a ", l.kind()});
    std::string prefix = path.empty() ? path : path + ".";
    for (char& c : prefix)
      if (c == '/') c = '.';
    for (const named_parameter& p : parameters)
      for (const auto& [ours, theirs] : names)
        if (std::string_view(ours) == p.name && !p.variable->empty())
          all.push_back({prefix + theirs, p.variable->erased(), std::string_view(ours) == "weights"});
  }

  std::vector<pytorch_variable> all;
};

/// The extents that PyTorch gives the variable.
inline shape pytorch_extents(const shape& s, bool reorder) {
  if (reorder && s.rank == 2) return shape(s[1], s[0]);
  if (reorder && s.rank == 4) return shape(s[3], s[2], s[0], s[1]);
  return s;
}

/// Copies elements of `bytes` each from PyTorch's order to that of a variable of these extents.
inline void reorder_elements(const std::byte* from, std::byte* to, const shape& s, std::size_t bytes) {
  const shape filter = s.rank == 2 ? shape(1, 1, s[0], s[1]) : s;  // [h, w, in, out]
  std::int64_t at = 0;
  for (std::int64_t y = 0; y < filter[0]; ++y)
    for (std::int64_t x = 0; x < filter[1]; ++x)
      for (std::int64_t i = 0; i < filter[2]; ++i)
        for (std::int64_t o = 0; o < filter[3]; ++o, ++at) {
          const std::int64_t there = ((o * filter[2] + i) * filter[0] + y) * filter[1] + x;
          std::memcpy(to + static_cast<std::size_t>(at) * bytes, from + static_cast<std::size_t>(there) * bytes, bytes);
        }
}

inline restore_report restore_pytorch(const std::string& path, const std::vector<pytorch_variable>& variables,
                                      session& s, const restore_options& options) {
  if (variables.empty())
    throw error(error_code::failed_precondition, "load_pytorch_weights",
                "the model has no variables yet: its first call creates them");
  const safetensors_file file(path);
  std::vector<const safetensors_entry*> found(variables.size(), nullptr);
  restore_report report;
  for (const safetensors_entry& e : file.entries()) {
    const std::string name = options.rename(e.name);
    if (name.empty() || name.ends_with("num_batches_tracked")) continue;
    std::size_t k = 0;
    while (k < variables.size() && variables[k].name != name) ++k;
    if (k == variables.size()) {
      report.extra.push_back(e.name);
      continue;
    }
    const std::uint32_t n = variables[k].variable.id().node;
    const value_info info = s.variable_info(n);
    const shape there = pytorch_extents(info.extents, variables[k].reorder);
    const std::string& variable = s.of()[n].name;
    if (weft::detail::is_of(e, info.type, there)) {
      found[k] = &e;
      report.restored.push_back(variable);
    } else {
      report.different.push_back({variable, weft::detail::described(e),
                                  str_cat({weft::name(info.type), " ", to_string(there), " in PyTorch's order"})});
    }
  }
  for (std::size_t k = 0; k < variables.size(); ++k) {
    bool differs = false;
    for (const auto& d : report.different) differs = differs || d.name == s.of()[variables[k].variable.id().node].name;
    if (!found[k] && !differs) report.missing.push_back(variables[k].name);
  }
  if (!options.partial && !report.complete())
    throw error(error_code::invalid_argument, "load_pytorch_weights",
                {path, " must have the model's variables: ", to_string(report),
                 "; restore_options{.partial = true} takes what fits, .rename maps names"});
  for (std::size_t k = 0; k < variables.size(); ++k) {
    if (!found[k]) continue;
    const std::uint32_t n = variables[k].variable.id().node;
    const value_info info = s.variable_info(n);
    const storage read(info.bytes());
    file.read(*found[k], read.data());
    if (!variables[k].reorder) {
      s.write_variable(n, read.data());
      continue;
    }
    const storage ordered(info.bytes());
    reorder_elements(read.data(), ordered.data(), info.extents, size_of(info.type));
    s.write_variable(n, ordered.data());
  }
  return report;
}

}  // namespace detail

template <class Model>
restore_report load_pytorch_weights(const std::string& path, const Model& model, session& s,
                                    const restore_options& options) {
  detail::pytorch_names names;
  detail::visit_model("", model, names);
  return detail::restore_pytorch(path, names.all, s, options);
}

}  // namespace weft::nn
WEFT_COLD_END

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>

/// The results of a model's inner layers. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {

/// The result of a layer, without its type.
class activation_value : public weft::detail::handle {
 public:
  activation_value() = default;
  explicit activation_value(const symbol& s) : handle(s) {}

  /// Returns the value as a node: `seen["hidden"].as<dims<dyn<"batch">, 64>>()`. Throws invalid_argument if it has
  /// other extents or elements.
  template <class D, Element T = float>
  node<T, dims_t<D>> as() const {
    check({dtype_of<T>, dims_t<D>::spec});
    return node<T, dims_t<D>>(symbol_);
  }

 private:
  void check(const value_info& asked) const;
};

/// The results of the layers of a model in one call, by the names of the layers in the model: "encoder/hidden".
class activation_values {
 public:
  /// Returns the result of the layer's last call. Throws not_found, with a list of the layers that were called, if it
  /// has none.
  const activation_value& operator[](std::string_view path) const;

  /// A layer's path and its result.
  struct named_value {
    std::string path;
    activation_value value;
  };
  /// The results in the order of the calls.
  const named_value* begin() const { return all_.begin(); }
  const named_value* end() const { return all_.end(); }
  std::size_t size() const { return all_.size(); }

 private:
  template <class Model, class... Operands>
  friend auto with_activations(const Model&, const Operands&...);

  sequence<named_value> all_;
};

/// The result of a model, and the results of its layers.
template <class Result>
struct observed_call {
  Result result;
  activation_values activations;
};

namespace detail {

/// Collects the results of calls, and names them after the layers of a model.
class result_collector final : public call_observer, public layer_visitor {
 public:
  void observe(const layer_state&, const symbol& result) override;
  void layer(const std::string& path, const layer_state&, const parameter_list&) override;
  void variable(const std::string&, const weft::detail::handle&) override {}

  /// Moves the results of the visited layers to `to`, in the order of the calls.
  void take(sequence<activation_values::named_value>& to);

 private:
  struct observed {
    const layer_state* layer;
    symbol result;
    std::string path;
    bool is_of_model;
  };
  sequence<observed> calls_;
};

}  // namespace detail

/// Calls a model and returns its result together with those of its layers (hooks of torch.nn.Module,
/// tf.keras.Model(inputs, layer.output)):
///
///     auto [y, seen] = nn::with_activations(net, images, nn::mode::inference);
///     auto features = seen["encoder/hidden"].as<dims<dyn<"batch">, 64>>();
///     auto [slope] = gradients(sum(y), features);
///
/// The nodes are those of the call itself, so that features cost nothing and gradients with respect to them exist.
/// Weft's layers with variables have results here, and so do classes with a layer_state that call
/// `layer_call::result`; nn::identity names any other value. If a layer is called several times, the last result
/// counts.
template <class Model, class... Operands>
[[nodiscard]] auto with_activations(const Model& model, const Operands&... operands);

/// Returns its operand, under the layer's name: with_activations finds the value, and describe lists it
/// (torch.nn.Identity).
struct identity {
  layer_state state{"identity"};

  template <Expression X>
  auto operator()(const X& e) const {
    const auto x = let(e);
    layer_call call(state, x);
    return call.result(x);
  }
};

inline void activation_value::check(const value_info& asked) const {
  const value_info& there = symbol_.info();
  if (there == asked) return;
  const graph& g = graph_of(symbol_);
  throw error(error_code::invalid_argument, g[symbol_.id().node].name,
              {"the result is ", weft::name(there.type), " ", g.to_string(there.extents), ", but is requested as ",
               weft::name(asked.type), " ", g.to_string(asked.extents)});
}

inline const activation_value& activation_values::operator[](std::string_view path) const {
  const named_value* found = nullptr;
  for (const named_value& each : *this)
    if (each.path == path) found = &each;
  if (found) return found->value;
  std::string names;
  for (const named_value& each : *this) append(names, {names.empty() ? "" : ", ", each.path});
  throw error(error_code::not_found, std::string(path),
              {"the model called no layer of this name; it called ", names.empty() ? std::string("none") : names});
}

namespace detail {

inline void result_collector::observe(const layer_state& layer, const symbol& result) {
  calls_.push_back({&layer, result, {}, false});
}
inline void result_collector::layer(const std::string& path, const layer_state& layer, const parameter_list&) {
  for (observed& each : calls_)
    if (each.layer == &layer && !each.is_of_model)
      each.path = path.empty() ? layer.kind() : path, each.is_of_model = true;
}
inline void result_collector::take(sequence<activation_values::named_value>& to) {
  for (observed& each : calls_)
    if (each.is_of_model) to.push_back({std::move(each.path), activation_value(each.result)});
}

}  // namespace detail

template <class Model, class... Operands>
auto with_activations(const Model& model, const Operands&... operands) {
  static_assert(correct<model_mistake<Model>>, WEFT_NEEDS_LAYERS);
  detail::result_collector calls;
  observed_call<std::remove_cvref_t<decltype(model(operands...))>> made{model(operands...), {}};
  detail::visit_model("", model, calls);
  calls.take(made.activations.all_);
  return made;
}

}  // namespace weft::nn
WEFT_COLD_END

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>

/// A variable as a member of a model. Not part of <weft/nn.hpp>.
WEFT_COLD_BEGIN
namespace weft::nn {

/// A variable of a model that does not belong to another layer (torch.nn.Parameter, and torch.nn.Module.register_buffer
/// for frozen ones):
///
///     struct scaled {
///       nn::dense<8> dense;
///       nn::weight<dims<8>> gamma{init::ones{}};
///       auto operator()(const auto& x) const { return dense(x) * gamma(x); }
///     };
///
/// The operand only determines the graph: pass any node of the model, or the graph itself. The first call creates the
/// variable, which the model names "gamma/value". Initialized with 0.
template <class D, Element T = float, variable_kind Kind = variable_kind::trained>
struct weight {
  stored_initializer value_init = init::zeros{};
  layer_state state{"weight"};
  mutable variable_node<T, dims_t<D>> value{};

  template <Expression X>
  const variable_node<T, dims_t<D>>& operator()(const X& x) const {
    return create(let(x).erased());
  }
  const variable_node<T, dims_t<D>>& operator()(graph& g) const {
    return value.empty() ? create(constant(g, false).erased()) : value;
  }

  void visit(const std::string& path, layer_visitor& v) const { v.layer(path, state, {{"value", &value}}); }

 private:
  const variable_node<T, dims_t<D>>& create(const symbol& x) const {
    const parameter_request request{"value", dims_t<D>::spec, value_init, value, Kind};
    layer_call(state, x, &request, 1, dtype_of<T>);
    return value;
  }
};

}  // namespace weft::nn
WEFT_COLD_END

#pragma once

#include <cstddef>

#include <weft/ops/symbol.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A gradient, and the variable that it is of: what an optimizer is given. The gradient may be changed, into any
/// expression of its type and its extents: `of_w.gradient = of_w.gradient * 0.5f`.
template <class Gradient, class Variable>
struct variable_gradient {
  Gradient gradient;
  Variable variable;
  symbol loss = {};    ///< of which it is; noted updates of it (add_update) are trained beside
  symbol beside = {};  ///< an effect that the training step has too, such as the reset of accumulated gradients
};
template <class Gradient, class Variable>
variable_gradient(Gradient, Variable) -> variable_gradient<Gradient, Variable>;

/// Those of all variables that a loss depends on, of the loss's element type. Their extents are not known as types:
/// gradients are symbols, with + - * / among each other and with `node.erased()`.
template <class T>
struct variable_gradients {
  sequence<variable_gradient<symbol, symbol>> pairs;

  auto begin() { return pairs.begin(); }
  auto end() { return pairs.end(); }
  auto begin() const { return pairs.begin(); }
  auto end() const { return pairs.end(); }
  std::size_t size() const { return pairs.size(); }
};

}  // namespace weft
WEFT_COLD_END

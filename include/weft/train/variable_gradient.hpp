// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/ops/symbol.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A gradient and its variable, for an optimizer. The gradient can be replaced by any expression of the same type and
/// extents: `of_w.gradient = of_w.gradient * 0.5f`.
template <class Gradient, class Variable>
struct variable_gradient {
  Gradient gradient;
  Variable variable;
  symbol loss = {};    ///< the loss; updates noted for it (add_update) run in the training step
  symbol beside = {};  ///< an effect that the training step also runs, such as the reset of accumulated gradients
};
template <class Gradient, class Variable>
variable_gradient(Gradient, Variable) -> variable_gradient<Gradient, Variable>;

/// The gradients of all variables of the loss's element type that a loss depends on. Their extents are not part of the
/// type: gradients are symbols, which support + - * / with each other and with `node.erased()`.
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

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/ops/operation.hpp>
#include <weft/ops/optimizer_traits.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// An optimizer's update as the graph and the planner see it.
namespace weft {

/// The parts of an optimizer that do not depend on the element type.
struct update_layout {
  const char* name;
  std::size_t hyperparameters, slots;
  std::uint32_t scalars;  ///< one bit for each slot
  std::size_t norms = 0;  ///< the number of norms: the last hyperparameters, which are values of the graph

  constexpr std::size_t arrays() const { return detail::arrays_before(scalars, slots); }
  constexpr bool is_scalar(std::size_t slot) const { return (scalars >> slot) & 1; }
};

/// The attributes of an update.
struct update_attributes {
  attribute<std::uint32_t> computed;  ///< one bit for each hyperparameter that is a value of the graph
  attribute<std::size_t> row_lists;   ///< the number of row lists in a sparse gradient; 0 for a dense gradient
  /// The gradient was summed by other tasks and is fed. If sparse, it is one list of rows, with index -1 for rows
  /// without a gradient. Each such update belongs to an update of the same variable that depends on rows; only a
  /// replicated step runs it.
  attribute<bool> summed;
};

/// An update of a graph, with operands by name.
///
/// Inputs: the variable, its slots, the hyperparameters that are values of the graph, then the gradient. Literals: the
/// other hyperparameters, at their positions. A sparse update has lists in place of the gradient: rows and their
/// indices. No index occurs twice; -1 means no row.
class update_view {
 public:
  explicit update_view(const node_def& update)
      : def_(update), layout_(*update.op->update), attributes_(attributes_of<any_update>(update)) {}

  // Indices of the inputs.
  static constexpr std::size_t variable_input() { return 0; }
  static constexpr std::size_t slot_input(std::size_t slot) { return 1 + slot; }
  std::size_t hyperparameter_input(std::size_t k) const {
    return 1 + layout_.slots + static_cast<std::size_t>(__builtin_popcount(attributes_.computed & ((1u << k) - 1)));
  }
  std::size_t gradient_input() const { return def_.inputs.size() - (row_lists() ? 2 * row_lists() : 1); }
  std::size_t rows_input(std::size_t list) const { return gradient_input() + 2 * list; }
  std::size_t row_indices_input(std::size_t list) const { return rows_input(list) + 1; }

  value variable() const { return def_.inputs[variable_input()]; }
  /// The gradient; if sparse, the rows of the first list.
  value gradient() const { return def_.inputs[gradient_input()]; }
  /// A hyperparameter that is a value of the graph.
  value hyperparameter(std::size_t k) const { return def_.inputs[hyperparameter_input(k)]; }
  value rows(std::size_t list) const { return def_.inputs[rows_input(list)]; }
  value row_indices(std::size_t list) const { return def_.inputs[row_indices_input(list)]; }

  const update_layout& layout() const { return layout_; }
  bool is_computed(std::size_t hyperparameter) const { return (attributes_.computed >> hyperparameter) & 1; }
  bool computes_hyperparameters() const { return attributes_.computed != 0; }
  std::size_t row_lists() const { return attributes_.row_lists; }
  bool is_summed() const { return attributes_.summed; }
  /// A hyperparameter that is a number.
  double number(std::size_t hyperparameter) const {
    return detail::literal_value<double>(def_.literals[hyperparameter]);
  }
  /// The rate of gradient descent (fusion_kind::descent), whose first hyperparameter is the factor of the gradient.
  double descent_rate() const { return number(0); }

  std::string attributes_text() const {
    if (row_lists() == 0) return {};
    return is_summed() ? std::string(" of summed rows") : str_cat({" of ", row_lists(), " lists of rows"});
  }

 private:
  struct any_update {
    using attributes = update_attributes;
  };

  const node_def& def_;
  const update_layout& layout_;
  update_attributes attributes_;
};

namespace detail {

template <class Optimizer>
inline constexpr update_layout layout_of{Optimizer::name, hyperparameters_of<Optimizer>, slots_of<Optimizer>,
                                         scalars_of<Optimizer>, norms_of<Optimizer>};

}  // namespace detail

}  // namespace weft

#pragma pop_macro("slots")

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <weft/distributed/training/gradient_buffers.hpp>
#include <weft/distributed/training/shared_variables.hpp>
#include <weft/session/session.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// Runs the graph's own updates in a worker's session on the means that an all-reduce has stored in the gradient
/// buffers. Moving averages run afterwards, because the results of the updates are fed to them.
class mean_updates {
 public:
  mean_updates(shared_variables& variables, gradient_buffers& gradients)
      : variables_(variables), gradients_(gradients), effects_(variables.effects()) {}

  /// Selects which of the variables' effects() run with the updates.
  void set_effects(const sequence<std::uint32_t>& effects);
  /// Called after the buffers have moved.
  void replan() { updates_.reset(); }

  /// Marks, next to each gradient of rows, the rows that this worker's step has computed.
  void note_rows();
  void run();
  void run_averages();

 private:
  struct made_value {
    std::uint32_t variable;  // no_node: an effect, which has no elements
    storage value;
  };

  void plan();
  void plan_averages(plan::step_request averages);
  template <class Element>
  void note_rows(std::size_t i, std::size_t part, std::size_t end);
  template <class Element>
  void find_rows(std::size_t i);

  shared_variables& variables_;
  gradient_buffers& gradients_;
  sequence<std::uint32_t> effects_;
  std::optional<prepared_step> updates_, averages_;
  std::vector<plan::fed_value> fed_;             // feeds of the updates
  std::vector<made_value> made_;                 // feeds of averages_
  std::vector<std::vector<std::int64_t>> rows_;  // by trained variable: the index of each row that has a mean, or -1
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void mean_updates::set_effects(const sequence<std::uint32_t>& effects) {
  if (effects == effects_) return;
  effects_ = effects;
  replan();
}

WEFT_DISTRIBUTED_DECL void mean_updates::note_rows() {
  gradients_.for_each_by_rows([&](std::size_t i, std::size_t part, std::size_t end) {
    // Lists of row indices follow the gradient itself.
    variables_[i].is_double() ? note_rows<double>(i, part + 1, end) : note_rows<float>(i, part + 1, end);
  });
}

WEFT_DISTRIBUTED_DECL void mean_updates::run() {
  variables_.set_counters();  // schedules use the counters before the step
  if (!updates_) plan();
  for (std::size_t i = 0; i < variables_.trained(); ++i)
    if (variables_[i].has_rows()) variables_[i].is_double() ? find_rows<double>(i) : find_rows<float>(i);
  updates_->run(fed_.data(), [](std::size_t, const shape&) -> void* { return nullptr; });
  for (std::size_t i = variables_.first_averaged(); i < variables_.first_frozen(); ++i)
    variables_.add_to_averaged(i, gradients_[i]);
}

WEFT_DISTRIBUTED_DECL void mean_updates::plan() {
  session& local = variables_.local();
  plan::step_request updates;
  fed_.clear();
  rows_.resize(variables_.trained());
  for (std::size_t i = 0; i < variables_.first_averaged(); ++i) {
    const shared_variable& v = variables_[i];
    // Variables that are only added to each other share one gradient.
    if (std::find(updates.feeds.begin(), updates.feeds.end(), v.gradient) == updates.feeds.end()) {
      updates.feeds.push_back(v.gradient);
      fed_.push_back({gradients_[i].data(), local.variable_info(v.node).extents});
    }
    if (i >= variables_.trained()) continue;
    updates.targets.push_back(v.update_of_mean());
    if (!v.has_rows()) continue;
    rows_[i].resize(v.rows);
    updates.feeds.push_back(v.touched_rows);
    fed_.push_back({rows_[i].data(), shape(static_cast<std::int64_t>(v.rows))});
  }
  averages_.reset();
  plan::step_request averages;
  for (const std::uint32_t n : effects_)
    (variables_.averages_update(n) ? averages : updates).targets.push_back(variables_.made_for(n));
  updates_.emplace(local, std::move(updates));
  if (!averages.targets.empty()) plan_averages(std::move(averages));
}

WEFT_DISTRIBUTED_DECL void mean_updates::plan_averages(plan::step_request averages) {
  const graph& g = variables_.of();
  session& local = variables_.local();
  made_.clear();
  const auto feed = [&](value v, std::uint32_t variable) {
    if (std::find(averages.feeds.begin(), averages.feeds.end(), v) != averages.feeds.end()) return;
    averages.feeds.push_back(v);
    made_.push_back({variable, {}});
    if (variable != graph_node::no_node) made_.back().value = storage(local.variable_info(variable).bytes());
  };
  sequence<value> pending;
  for (const std::uint32_t n : averages.targets) {
    for (const value& in : g[n].def.inputs) pending.push_back(in);
    for (const std::uint32_t before : g[n].control) feed({before, 0}, graph_node::no_node);
  }
  while (!pending.empty()) {
    const value v = pending.back();
    pending.pop_back();
    const node_def& def = g[v.node].def;
    if (def.op->writes)
      feed(v, def.inputs[0].node);
    else
      pending.append(def.inputs.data(), def.inputs.size());
  }
  averages_.emplace(local, std::move(averages));
}

WEFT_DISTRIBUTED_DECL void mean_updates::run_averages() {
  if (!averages_) return;
  session& local = variables_.local();
  variables_.set_counters();
  std::vector<plan::fed_value> fed;
  for (made_value& each : made_) {
    const bool is_effect = each.variable == graph_node::no_node;
    if (!is_effect) local.read_variable(each.variable, each.value.data());
    fed.push_back({each.value.data(), is_effect ? shape(0) : local.variable_info(each.variable).extents});
  }
  averages_->run(fed.data(), [](std::size_t, const shape&) -> void* { return nullptr; });
}

template <class Element>
void mean_updates::note_rows(std::size_t i, std::size_t part, std::size_t end) {
  Element* const marks = gradients_.template row_marks<Element>(i);
  for (std::size_t r = 0; r < variables_[i].rows; ++r) marks[r] = 0;
  for (; part < end; ++part) {
    const gradient_buffers::part& list = gradients_.parts()[part];
    const auto* const numbers = reinterpret_cast<const std::int64_t*>(list.came.data());
    for (std::size_t k = 0; k < list.count; ++k)
      if (numbers[k] >= 0) marks[numbers[k]] = 1;
  }
}

template <class Element>
void mean_updates::find_rows(std::size_t i) {
  const Element* const marks = gradients_.template row_marks<Element>(i);
  rows_[i].resize(variables_[i].rows);
  for (std::size_t r = 0; r < variables_[i].rows; ++r) rows_[i][r] = marks[r] > 0 ? static_cast<std::int64_t>(r) : -1;
}

#endif

}  // namespace weft::detail

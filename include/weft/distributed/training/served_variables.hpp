// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/update_rule.hpp>
#include <weft/distributed/training/shared_variables.hpp>
#include <weft/error.hpp>
#include <weft/train/loss_scale_rule.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

// The description of a worker's variables for parameter servers.

/// Throws weft::error: invalid_argument for a variable that is placed outside the parameter servers; unimplemented for
/// updates that parameter servers do not implement.
parameter_spec spec_of_served(task_server& here, shared_variables& variables, std::size_t i);

/// Assigns servers to the variables that no scope has placed, balanced by bytes. A moving average is on the server of
/// its variable.
void place_served(std::vector<parameter_spec>& specs, int servers);

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_COLD_BEGIN

WEFT_DISTRIBUTED_DECL update_rule rule_of_served(shared_variables& variables, std::size_t i) {
  if (i == variables.loss_scale()) {
    const sequence<double>& numbers = variables.scales_losses()->numbers;
    return {loss_scale_rule::name, {numbers.begin(), numbers.end()}};
  }
  if (!variables.has_rule(i)) {  // averaged: variable - (-1) * the sum of additions
    return {"gradient_descent", {variables.is_averaged(i) ? -1.0 : 0.0}};
  }
  const shared_variable& v = variables[i];
  const update_view what(variables.of()[v.update].def);
  if (what.layout().norms != 0)
    throw error(error_code::unimplemented, v.name,
                {what.layout().name, " uses norms, which parameter servers do not compute; use collective"});
  update_rule rule{what.layout().name, {}};
  // The last hyperparameter is the factor of a loss scale. Not sent: the servers skip steps, and workers divide by the
  // scale.
  const bool has_factor = i < variables.trained() && variables.scales_losses();
  for (std::size_t k = 0; k < what.layout().hyperparameters - has_factor; ++k) {
    rule.parameters.push_back(what.is_computed(k) ? 0 : what.number(k));
    if (what.is_computed(k)) rule.schedules.push_back(variables.schedule_of(v.update, k));
  }
  return rule;
}

WEFT_DISTRIBUTED_DECL parameter_spec spec_of_served(task_server& here, shared_variables& variables, std::size_t i) {
  const shared_variable& v = variables[i];
  const device_spec& on = variables.of()[v.node].device;
  const std::string& job = here.options().ps_job;
  if (on.has_job() && on.job != job)
    throw error(error_code::invalid_argument, v.name,
                {"is placed on ", to_string(on), ", but parameter servers keep the variables; name one of the ",
                 here.cluster().num_tasks(job), " tasks of /job:", job, ", or none"});
  const int task = on.has_job() ? std::max(0, on.task) : -1;
  parameter_spec spec{v.name, v.type, v.elements, task, rule_of_served(variables, i)};
  if (i < variables.first_frozen()) {
    spec.row_elements = v.row_elements;
    spec.clipping = v.clipping;
    if (variables.is_averaged(i)) spec.source = parameter_spec::assigned;
    return spec;
  }
  // The servers store frozen variables so that all workers get the first worker's values. To a server, the variable is
  // a single row for which no worker sends a gradient, so it is not sent again. Moving averages are sent when a worker
  // fetches all values.
  spec.row_elements = v.elements;
  spec.source = i == variables.loss_scale()   ? parameter_spec::finite_steps
                : v.source < variables.size() ? static_cast<std::int64_t>(v.source)
                                              : parameter_spec::no_source;
  return spec;
}

WEFT_DISTRIBUTED_DECL void place_served(std::vector<parameter_spec>& specs, int servers) {
  std::vector<parameter_spec> open;
  for (const parameter_spec& v : specs)
    if (v.ps_task < 0 && !v.is_moving_average()) open.push_back(v);
  shard_by_bytes(open, servers);
  std::size_t next = 0;
  for (parameter_spec& v : specs)
    if (v.is_moving_average())
      v.ps_task = specs[static_cast<std::size_t>(v.source)].ps_task;
    else if (v.ps_task < 0)
      v.ps_task = open[next++].ps_task;
}

// ---- computations of the graph between gradients and updates ----

WEFT_DISTRIBUTED_DECL void shared_variables::clip_means() {
  sequence<value> norms;
  for (std::size_t i = 0; i < trained_; ++i) {
    shared_variable& v = all_[i];
    value sent = update_view(graph_[v.update_of_mean()].def).gradient();
    if (const noted_clip* const clip = find_clip(gradient_of_update(v))) {
      v.clipping = {clip->how, group_of(*clip, i, norms)};
      v.gradient = clip->gradient;
      sent = graph_.whole_of(v.gradient);
      if (v.has_rows()) take_rows_before(*clip, v);
    }
    if (processing_.is_affine(sent)) continue;
    throw error(
        error_code::unimplemented, v.name,
        "parameter servers cannot apply the change of its gradient to the mean of the gradients; the last change must "
        "clip with numbers (clip_by_value, clip_by_norm or clip_by_global_norm), or use collective");
  }
}

WEFT_DISTRIBUTED_DECL void shared_variables::find_loss_scale(bool by_servers) {
  std::size_t scaled = 0;
  for (std::size_t i = 0; i < trained_; ++i) {
    const update_view what(graph_[all_[i].update].def);
    const std::size_t count = what.layout().hyperparameters;
    if (count == 0 || !what.is_computed(count - 1)) continue;
    const value last = what.hyperparameter(count - 1);
    for (const noted_loss_scale& each : graph_.loss_scales()) {
      if (last != each.factor && last != each.passes) continue;
      if (loss_scale_ && loss_scale_ != &each)
        throw error(error_code::unimplemented, all_[i].name,
                    "its gradient has a different loss scale than other gradients, but parameter servers support only "
                    "one; apply all gradients with one call of loss_scale::apply_gradients(), or use collective");
      loss_scale_ = &each;
      all_[i].is_scaled = last == each.factor;
      ++scaled;
      break;
    }
  }
  if (!loss_scale_) return;
  if (scaled != trained_)
    throw error(error_code::unimplemented, "loss_scale",
                {"it scales the gradients of ", scaled, " of ", trained_,
                 " trained variables; with parameter servers it must scale all or none, or use collective"});
  if (!by_servers) return;
  for (const std::uint32_t n : loss_scale_->assignments) effects_.push_back(n);
  scale_variable_ = all_.size();
  if (loss_scale_->is_dynamic) share(loss_scale_->scale.node);
}

WEFT_DISTRIBUTED_DECL double shared_variables::scale_now() {
  float scale = 1;
  if (loss_scale_->is_dynamic)
    local_.read_variable(loss_scale_->scale.node, &scale);
  else
    scale = static_cast<float>(loss_scale_->numbers.back());  // fixed: all bounds equal the scale
  return scale;
}

/// Returns the whole gradient that an update applies.
WEFT_DISTRIBUTED_DECL value shared_variables::gradient_of_update(const shared_variable& v) const {
  return update_view(graph_[v.has_rows() ? v.update_of_mean() : v.update].def).gradient();
}

/// Returns the clipping that computes this value, or null.
WEFT_DISTRIBUTED_DECL const noted_clip* shared_variables::find_clip(value clipped) const {
  for (const noted_clip& each : graph_.clips())
    if (each.clipped == clipped) return &each;
  return nullptr;
}

/// Replaces the lists of rows of a clipped gradient with the lists of the unclipped gradient.
WEFT_DISTRIBUTED_DECL void shared_variables::take_rows_before(const noted_clip& clip, shared_variable& v) const {
  for (const noted_clip& each : graph_.clips()) {
    if (each.rows == graph_node::no_node || graph_.whole_of(each.clipped) != clip.clipped || each.how != clip.how)
      continue;
    for (std::size_t k = 0; k < v.lists.size(); ++k) v.lists[k] = {each.rows, static_cast<std::uint32_t>(k)};
    return;
  }
}

/// Returns the number of the norm that clips a gradient. Throws unimplemented if the norm counts a gradient that no
/// update applies in its clipped form.
WEFT_DISTRIBUTED_DECL std::uint32_t shared_variables::group_of(const noted_clip& clip, std::size_t i,
                                                               sequence<value>& norms) const {
  if (clip.how.kind != clip_kind::by_global_norm) return 0;
  for (std::uint32_t k = 0; k < norms.size(); ++k)
    if (norms[k] == clip.norm) return k;
  for (const noted_clip& other : graph_.clips()) {
    if (graph_.whole_of(other.norm) != graph_.whole_of(clip.norm)) continue;
    bool is_applied = false;
    for (std::size_t k = 0; k < trained_ && !is_applied; ++k)
      is_applied = graph_.whole_of(gradient_of_update(all_[k])) == graph_.whole_of(other.clipped);
    if (!is_applied)
      throw error(
          error_code::unimplemented, all_[i].name,
          "the global norm that clips its gradient includes the gradient of another variable, but the training does "
          "not apply that gradient with this clipping; use collective, or leave that gradient out of the norm");
  }
  norms.push_back(clip.norm);
  return static_cast<std::uint32_t>(norms.size() - 1);
}

WEFT_COLD_END
#endif

}  // namespace weft::detail

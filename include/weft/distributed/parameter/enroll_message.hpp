// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <weft/distributed/cluster/graph_identity.hpp>
#include <weft/distributed/cluster/message_fields.hpp>
#include <weft/distributed/membership/loss_policy.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/training_terms.hpp>
#include <weft/text.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// Maximum size of the list of variables that a worker sends, in bytes.
inline constexpr std::uint64_t max_enroll_bytes = std::uint64_t{64} << 20;

/// The first request of a worker to a parameter server.
struct enroll_message {
  training_terms terms = consistency::asynchronous;
  graph_identity graph;
  std::vector<parameter_spec> variables;

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static enroll_message read(const_bytes from) { return read_message<enroll_message>(from); }

  /// Describes how `other` differs from this message. Returns an empty text if it does not.
  std::string difference(const enroll_message& other) const;
};

/// Returns true if several parameter servers hold gradients that are clipped by one norm.
inline bool shares_norms(std::span<const parameter_spec> variables) {
  const auto is_global = [](const parameter_spec& v) { return v.clipping.kind == clip_kind::by_global_norm; };
  const auto first = std::find_if(variables.begin(), variables.end(), is_global);
  return std::any_of(first, variables.end(),
                     [&](const parameter_spec& v) { return is_global(v) && v.ps_task != first->ps_task; });
}

/// Returns true if `servers` parameter servers with these terms exchange squares before each synchronous step.
inline bool exchanges_squares(const enroll_message& said, int servers) {
  return said.terms.is_synchronous() && servers > 1 && (said.terms.skips_nonfinite || shares_norms(said.variables));
}

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void enroll_message::fields(message_fields& io) {
  constexpr int largest = 1 << 20;
  constexpr std::int64_t far = std::int64_t{1} << 62;
  const auto reals = [&](auto& all) { io.list(all, 0xff, [&](double& x) { io.real(x); }, 1); };
  io.one_of(terms.model.mode, consistency::asynchronous, consistency::synchronous);
  io.number(terms.model.backups, 0, largest).number(terms.model.staleness, -1, largest);
  io.duration(terms.on_loss.wait, longest_loss_wait);
  io.one_of(terms.on_loss.then, loss_action::stop, loss_action::take_over);
  io.flag(terms.skips_nonfinite);
  io.number(graph.hash).number(graph.seed).sentence(graph.settings, max_text_bytes);
  io.list(variables, max_parameters, [&](parameter_spec& each) {
    io.text(each.name).one_of(each.type, element_type::float32, element_type::float64);
    io.number(each.elements, 0, std::uint64_t{1} << 48).number(each.row_elements).number(each.ps_task);
    io.must_hold(each.row_elements == 0 ||
                 (each.row_elements <= each.elements && each.elements % each.row_elements == 0));
    io.text(each.rule.name);
    reals(each.rule.parameters);
    io.list(
        each.rule.schedules, 0xff,
        [&](scheduled_parameter& one) {
          auto parameter = static_cast<std::uint8_t>(one.parameter);
          io.number(parameter).number(one.first, -far, far);
          one.parameter = parameter;
          reals(one.numbers);
        },
        1);
    gradient_clipping& clip = each.clipping;
    io.one_of(clip.kind, clip_kind::none, clip_kind::by_global_norm).real(clip.lowest).real(clip.highest);
    io.number(clip.group, 0, max_clip_groups - 1).number(each.source, parameter_spec::assigned, far);
    io.must_hold(!std::isnan(clip.lowest) && !std::isnan(clip.highest));
  });
  for (const parameter_spec& each : variables) {
    io.must_hold(!each.is_loss_scale() || (each.elements == 1 && each.row_elements == 1));
    io.must_hold(!each.is_averaged() || !each.has_rows());
    io.must_hold(each.has_gradients() || each.has_rows() || each.elements == 0);
    io.must_hold(each.clipping.group < std::max<std::size_t>(variables.size(), 1));
    if (!each.is_moving_average()) continue;
    io.must_hold(static_cast<std::size_t>(each.source) < variables.size());
    if (static_cast<std::size_t>(each.source) >= variables.size())
      continue;  // while writing, must_hold() has no effect
    const parameter_spec& of = variables[static_cast<std::size_t>(each.source)];
    io.must_hold(!of.is_moving_average() && of.type == each.type && of.elements == each.elements &&
                 of.ps_task == each.ps_task);
  }
}

WEFT_DISTRIBUTED_DECL std::string enroll_message::difference(const enroll_message& other) const {
  if (other.terms != terms)
    return str_cat({"its training is ", to_string(other.terms), ", but the first worker's is ", to_string(terms)});
  if (other.graph.seed != graph.seed)
    return str_cat({"its seed is ", other.graph.seed, ", but the first worker's is ", graph.seed});
  if (other.variables.size() != variables.size())
    return str_cat({"it has ", other.variables.size(), " variables, but the first worker has ", variables.size()});
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const parameter_spec &mine = variables[i], &its = other.variables[i];
    if (mine.name != its.name)
      return str_cat({"its variable ", i, " is '", its.name, "', but the first worker's is '", mine.name, "'"});
    if (mine.elements != its.elements)
      return str_cat({"its variable '", mine.name, "' has ", its.elements, " elements, but the first worker's has ",
                      mine.elements});
    if (mine.rule.name != its.rule.name)
      return str_cat({"its variable '", mine.name, "' is trained by ", its.rule.name, ", but the first worker's by ",
                      mine.rule.name});
    if (mine.rule != its.rule)
      return str_cat({"its variable '", mine.name, "' is trained by ", mine.rule.name,
                      " with a different learning rate, hyperparameter or schedule than the first worker's"});
    if (mine.clipping != its.clipping)
      return str_cat({"the gradient of its variable '", mine.name, "' is clipped differently than the first worker's"});
    if (mine != its)
      return str_cat({"its variable '", mine.name,
                      "' has a different element type, parameter server or kind of gradient (sparse or dense) than the "
                      "first worker's"});
  }
  if (other.graph.settings != graph.settings)
    return str_cat(
        {"its settings are '", other.graph.settings, "', but the first worker's are '", graph.settings, "'"});
  if (other.graph.hash != graph.hash)
    return str_cat({"its graph has hash ", other.graph.hash, ", but the first worker's has ", graph.hash});
  return {};
}

#endif

}  // namespace weft::detail

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/graph_identity.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/parameter/gradient_clipping.hpp>
#include <weft/distributed/parameter/training_terms.hpp>
#include <weft/distributed/parameter/update_rule.hpp>
#include <weft/error.hpp>

namespace weft {

/// Element types that a parameter server can hold. The numbers are part of the protocol.
enum class element_type : std::uint8_t { float32 = 1, float64 = 2 };

/// The bytes of one element.
constexpr std::size_t size_of(element_type type) { return type == element_type::float64 ? 8 : 4; }

/// A variable, as a parameter server must know it.
struct parameter_spec {
  std::string name;
  element_type type = element_type::float32;
  std::size_t elements = 0;
  int ps_task = 0;  // which task of the ps job holds it
  update_rule rule;
  /// The elements of a row, where the variable's gradient is some of its rows (ops/gather.hpp); `elements` can be
  /// divided by it. 0: its gradient has all elements.
  std::size_t row_elements = 0;
  gradient_clipping clipping = {};  // of the mean of the workers' gradients
  /// A moving average follows this variable of the list, which is on the same server: each update of that is followed
  /// by one of the average, with the new value in the gradient's place. No worker sends a gradient of it.
  static constexpr std::int64_t no_source = -1;
  std::int64_t source = no_source;

  bool is_moving_average() const { return source >= 0; }
  /// A loss scale. After each step of synchronous training its rule updates it, given 1 if the gradients of the step
  /// were finite and 0 otherwise.
  static constexpr std::int64_t finite_steps = -2;
  bool is_loss_scale() const { return source == finite_steps; }

  std::size_t bytes() const { return elements * size_of(type); }
  bool has_rows() const { return row_elements != 0; }
  std::size_t rows() const { return has_rows() ? elements / row_elements : 0; }
  std::size_t row_bytes() const { return row_elements * size_of(type); }

  friend bool operator==(const parameter_spec&, const parameter_spec&) = default;
};

/// Spreads variables over `tasks` parameter servers so that each holds about as many bytes: the largest first, each to
/// the task with the least so far. Depends on names and sizes only, not on the order of creation: ties go to the
/// smaller name and the lower task. Throws weft::error (invalid_argument) for fewer than one task.
inline void shard_by_bytes(std::span<parameter_spec> variables, int tasks) {
  if (tasks < 1)
    throw error(error_code::invalid_argument, "shard_by_bytes",
                "variables need a parameter server; the cluster has none");
  std::vector<std::size_t> order(variables.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (variables[a].bytes() != variables[b].bytes()) return variables[a].bytes() > variables[b].bytes();
    return variables[a].name < variables[b].name;
  });
  std::vector<std::size_t> load(static_cast<std::size_t>(tasks));
  for (const std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    variables[i].ps_task = static_cast<int>(least - load.begin());
    *least += variables[i].bytes();
  }
}

namespace detail {

/// The number of a push has the replica above these bits.
inline constexpr unsigned push_replica_shift = 32;

/// Name of the channel between a worker and a parameter server.
inline constexpr const char* parameter_channel = "parameters";
/// Name of the channel between a parameter server and parameter server 0.
inline constexpr const char* decision_channel = "decisions";

/// What an answer to gradients says of them, in frame_header::weight.
struct update_notes {
  std::uint32_t staleness = 0;  // updates that others had made between the worker's values and its own update
  std::uint32_t left_out = 0;   // workers that are lost, and that training goes on without

  static constexpr std::uint32_t max = 0xffff;  // of each: larger ones count as that

  std::uint32_t bits() const { return std::min(staleness, max) | std::min(left_out, max) << 16; }
  static update_notes read(std::uint32_t bits) { return {bits & max, bits >> 16}; }
};

/// In which order one parameter server's variables lie one after the other, in its memory and in messages: wide
/// elements first, so that every element is aligned without padding.
inline std::vector<std::size_t> wire_order(std::span<const parameter_spec> variables, int ps_task) {
  std::vector<std::size_t> order;
  for (const element_type type : {element_type::float64, element_type::float32})
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (variables[i].ps_task == ps_task && variables[i].type == type) order.push_back(i);
  return order;
}

/// How one parameter server's variables lie in the segment that it shares with a worker: first the values, then that
/// worker's gradients, each variable on a cache line of its own and behind a free one; gradients that are rows are not
/// there. Both sides compute it from the list of variables: the segment itself says nothing about where things are.
struct segment_layout {
  std::vector<std::size_t> values, gradients;  // offsets, variables in wire order
  std::size_t bytes = 0;

  segment_layout() = default;
  segment_layout(std::span<const parameter_spec> variables, std::span<const std::size_t> order) {
    constexpr std::size_t line = 64;
    for (auto* offsets : {&values, &gradients})
      for (const std::size_t i : order) {
        offsets->push_back(bytes + line);
        if (offsets == &gradients && variables[i].has_rows()) continue;  // they travel
        bytes += line + (variables[i].bytes() + line - 1) / line * line;
      }
  }
};

/// Largest list of variables, in bytes, that a worker may send.
inline constexpr std::uint64_t max_enroll_bytes = std::uint64_t{64} << 20;

/// A worker tells a parameter server this before anything else.
struct enroll_message {
  training_terms terms = consistency::asynchronous;
  graph_identity graph;
  std::vector<parameter_spec> variables;

  std::vector<std::byte> bytes() const {
    message_writer out;
    out.number(static_cast<std::uint8_t>(terms.model.mode)).number(terms.model.backups).number(terms.model.staleness);
    out.number(std::int64_t{terms.on_loss.wait.count()});
    out.number(static_cast<std::uint8_t>(terms.on_loss.then))
        .number(static_cast<std::uint8_t>(terms.skips_nonfinite))
        .number(graph.hash)
        .number(graph.seed)
        .text(printable(graph.settings));
    out.number(static_cast<std::uint32_t>(variables.size()));
    for (const parameter_spec& variable : variables) {
      out.text(variable.name).number(static_cast<std::uint8_t>(variable.type));
      out.number(static_cast<std::uint64_t>(variable.elements));
      out.number(static_cast<std::uint64_t>(variable.row_elements)).number(variable.ps_task).text(variable.rule.name);
      out.number(static_cast<std::uint8_t>(variable.rule.parameters.size()));
      for (const double parameter : variable.rule.parameters) out.real(parameter);
      out.number(static_cast<std::uint8_t>(variable.rule.schedules.size()));
      for (const scheduled_parameter& each : variable.rule.schedules) {
        out.number(static_cast<std::uint8_t>(each.parameter)).number(each.first);
        out.number(static_cast<std::uint8_t>(each.numbers.size()));
        for (const double x : each.numbers) out.real(x);
      }
      detail::write_clipping(out, variable.clipping);
      out.number(variable.source);
    }
    return out.take();
  }

  static enroll_message read(const_bytes bytes) {
    message_reader in(bytes);
    enroll_message message;
    const auto mode = in.number<std::uint8_t>();
    if (mode != 1 && mode != 2) message_reader::malformed();
    const int backups = in.number<int>(), staleness = in.number<int>();
    const auto wait = in.number<std::int64_t>();
    const auto then = in.number<std::uint8_t>();
    constexpr int largest = 1 << 20;
    if (backups < 0 || backups > largest || staleness < -1 || staleness > largest ||
        !is_valid_wait(std::chrono::milliseconds(wait)) || then > static_cast<std::uint8_t>(loss_action::take_over))
      message_reader::malformed();
    message.terms = {{static_cast<consistency>(mode), backups, staleness},
                     {std::chrono::milliseconds(wait), static_cast<loss_action>(then)}};
    message.terms.skips_nonfinite = in.flag();
    message.graph.hash = in.number<std::uint64_t>();
    message.graph.seed = in.number<std::uint64_t>();
    message.graph.settings = in.text();
    const auto count = in.number<std::uint32_t>();
    if (count > in.left()) message_reader::malformed();  // a variable takes more than a byte
    for (std::uint32_t i = 0; i < count; ++i) {
      parameter_spec& variable = message.variables.emplace_back();
      variable.name = in.text();
      const auto type = in.number<std::uint8_t>();
      if (type != 1 && type != 2) message_reader::malformed();
      variable.type = static_cast<element_type>(type);
      const auto elements = in.number<std::uint64_t>();
      if (elements > (std::uint64_t{1} << 48)) message_reader::malformed();
      variable.elements = elements;
      const auto of_row = in.number<std::uint64_t>();
      if (of_row != 0 && (of_row > elements || elements % of_row != 0)) message_reader::malformed();
      variable.row_elements = of_row;
      variable.ps_task = in.number<int>();
      variable.rule.name = in.text();
      const auto parameters = in.number<std::uint8_t>();
      for (unsigned k = 0; k < parameters; ++k) variable.rule.parameters.push_back(in.real());
      const auto schedules = in.number<std::uint8_t>();
      for (unsigned k = 0; k < schedules; ++k) {
        scheduled_parameter& each = variable.rule.schedules.emplace_back();
        each.parameter = in.number<std::uint8_t>();
        each.first = in.number<std::int64_t>();
        constexpr std::int64_t max = std::int64_t{1} << 62;
        if (each.first < -max || each.first > max) message_reader::malformed();
        const auto numbers = in.number<std::uint8_t>();
        for (unsigned n = 0; n < numbers; ++n) each.numbers.push_back(in.real());
      }
      variable.clipping = detail::read_clipping(in);
      variable.source = in.number<std::int64_t>();
    }
    for (const parameter_spec& each : message.variables) {
      if (each.source < parameter_spec::finite_steps) message_reader::malformed();
      if (each.is_loss_scale() && (each.elements != 1 || each.row_elements != 1)) message_reader::malformed();
      if (!each.is_moving_average()) continue;
      if (static_cast<std::size_t>(each.source) >= message.variables.size()) message_reader::malformed();
      const parameter_spec& of = message.variables[static_cast<std::size_t>(each.source)];
      if (of.is_moving_average() || of.type != each.type || of.elements != each.elements || of.ps_task != each.ps_task)
        message_reader::malformed();
    }
    in.end();
    return message;
  }

  /// In words, how `other` differs from this one; empty when it does not.
  std::string difference(const enroll_message& other) const {
    if (other.terms != terms)
      return str_cat({"it trains ", to_string(other.terms), ", the first worker ", to_string(terms)});
    if (other.graph.seed != graph.seed)
      return str_cat({"its seed is ", other.graph.seed, ", the first worker's ", graph.seed});
    if (other.variables.size() != variables.size())
      return str_cat({"it has ", other.variables.size(), " variables, the first worker has ", variables.size()});
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const parameter_spec &mine = variables[i], &its = other.variables[i];
      if (mine.name != its.name)
        return str_cat({"variable ", i, " is '", its.name, "' there and '", mine.name, "' at the first worker"});
      if (mine.elements != its.elements)
        return str_cat({"variable '", mine.name, "' has ", its.elements, " elements there and ", mine.elements,
                        " at the first worker"});
      if (mine.rule.name != its.rule.name)
        return str_cat({"variable '", mine.name, "' is trained by ", its.rule.name, " there and by ", mine.rule.name,
                        " at the first worker"});
      if (mine.rule != its.rule)
        return str_cat({"variable '", mine.name, "' is trained by ", mine.rule.name,
                        " with another learning rate, hyperparameter or schedule than at the first worker"});
      if (mine.clipping != its.clipping)
        return str_cat({"the gradient of variable '", mine.name, "' is clipped otherwise than at the first worker"});
      if (mine != its)
        return str_cat({"variable '", mine.name,
                        "' has another element type, parameter server or gradient (of rows, or of all elements) than "
                        "at the first worker"});
    }
    if (other.graph.settings != graph.settings)
      return str_cat({"its settings are '", other.graph.settings, "', the first worker's '", graph.settings, "'"});
    if (other.graph.hash != graph.hash)
      return str_cat({"its graph has hash ", other.graph.hash, ", the first worker's has ", graph.hash});
    return {};
  }
};

}  // namespace detail
}  // namespace weft

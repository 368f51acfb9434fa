// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/parameter/gradient_clipping.hpp>
#include <weft/distributed/parameter/update_rule.hpp>
#include <weft/error.hpp>

namespace weft {

/// Element types that a parameter server can hold. The numbers are part of the protocol.
enum class element_type : std::uint8_t { float32 = 1, float64 = 2 };

/// Returns the size of one element in bytes.
constexpr std::size_t size_of(element_type type) { return type == element_type::float64 ? 8 : 4; }

/// Largest number of variables that parameter servers hold together.
inline constexpr std::size_t max_parameters = std::size_t{1} << 18;

/// The description of a variable for parameter servers.
struct parameter_spec {
  std::string name;
  element_type type = element_type::float32;
  std::size_t elements = 0;
  int ps_task = 0;  // task of the ps job that holds the variable
  update_rule rule;
  /// Number of elements per row if the gradient is a list of rows (ops/index/gather.hpp); `elements` must be a multiple
  /// of it. 0: the gradient is dense.
  std::size_t row_elements = 0;
  gradient_clipping clipping = {};  // applied to the mean of the workers' gradients
  /// For a moving average: the index of the variable that it follows, which is on the same server. After each update of
  /// the variable, the average is updated with the new value in place of a gradient. Workers send no gradients of
  /// averages.
  static constexpr std::int64_t no_source = -1;
  std::int64_t source = no_source;

  bool is_moving_average() const { return source >= 0; }
  /// The `source` of a loss scale. After each step of synchronous training, its rule updates it with 1 in place of a
  /// gradient if the gradients of the step were finite, otherwise with 0.
  static constexpr std::int64_t finite_steps = -2;
  bool is_loss_scale() const { return source == finite_steps; }
  /// The `source` of a variable that the workers' steps assign. Workers send what they have added to it, also if a step
  /// of synchronous training is skipped because its gradients are not finite.
  static constexpr std::int64_t assigned = -3;
  bool is_averaged() const { return source == assigned; }

  /// Returns false if servers update the variable without gradients. It must have rows, so that workers can send none.
  bool has_gradients() const { return source == no_source || is_averaged(); }

  std::size_t bytes() const { return elements * size_of(type); }
  bool has_rows() const { return row_elements != 0; }
  std::size_t rows() const { return has_rows() ? elements / row_elements : 0; }
  std::size_t row_bytes() const { return row_elements * size_of(type); }

  friend bool operator==(const parameter_spec&, const parameter_spec&) = default;
};

/// Distributes variables over `tasks` parameter servers so that each holds about the same number of bytes: the largest
/// first, each to the task with the fewest bytes. Depends on names and sizes only, not on the order of creation: ties
/// go to the smaller name and the lower task. Throws weft::error (invalid_argument) for fewer than one task.
inline void shard_by_bytes(std::span<parameter_spec> variables, int tasks) {
  if (tasks < 1)
    throw error(error_code::invalid_argument, "shard_by_bytes",
                "variables require a parameter server, but the cluster has none");
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

/// The request number of a push contains the replica above this many bits.
inline constexpr unsigned push_replica_shift = 32;

/// Name of the channel between a worker and a parameter server.
inline constexpr const char* parameter_channel = "parameters";
/// Name of the channel between a parameter server and parameter server 0.
inline constexpr const char* decision_channel = "decisions";

/// Notes about an update, sent in frame_header::weight of its answer.
struct update_notes {
  std::uint32_t staleness = 0;  // updates by others between the worker's values and its own update
  std::uint32_t left_out = 0;   // lost workers without which training continues

  static constexpr std::uint32_t max = 0xffff;  // limit of each number; larger numbers are sent as this limit

  std::uint32_t bits() const { return std::min(staleness, max) | std::min(left_out, max) << 16; }
  static update_notes read(std::uint32_t bits) { return {bits & max, bits >> 16}; }
};

/// Returns the indices of one parameter server's variables in the order of its memory and messages. Wide elements come
/// first, so that every element is aligned without padding.
inline std::vector<std::size_t> wire_order(std::span<const parameter_spec> variables, int ps_task) {
  std::vector<std::size_t> order;
  for (const element_type type : {element_type::float64, element_type::float32})
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (variables[i].ps_task == ps_task && variables[i].type == type) order.push_back(i);
  return order;
}

/// The layout of the segment that one parameter server shares with a worker: first the values, then the worker's
/// gradients. Each variable begins on a cache line, after a free one. Gradients that are lists of rows are not in the
/// segment. Both sides compute the layout from the list of variables; the segment does not describe it.
struct segment_layout {
  std::vector<std::size_t> values, gradients;  // offsets in bytes, in wire order
  std::size_t bytes = 0;

  segment_layout() = default;
  segment_layout(std::span<const parameter_spec> variables, std::span<const std::size_t> order) {
    constexpr std::size_t line = 64;
    for (auto* offsets : {&values, &gradients})
      for (const std::size_t i : order) {
        offsets->push_back(bytes + line);
        if (offsets == &gradients && variables[i].has_rows()) continue;  // rows travel in messages
        bytes += line + (variables[i].bytes() + line - 1) / line * line;
      }
  }
};

}  // namespace detail
}  // namespace weft

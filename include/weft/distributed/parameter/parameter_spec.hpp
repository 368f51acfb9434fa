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

}  // namespace detail
}  // namespace weft

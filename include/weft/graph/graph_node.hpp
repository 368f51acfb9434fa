// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/graph/device_spec.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// How a variable is initialized.
struct initializer {
  enum class kind_type : unsigned char {
    none,
    constant,
    uniform,
    normal,
    truncated_normal,
    orthogonal,
    value
  } kind = kind_type::none;
  double a = 0;  ///< constant; lower bound; mean; gain
  double b = 0;  ///< upper bound; standard deviation
  storage data;  ///< value
};

/// One operation of a graph, with its name and device.
struct graph_node {
  node_def def;
  std::string name;
  device_spec device;
  static constexpr std::uint32_t no_node = ~std::uint32_t{0};
  std::uint32_t beside = no_node;     ///< the node with which this one is colocated
  sequence<std::uint32_t> control;    ///< nodes that must run before this one, in addition to its inputs
  initializer init;                   ///< of a variable; of a constant: its value
  std::uint32_t begins_as = no_node;  ///< the variable whose initial value this one shares
  bool named = false;                 ///< the program chose the name, which must not change
};

/// The properties of a node that a device function can use, as in TensorFlow.
struct placement_query {
  std::string_view operation;
  const std::string& name;
  const value_info& output;
  const device_spec& requested;
};

/// The role of a variable in training, which also determines how workers share it.
enum class variable_kind : unsigned char {
  trained,   ///< updated by minimize() if the loss depends on it (TensorFlow's trainable variables)
  averaged,  ///< statistics that steps assign, such as moving averages; shared as the mean of the workers' values
  counter,   ///< a scalar that counts updates, such as tf.train.global_step; counts those of all workers
  local,     ///< private to a worker
  slot,      ///< an optimizer's state for another variable
  frozen,    ///< shared and saved like trained, but never changed by training (trainable=False)
};

// Operations that sessions implement directly, without a kernel.
struct placeholder_op {
  static constexpr const char* name = "placeholder";
  static constexpr operation_id id{"weft.placeholder"};
  static constexpr bool stateful = true;
};
/// Attributes: the kind; none for a trained variable.
struct variable_op {
  static constexpr const char* name = "variable";
  static constexpr operation_id id{"weft.variable"};
  static constexpr bool stateful = true;
  struct attributes {
    attribute<variable_kind> kind;
  };
};
/// Attributes: the extents. The output's extents may contain names for some of them.
struct constant_op {
  static constexpr const char* name = "constant";
  static constexpr operation_id id{"weft.constant"};
  static constexpr bool stateful = true;
};
/// Runs its control inputs and has no value (tf.group).
struct group_op {
  static constexpr const char* name = "group";
  static constexpr operation_id id{"weft.group"};
  static constexpr bool stateful = true;
};

/// The kind of the variable that the record declares.
inline variable_kind kind_of(const node_def& variable) {
  return variable.attributes.empty() ? variable_kind::trained
                                     : variable_kind(attributes_of<variable_op>(variable).kind);
}
/// The name of a kind, such as "trained".
constexpr const char* name(variable_kind kind) {
  constexpr const char* names[] = {"trained", "averaged", "counter", "local", "slot", "frozen"};
  return names[static_cast<int>(kind)];
}

}  // namespace weft
WEFT_COLD_END

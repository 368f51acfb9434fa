#pragma once

#include <cstdint>
#include <string>

#include <weft/graph/device_spec.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// How a variable gets its first value.
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
  double a = 0;  ///< constant; lowest; mean; gain
  double b = 0;  ///< highest; standard deviation
  storage data;  ///< value
};

/// One operation of a graph: what it computes, its name, and where it is to run.
struct graph_node {
  node_def def;
  std::string name;
  device_spec device;
  static constexpr std::uint32_t no_node = ~std::uint32_t{0};
  std::uint32_t beside = no_node;     ///< the node that it is colocated with
  sequence<std::uint32_t> control;    ///< nodes that run before this one although it does not read them
  initializer init;                   ///< a variable's; a constant's is its value
  std::uint32_t begins_as = no_node;  ///< the variable whose first value this one has
  bool named = false;                 ///< by the program, so that the name stays
};

/// The view that a device function has of a node: enough to place it as TensorFlow's functions do.
struct placement_query {
  std::string_view operation;
  const std::string& name;
  const value_info& output;
  const device_spec& requested;
};

/// The role of a variable in a training, and so what becomes of it where several workers train one model.
enum class variable_kind : unsigned char {
  trained,   ///< minimize() updates it if the loss depends on it (a trainable variable of TensorFlow)
  averaged,  ///< statistics that steps assign, such as moving averages: workers have the mean of what each assigned
  counter,   ///< a scalar that counts updates, such as tf.train.global_step: workers have the count of all
  local,     ///< a worker's own
  slot,      ///< an optimizer's memory of another variable
  frozen,    ///< as one that is trained, for all workers and in files, but no training changes it (trainable=False)
};

// Operations that sessions know of themselves, and that need no kernel.
struct placeholder_op {
  static constexpr const char* name = "placeholder";
  static constexpr operation_id id{"weft.placeholder"};
  static constexpr bool stateful = true;
};
/// attributes: its kind, or nothing for one that is trained.
struct variable_op {
  static constexpr const char* name = "variable";
  static constexpr operation_id id{"weft.variable"};
  static constexpr bool stateful = true;
  struct attributes {
    attribute<variable_kind> kind;
  };
};
/// attributes: the extents, some of which may have names in what it yields.
struct constant_op {
  static constexpr const char* name = "constant";
  static constexpr operation_id id{"weft.constant"};
  static constexpr bool stateful = true;
};
/// Runs its control inputs and yields nothing (tf.group).
struct group_op {
  static constexpr const char* name = "group";
  static constexpr operation_id id{"weft.group"};
  static constexpr bool stateful = true;
};

/// The kind of a variable, of its record.
inline variable_kind kind_of(const node_def& variable) {
  return variable.attributes.empty() ? variable_kind::trained
                                     : variable_kind(attributes_of<variable_op>(variable).kind);
}
/// The name of a kind: "trained".
constexpr const char* name(variable_kind kind) {
  constexpr const char* names[] = {"trained", "averaged", "counter", "local", "slot", "frozen"};
  return names[static_cast<int>(kind)];
}

}  // namespace weft
WEFT_COLD_END

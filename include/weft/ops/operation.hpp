#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/image_layout.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft {

/// One output of one node of a graph.
struct value {
  std::uint32_t node = 0;
  std::uint32_t output = 0;
  friend constexpr bool operator==(value, value) = default;
};

/// What is known of a value before it is computed. Extents may be dynamic codes.
struct value_info {
  dtype type = dtype::float32;
  shape extents;
  std::size_t bytes() const { return extents.elements() * size_of(type); }
  friend constexpr bool operator==(const value_info&, const value_info&) = default;
};

struct operation;
struct fused;
namespace gpu {
class device;
class allocator;
}  // namespace gpu

/// An operation applied to operands: all that distinguishes one node of a graph from another.
struct node_def {
  const operation* op = nullptr;
  const void* detail = nullptr;  ///< of the operation: for a fused expression, its compiled loops
  sequence<value> inputs;
  sequence<value_info> outputs;
  sequence<std::int64_t> attributes;
  sequence<std::uint64_t> literals;  ///< numbers in an expression, by their bits
};

/// What an operation makes a kernel from: the call with every extent known, and the slots of its buffers in the frame.
struct prepare_context {
  const node_def& c;
  const value_info* inputs;
  const value_info* outputs;
  const std::uint32_t* input_slots;
  const std::uint32_t* output_slots;
  gpu::allocator* memory = nullptr;  ///< of a GPU: where a kernel takes memory for itself; null: from the device
  image_layout layout = image_layout::channels_last;  ///< of the images among inputs and outputs
};

class gradient_context;

/// What part an operation can play in a kernel that does more than one.
enum class fusion_kind : unsigned char {
  none,
  expression,  ///< elementwise: can follow a product, in place
  gradient,    ///< of an expression: can follow what computes its upstream, in place of which it writes
  product,     ///< can take in what follows it
  descent,     ///< adds a product to a variable
  assignment,  ///< copies input 1 to a variable: nothing to do where it is computed there
};

/// How an operation, a product for the most part, takes in what follows it.
struct product_fusion {
  std::uint32_t result;                        ///< slot of the final result, or of the variable
  double factor = 1;                           ///< of the product
  bool accumulate = false;                     ///< whether it is added to what is there
  kernel* epilogue = nullptr;                  ///< reads the result and writes it in place; taken over
  const prepare_context* following = nullptr;  ///< of the epilogue: the call that it is made from
};

namespace gpu {

/// What a kernel would have of images whose channels come first.
struct layout_offer {
  static constexpr double always = 1e6;  ///< more than any copy takes

  bool possible = false;
  double gain = 0;                   ///< the seconds that it would take less
  std::uint32_t other_operands = 0;  ///< inputs that are no images, one bit each
  bool other_result = false;
};

/// How an operation is prepared for a GPU. Empty until a file fills it in that knows GPUs (<weft/cuda.hpp>), so that
/// the operations themselves are the same in every file of a program, whichever compiler compiles it.
struct preparation {
  /// Whether there is a kernel for this call; null: for every one.
  bool (*exists)(const node_def&) = nullptr;
  kernel* (*prepare)(const prepare_context&, device&) = nullptr;
  kernel* (*prepare_fused)(const prepare_context&, const product_fusion&, device&) = nullptr;
  /// Null: its images lie channels last.
  layout_offer (*channels_first)(const prepare_context&, device&) = nullptr;
};

/// Make kernels that copy images out of the other layout into the context's; by the size of their elements. Set by the
/// files that have them.
inline kernel* (*copy_into_layout[9])(const prepare_context&, device&) = {};

/// The preparation for a GPU of the operation that is prepared for a CPU by this function.
template <kernel* (*PrepareCpu)(const prepare_context&)>
inline constinit preparation preparation_of{};

}  // namespace gpu

/// A kind of operation. There is one object per kind; its address is the kind's identity.
///
/// Where a kind is a variable template, a function makes the object: `= [] { return operation{.name = ...}; }()`. nvcc
/// 12 cannot write down an initializer of a variable template that names members.
struct operation {
  const char* name;
  /// Makes the kernel for a CPU device.
  kernel* (*prepare_cpu)(const prepare_context&) = nullptr;
  /// Makes it for a GPU; null where no GPU can.
  const gpu::preparation* gpu = nullptr;
  /// Writes the gradient with respect to each input into the context; null where there is none.
  void (*gradient)(gradient_context&) = nullptr;
  /// The expression that `detail` stands for, where it does.
  const fused* (*expression)(const void* detail) = nullptr;
  /// The inputs whose elements the kernel reads, one bit each; of the others it needs the extents alone. Null: all.
  std::uint32_t (*reads)(const node_def&) = nullptr;
  /// Whether the first output may overwrite an input of equal extents that nobody needs any more.
  bool (*in_place)(const node_def&, const value_info* inputs, const value_info& output) = nullptr;
  /// The first output is the first input under other extents: no kernel, no buffer.
  bool alias = false;
  /// Reads or writes state: never shared with an equal call, and run for its effect.
  bool stateful = false;
  /// How many of the first inputs are variables that it writes.
  int writes = 0;
  fusion_kind part = fusion_kind::none;
  /// Whether it can take in the gradient of an expression that follows it, which may sum over its rows.
  bool takes_gradients = false;
  /// Of a product: whether it can add itself, times a factor, to a variable.
  bool adds_to_variables = false;
  /// Of an update of input 0 by the last input, a gradient: the rule's name on a parameter server, its parameters being
  /// the literals. Null for everything else.
  const char* update_rule = nullptr;
  /// Of what takes in what follows it: makes the kernel that does both.
  kernel* (*prepare_fused)(const prepare_context&, const product_fusion&) = nullptr;
};

}  // namespace weft

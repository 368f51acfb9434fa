// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <weft/config.hpp>
#include <weft/device/image_layout.hpp>
#include <weft/device/kernel.hpp>
#include <weft/error.hpp>
#include <weft/ops/literals.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

namespace weft {

/// One output of one node of a graph.
struct value {
  std::uint32_t node = 0;
  std::uint32_t output = 0;
  friend constexpr bool operator==(value, value) = default;
};

/// The properties of a value that are known before it is computed. Extents may be dynamic codes.
struct value_info {
  dtype type = dtype::float32;
  shape extents;
  std::size_t bytes() const { return extents.elements() * size_of(type); }
  friend constexpr bool operator==(const value_info&, const value_info&) = default;
};

struct operation;
struct fused;
struct update_layout;
struct strided_copies;
namespace gpu {
class device;
class allocator;
}  // namespace gpu

/// An operation applied to operands: everything that distinguishes one node of a graph from another.
struct node_def {
  const operation* op = nullptr;
  const void* detail = nullptr;  ///< defined by the operation: for a fused expression, its compiled loops
  sequence<value> inputs;
  sequence<value_info> outputs;
  sequence<std::int64_t> attributes;
  sequence<std::uint64_t> literals;   ///< numbers in an expression, as bits
  sequence<std::uint32_t> subgraphs;  ///< subgraphs of the node, as indices into the graph's subgraphs
};

/// One attribute of an operation, stored in a node as one word: an integer, a double, a bool or an enumerator.
template <class T>
class attribute {
 public:
  constexpr attribute(T x = T()) : word_(word_of(x)) {}
  constexpr operator T() const {
    if constexpr (std::is_same_v<T, double>)
      return __builtin_bit_cast(double, word_);
    else
      return static_cast<T>(word_);
  }

 private:
  static constexpr std::int64_t word_of(T x) {
    if constexpr (std::is_same_v<T, double>)
      return __builtin_bit_cast(std::int64_t, x);
    else
      return static_cast<std::int64_t>(x);
  }
  std::int64_t word_;
};

/// The attributes of an operation without attributes.
struct no_attributes {};
/// The attributes of an operation whose only attribute is an axis.
struct axis_attribute {
  attribute<std::size_t> axis;
};

namespace detail {
template <class Op>
struct attributes_type_of {
  using type = no_attributes;
};
template <class Op>
  requires requires { typename Op::attributes; }
struct attributes_type_of<Op> {
  using type = typename Op::attributes;
};
}  // namespace detail

/// The attributes of an operation, `Op::attributes`: a structure that contains only `attribute` members.
template <class Op>
using attributes_type = typename detail::attributes_type_of<Op>::type;

/// Converts attributes to the words that a node stores.
inline sequence<std::int64_t> words_of(no_attributes) { return {}; }
template <class A>
sequence<std::int64_t> words_of(const A& a) {
  static_assert(std::is_trivially_copyable_v<A> && sizeof(A) % sizeof(std::int64_t) == 0);
  sequence<std::int64_t> words(sizeof(A) / sizeof(std::int64_t));
  __builtin_memcpy(words.data(), static_cast<const void*>(&a), sizeof a);
  return words;
}
/// Returns the attributes of an operation from its node.
template <class Op>
typename Op::attributes attributes_of(const node_def& c) {
  typename Op::attributes a;
  __builtin_memcpy(static_cast<void*>(&a), c.attributes.data(), sizeof a);
  return a;
}

/// How an operation uses an operand.
enum class operand_use : unsigned char {
  read,     ///< reads its elements
  extents,  ///< uses only its extents
  write,    ///< a variable: writes it without reading it
  update,   ///< a variable: reads and writes it
};

struct prepared_subgraphs;

/// The place of an operand within a larger array: part `number` of `count` equal parts along an axis. An array that is
/// not a part has count 1.
struct operand_part {
  std::uint32_t number = 0, count = 1, axis = 0;
};

/// The context in which an operation creates a kernel: the call with all extents known, and the slots of its buffers in
/// the kernel context.
struct prepare_context {
  const node_def& node;
  const value_info* inputs;
  const value_info* outputs;
  const std::uint32_t* input_slots;
  const std::uint32_t* output_slots;
  gpu::allocator* memory = nullptr;  ///< allocates scratch memory of GPU kernels; null: the device does
  image_layout layout = image_layout::channels_last;  ///< the layout of images among inputs and outputs
  prepared_subgraphs* subgraphs = nullptr;            ///< the node's subgraphs, if any (ops/subgraphs.hpp); the kernel
                                                      ///< takes ownership
  const prepare_context* beside = nullptr;            ///< further updates by the same optimizer that the kernel
                                                      ///< performs
  std::size_t beside_count = 0;
  const content_version* const* versions = nullptr;  ///< by slot; null if no kernel may keep anything
  const operand_part* parts = nullptr;  ///< of the inputs and then of the outputs; null if all are whole arrays
  bool zeros_arrive = false;  ///< true if an input of an operation that skips zeros may consist mostly of zeros

  /// Returns the version of an input that is a variable or a constant, or null for other inputs. The kernel may keep
  /// data derived from the input's values until the version changes.
  const content_version* version_of(std::size_t input) const {
    return versions ? versions[input_slots[input]] : nullptr;
  }
};

class gradient_context;

/// The maximum number of row lists in one update, and thus of gathers from a variable.
inline constexpr std::size_t max_row_lists = 8;

/// The role of an operation in a fused kernel.
enum class fusion_kind : unsigned char {
  none,
  expression,  ///< elementwise: can follow a product, in place
  gradient,    ///< of an expression: can follow the kernel that computes its upstream gradient, and writes in its place
  product,     ///< can absorb the operation that follows it
  descent,     ///< adds a product to a variable
  assignment,  ///< copies input 1 to a variable; free if input 1 is computed there
};

/// How an operation, usually a product, absorbs the operations that follow it.
struct product_fusion {
  std::uint32_t result;                        ///< slot of the final result, or of the variable
  double factor = 1;                           ///< multiplies the product
  bool accumulate = false;                     ///< true to add the product to the existing values
  kernel* epilogue = nullptr;                  ///< reads the result and writes it in place; the kernel takes ownership
  const prepare_context* following = nullptr;  ///< the call from which the epilogue was prepared

  /// Returns the epilogue of a CPU kernel, or null if there is none.
  epilogue_kernel* epilogue_on_cpu() const {
    if (!epilogue) return nullptr;
    if (epilogue_kernel* const k = epilogue->as_epilogue()) return k;
    throw error(error_code::internal, "fusion", "a kernel that cannot be fused was fused into a product");
  }
};

namespace gpu {

/// The time that a kernel would save if the channels of its images came first.
struct layout_offer {
  static constexpr double always = 1e6;  ///< exceeds the cost of any copy

  bool possible = false;
  double gain = 0;                   ///< in seconds
  std::uint32_t other_operands = 0;  ///< inputs that are not images, one bit each
  bool other_result = false;
};

/// How an operation is prepared for a GPU. Empty until a source file that includes <weft/cuda.hpp> fills it in, so that
/// the operations are the same in every file of a program, whichever compiler compiles it.
struct preparation {
  /// Returns true if a kernel exists for this call; null: for every call.
  bool (*exists)(const node_def&) = nullptr;
  kernel* (*prepare)(const prepare_context&, device&) = nullptr;
  kernel* (*prepare_fused)(const prepare_context&, const product_fusion&, device&) = nullptr;
  /// Null if images must have their channels last.
  layout_offer (*channels_first)(const prepare_context&, device&) = nullptr;
};

/// Create kernels that copy images from the other layout into the context's layout, indexed by element size. Set by the
/// files that contain the kernels.
inline WEFT_API kernel* (*copy_into_layout[9])(const prepare_context&, device&) = {};

/// The GPU preparation of a declared operation.
template <class Op>
inline constinit WEFT_API preparation preparation_of{};
/// The GPU preparation of all operations that only move elements.
inline constinit WEFT_API preparation preparation_of_copies{};

}  // namespace gpu

/// Identifies an operation in every module of a process, unlike the address of `operation_of<Op>`: each shared library
/// with hidden visibility, and each plugin that dlopen loads, has its own object. A 64-bit FNV-1a hash of a name that
/// begins with the name of the library or project, as in `operation_id id{"mine.attention"}`.
class operation_id {
 public:
  constexpr operation_id() = default;
  consteval explicit operation_id(const char* unique_name) : hash_(0xcbf29ce484222325) {
    for (; *unique_name; ++unique_name) hash_ = (hash_ ^ static_cast<unsigned char>(*unique_name)) * 0x100000001b3;
  }
  friend constexpr bool operator==(operation_id, operation_id) = default;

 private:
  std::uint64_t hash_ = 0;  // 0 for an operation without an identifier
};

/// An operation as the graph and the planner see it, created by `declare` from its structure. Each module of a process
/// has its own objects, so compare operations with `is_operation<Op>`.
struct operation {
  const char* name;
  /// Set for operations that `is_operation` recognizes.
  operation_id id = {};
  /// Creates the CPU kernel.
  kernel* (*prepare_cpu)(const prepare_context&) = nullptr;
  /// Creates the GPU kernel; null if the operation has none.
  const gpu::preparation* gpu = nullptr;
  /// Lists the boxes of an operation that only moves elements, from which the kernels of all devices are created
  /// (ops/arrays/box_copies.hpp).
  strided_copies (*copies)(const prepare_context&) = nullptr;
  /// Sets the gradient of each input in the context; null if there are no gradients.
  void (*gradient)(gradient_context&) = nullptr;
  /// Returns the expression in `detail`; null if the operation has none.
  const fused* (*expression)(const void* detail) = nullptr;
  /// Returns the use of an operand; null: all operands are read.
  operand_use (*use)(const node_def&, std::size_t operand) = nullptr;
  /// Returns true if the first output may overwrite an input of equal extents that is no longer needed.
  bool (*in_place)(const node_def&, const value_info* inputs, const value_info& output) = nullptr;
  /// Returns true if an output is computed only if it is used; the address of an unused output is null.
  bool (*optional)(const node_def&, std::uint32_t output) = nullptr;
  /// Returns true if most elements of the results may be zeros; null: false. The gradient of an expression propagates
  /// zeros in its upstream gradient.
  bool (*yields_zeros)(const node_def&) = nullptr;
  /// True if its kernel is faster when it knows that an input may consist mostly of zeros
  /// (prepare_context::zeros_arrive).
  bool skips_zeros = false;
  /// Returns the bytes of memory that an operation with subgraphs needs itself while it runs.
  std::size_t (*workspace_bytes)(const prepare_context&) = nullptr;
  /// The first output is the first input with other extents; it has no kernel and no buffer.
  bool alias = false;
  /// Reads or writes state: never shared with an equal call, and run for its effect.
  bool stateful = false;
  /// Has effects outside the step, and may block. A step runs such operations in the order in which they were recorded.
  /// They are also stateful.
  bool ordered = false;
  /// Its first inputs are variables that it writes; the first output is the first variable.
  bool writes = false;
  fusion_kind fusion = fusion_kind::none;
  /// True if it can absorb the gradient of an expression that follows it, which may sum over its rows.
  bool takes_gradients = false;
  /// True for a product that can add itself, times a factor, to a variable.
  bool adds_to_variables = false;
  /// Returns the multiply-adds of a product whose operands and result have the given extents. Null for all other
  /// operations.
  double (*multiply_adds)(const shape& left, const shape& right, const shape& result) = nullptr;
  /// Returns how often a loop runs its subgraphs, or a negative number if unknown. Null for all other operations.
  std::int64_t (*iterations)(const node_def&) = nullptr;
  /// Formats the attributes as text; null to print them as numbers.
  std::string (*attributes_text)(const node_def&) = nullptr;
  /// The layout of an update of a variable by an optimizer (ops/update_view.hpp). Null for everything else.
  const update_layout* update = nullptr;
  /// For an operation that adds rows of input 0 at the indices in input 1, along the axis in attribute 0: the operation
  /// that only sums rows of equal index, which is sufficient for an update by rows. Null for all other operations.
  const operation* row_sums = nullptr;
  /// Returns true if a sum of many such calls equals one call on operands stacked along a new first axis; null: false.
  bool (*stacks)(const node_def&) = nullptr;
  /// How ONNX expresses the operation (onnx/forms.hpp); null if it does not.
  const char* onnx = nullptr;
  /// Creates a kernel that includes the operations absorbed by this one.
  kernel* (*prepare_fused)(const prepare_context&, const product_fusion&) = nullptr;
};

namespace detail {

template <class Op>
concept has_attributes = requires { typename Op::attributes; };

template <class Op>
strided_copies copies_declared(const prepare_context&);  // ops/arrays/box_copies.hpp
kernel* prepare_copies(const prepare_context&);
template <class Op>
kernel* prepare_declared(const prepare_context& p) {
  if constexpr (has_attributes<Op>)
    return Op::prepare(p, attributes_of<Op>(p.node));
  else
    return Op::prepare(p);
}
template <class Op>
kernel* prepare_fused_declared(const prepare_context& p, const product_fusion& f) {
  if constexpr (has_attributes<Op>)
    return Op::prepare_fused(p, attributes_of<Op>(p.node), f);
  else
    return Op::prepare_fused(p, f);
}
template <class Op>
void gradient_of_declared(gradient_context&);  // ops/symbol.hpp

}  // namespace detail

/// Creates `operation_of` from a structure. Its members are static; all except `name` and `prepare` are optional:
///
///     template <class T>
///     struct cumsum_op {
///       static constexpr const char* name = "cumsum";
///       struct attributes { attribute<std::size_t> axis; attribute<bool> exclusive, reverse; };
///       static kernel* prepare(const prepare_context&, const attributes&);      // for a CPU
///       static void gradient(gradient_context&, const attributes&);
///       static constexpr operand_use use(const node_def&, std::size_t operand);  // default: all are read
///     };
/// and other members of `operation`. GPU kernels are registered in gpu::preparation_of<Op> (ops/gpu/). Without
/// attributes, `prepare` and `gradient` take only the context. An operation that only moves elements has `copies`
/// instead of `prepare`. See docs/how-to/operations.md.
template <class Op>
constexpr operation declare() {
  operation o{.name = Op::name};
  if constexpr (requires { Op::id; }) o.id = Op::id;
  if constexpr (requires { &Op::prepare; }) {
    o.prepare_cpu = detail::prepare_declared<Op>;
    o.gpu = &gpu::preparation_of<Op>;
  }
  if constexpr (requires { &Op::copies; }) {
    o.copies = detail::copies_declared<Op>;
    o.prepare_cpu = detail::prepare_copies;
    o.gpu = &gpu::preparation_of_copies;
  }
  if constexpr (requires { &Op::gradient; }) o.gradient = detail::gradient_of_declared<Op>;
  if constexpr (requires { &Op::expression; }) o.expression = Op::expression;
  if constexpr (requires { &Op::use; }) o.use = Op::use;
  if constexpr (requires { &Op::in_place; }) o.in_place = Op::in_place;
  if constexpr (requires { &Op::optional; }) o.optional = Op::optional;
  if constexpr (requires { &Op::yields_zeros; }) o.yields_zeros = Op::yields_zeros;
  if constexpr (requires { Op::skips_zeros; }) o.skips_zeros = Op::skips_zeros;
  if constexpr (requires { &Op::workspace_bytes; }) o.workspace_bytes = Op::workspace_bytes;
  if constexpr (requires { Op::alias; }) o.alias = Op::alias;
  if constexpr (requires { Op::stateful; }) o.stateful = Op::stateful;
  if constexpr (requires { Op::ordered; }) o.ordered = o.stateful = Op::ordered;
  if constexpr (requires { Op::writes; }) o.writes = o.stateful = Op::writes;
  if constexpr (requires { Op::fusion; }) o.fusion = Op::fusion;
  if constexpr (requires { Op::takes_gradients; }) o.takes_gradients = Op::takes_gradients;
  if constexpr (requires { Op::adds_to_variables; }) o.adds_to_variables = Op::adds_to_variables;
  if constexpr (requires { &Op::multiply_adds; }) o.multiply_adds = Op::multiply_adds;
  if constexpr (requires { &Op::iterations; }) o.iterations = Op::iterations;
  if constexpr (requires { &Op::attributes_text; }) o.attributes_text = Op::attributes_text;
  if constexpr (requires { Op::update; }) o.update = Op::update;
  if constexpr (requires { Op::row_sums; }) o.row_sums = Op::row_sums;
  if constexpr (requires { Op::onnx; }) o.onnx = Op::onnx;
  if constexpr (requires { &Op::stacks; }) o.stacks = Op::stacks;
  if constexpr (requires { &Op::prepare_fused; }) o.prepare_fused = detail::prepare_fused_declared<Op>;
  return o;
}

/// The operation that a structure declares.
template <class Op>
inline constexpr operation operation_of = declare<Op>();

/// Returns true if `Op` declared the operation, in this or another module. Instances of a template share an identifier;
/// the node's element types distinguish them.
template <class Op>
constexpr bool is_operation(const operation* of) {
  static_assert(requires { Op::id; }, "is_operation<Op> requires `static constexpr operation_id id{\"...\"}` in Op");
  return of->id == Op::id;
}

}  // namespace weft

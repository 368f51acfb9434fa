#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <weft/config.hpp>
#include <weft/device/image_layout.hpp>
#include <weft/device/kernel.hpp>
#include <weft/error.hpp>
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

/// An operation applied to operands: all that distinguishes one node of a graph from another.
struct node_def {
  const operation* op = nullptr;
  const void* detail = nullptr;  ///< belongs to the operation: for a fused expression, its compiled loops
  sequence<value> inputs;
  sequence<value_info> outputs;
  sequence<std::int64_t> attributes;
  sequence<std::uint64_t> literals;   ///< numbers in an expression, by their bits
  sequence<std::uint32_t> subgraphs;  ///< graphs of its own, by their numbers among the graph's subgraphs
};

namespace detail {

// A number as `literals` have it.

template <class T>
WEFT_HOST_DEVICE T literal_value(std::uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
std::uint64_t literal_bits(T value) {
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}

}  // namespace detail

/// One attribute of an operation, an integer, a double, a bool or an enumerator, as a node keeps it: in a word.
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

/// The attributes of an operation that has none.
struct no_attributes {};
/// The attributes of an operation that has an axis alone.
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

/// The attributes of an operation, `Op::attributes`, a structure of nothing but `attribute`s.
template <class Op>
using attributes_type = typename detail::attributes_type_of<Op>::type;

/// As a node keeps them.
inline sequence<std::int64_t> words_of(no_attributes) { return {}; }
template <class A>
sequence<std::int64_t> words_of(const A& a) {
  static_assert(std::is_trivially_copyable_v<A> && sizeof(A) % sizeof(std::int64_t) == 0);
  sequence<std::int64_t> words(sizeof(A) / sizeof(std::int64_t));
  __builtin_memcpy(words.data(), static_cast<const void*>(&a), sizeof a);
  return words;
}
/// The attributes of an operation from the node that keeps them.
template <class Op>
typename Op::attributes attributes_of(const node_def& c) {
  typename Op::attributes a;
  __builtin_memcpy(static_cast<void*>(&a), c.attributes.data(), sizeof a);
  return a;
}

/// The use that an operation makes of an operand.
enum class operand_use : unsigned char {
  read,     ///< reads its elements
  extents,  ///< needs its extents alone
  write,    ///< a variable: writes it, and does not read it
  update,   ///< a variable: reads and writes it
};

struct prepared_subgraphs;

/// The context that an operation makes a kernel from: the call with every extent known, and the slots of its buffers in
/// the frame.
struct prepare_context {
  const node_def& node;
  const value_info* inputs;
  const value_info* outputs;
  const std::uint32_t* input_slots;
  const std::uint32_t* output_slots;
  gpu::allocator* memory = nullptr;  ///< where a GPU's kernel takes memory for itself; null: from the device
  image_layout layout = image_layout::channels_last;  ///< the images' among inputs and outputs
  prepared_subgraphs* subgraphs = nullptr;            ///< a node's that has some (ops/subgraphs.hpp); taken over
  const prepare_context* beside = nullptr;            ///< other updates by the same optimizer that the kernel makes too
  std::size_t beside_count = 0;
  const content_version* const* versions = nullptr;  ///< by slot; null where no kernel may keep anything
  bool zeros_arrive = false;  ///< whether an input of an operation that skips zeros may consist mostly of them

  /// The version of an input that is a variable or a constant, so that the kernel may keep what it makes from the
  /// values until the version changes; null of other inputs.
  const content_version* version_of(std::size_t input) const {
    return versions ? versions[input_slots[input]] : nullptr;
  }
};

class gradient_context;

/// The most lists of rows that one update takes: as many gathers there may be of a variable.
inline constexpr std::size_t max_row_lists = 8;

/// The part that an operation can play in a kernel that does more than one.
enum class fusion_kind : unsigned char {
  none,
  expression,  ///< elementwise: can follow a product, in place
  gradient,    ///< an expression's: can follow what computes its upstream, in place of which it writes
  product,     ///< can take in what follows it
  descent,     ///< adds a product to a variable
  assignment,  ///< copies input 1 to a variable: nothing to do where it is computed there
};

/// How an operation, a product for the most part, takes in what follows it.
struct product_fusion {
  std::uint32_t result;                        ///< slot of the final result, or of the variable
  double factor = 1;                           ///< multiplies the product
  bool accumulate = false;                     ///< whether it is added to what is there
  kernel* epilogue = nullptr;                  ///< reads the result and writes it in place; taken over
  const prepare_context* following = nullptr;  ///< the call that the epilogue is made from

  /// The epilogue, if there is one, of a CPU's kernel.
  epilogue_kernel* epilogue_on_cpu() const {
    if (!epilogue) return nullptr;
    if (epilogue_kernel* const k = epilogue->as_epilogue()) return k;
    throw error(error_code::internal, "fusion", "a kernel that cannot follow another one is to follow a product");
  }
};

namespace gpu {

/// Says what a kernel would gain from images whose channels come first.
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
inline WEFT_API kernel* (*copy_into_layout[9])(const prepare_context&, device&) = {};

/// The preparation of a declared operation.
template <class Op>
inline constinit WEFT_API preparation preparation_of{};
/// The preparation of all operations that only move elements.
inline constinit WEFT_API preparation preparation_of_copies{};

}  // namespace gpu

/// Identifies an operation in every module of a process. The address of `operation_of<Op>` does not: each shared
/// library with hidden visibility, and each plugin that dlopen loads, has an object of its own. A 64-bit FNV-1a hash of
/// a name that begins with the library's or the project's, as in `operation_id id{"mine.attention"}`.
class operation_id {
 public:
  constexpr operation_id() = default;
  consteval explicit operation_id(const char* unique_name) : hash_(0xcbf29ce484222325) {
    for (; *unique_name; ++unique_name) hash_ = (hash_ ^ static_cast<unsigned char>(*unique_name)) * 0x100000001b3;
  }
  friend constexpr bool operator==(operation_id, operation_id) = default;

 private:
  std::uint64_t hash_ = 0;  // of an operation without an identifier
};

/// An operation, as the graph and the planner see it: what `declare` makes of its structure. Each module of a process
/// has its own objects, so compare operations with `is_operation<Op>`.
struct operation {
  const char* name;
  /// Set for an operation that `is_operation` recognizes.
  operation_id id = {};
  /// Makes the kernel for a CPU device.
  kernel* (*prepare_cpu)(const prepare_context&) = nullptr;
  /// Makes it for a GPU; null where no GPU can.
  const gpu::preparation* gpu = nullptr;
  /// Lists the boxes of an operation that only moves elements. All kinds of devices are prepared from it
  /// (ops/box_copies.hpp).
  strided_copies (*copies)(const prepare_context&) = nullptr;
  /// Writes the gradient with respect to each input into the context; null where there is none.
  void (*gradient)(gradient_context&) = nullptr;
  /// The expression that `detail` stands for, where it does.
  const fused* (*expression)(const void* detail) = nullptr;
  /// The use that it makes of its operand of this number; null: it reads them all.
  operand_use (*use)(const node_def&, std::size_t operand) = nullptr;
  /// Whether the first output may overwrite an input of equal extents that nobody needs any more.
  bool (*in_place)(const node_def&, const value_info* inputs, const value_info& output) = nullptr;
  /// Whether an output is computed only if somebody reads it. Its address is null otherwise.
  bool (*optional)(const node_def&, std::uint32_t output) = nullptr;
  /// Whether most elements of its results may be zeros; null: they are not. The gradient of an expression passes on
  /// those that arrive.
  bool (*yields_zeros)(const node_def&) = nullptr;
  /// Whether its kernel gains from knowing that an input may consist mostly of zeros (prepare_context::zeros_arrive).
  bool skips_zeros = false;
  /// The memory that an operation with subgraphs needs itself while it runs, in bytes.
  std::size_t (*workspace_bytes)(const prepare_context&) = nullptr;
  /// The first output is the first input under other extents: no kernel, no buffer.
  bool alias = false;
  /// Reads or writes state: never shared with an equal call, and run for its effect.
  bool stateful = false;
  /// Acts on what is seen outside of the step, and may block: such operations of a step run in the order in which they
  /// were written down. Stateful.
  bool ordered = false;
  /// Its first inputs are variables that it writes; the first output is the first of them.
  bool writes = false;
  fusion_kind fusion = fusion_kind::none;
  /// Whether it can take in the gradient of an expression that follows it, which may sum over its rows.
  bool takes_gradients = false;
  /// Whether it is a product that can add itself, times a factor, to a variable.
  bool adds_to_variables = false;
  /// The multiply-adds of a product whose two operands and result have these extents. Null for all other operations.
  double (*multiply_adds)(const shape& left, const shape& right, const shape& result) = nullptr;
  /// How often a loop runs its subgraphs: a number, or one below 0 if that is not known. Null for all other operations.
  std::int64_t (*iterations)(const node_def&) = nullptr;
  /// The attributes in words, where they are not printed as numbers.
  std::string (*attributes_text)(const node_def&) = nullptr;
  /// The layout of an update of a variable by an optimizer (ops/update_view.hpp). Null for everything else.
  const update_layout* update = nullptr;
  /// The operation that adds up the rows of one number alone, which is all that an update by rows needs: set for one
  /// that adds rows of input 0 up where the indices in input 1 say, along the axis in attribute 0. Null for everything
  /// else.
  const operation* row_sums = nullptr;
  /// Whether the sum of many such calls is one call, of their operands stacked along a new first axis; null: it is not.
  bool (*stacks)(const node_def&) = nullptr;
  /// Makes the kernel that does both, for an operation that takes in what follows it.
  kernel* (*prepare_fused)(const prepare_context&, const product_fusion&) = nullptr;
};

namespace detail {

template <class Op>
concept has_attributes = requires { typename Op::attributes; };

template <class Op>
strided_copies copies_declared(const prepare_context&);  // ops/box_copies.hpp
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

/// From a structure to its `operation_of`. The members are static; all but `name` and `prepare` may be left out:
///
///     template <class T>
///     struct cumsum_op {
///       static constexpr const char* name = "cumsum";
///       struct attributes { attribute<std::size_t> axis; attribute<bool> exclusive, reverse; };
///       static kernel* prepare(const prepare_context&, const attributes&);      // for a CPU
///       static void gradient(gradient_context&, const attributes&);
///       static constexpr operand_use use(const node_def&, std::size_t operand);  // without it all are read
///     };
/// and whatever else `operation` has a word for. Kernels for GPUs are put into gpu::preparation_of<Op> (ops/gpu/).
/// Without attributes, `prepare` and `gradient` take the context alone. An operation that only moves elements has
/// `copies` in place of `prepare`. docs/how-to/operations.md has the details.
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
  if constexpr (requires { &Op::stacks; }) o.stacks = Op::stacks;
  if constexpr (requires { &Op::prepare_fused; }) o.prepare_fused = detail::prepare_fused_declared<Op>;
  return o;
}

/// The operation that a structure declares.
template <class Op>
inline constexpr operation operation_of = declare<Op>();

/// Returns true if the operation was declared by `Op`, in this module or in another one. Instances of a template share
/// an identifier; the node's element types distinguish them.
template <class Op>
constexpr bool is_operation(const operation* of) {
  static_assert(requires { Op::id; }, "is_operation<Op> requires `static constexpr operation_id id{\"...\"}` in Op");
  return of->id == Op::id;
}

}  // namespace weft

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/fused_operations.hpp>
#include <weft/ops/node.hpp>
#include <weft/ops/primitives.hpp>
#include <weft/tensor/sequence.hpp>

/// Lowers a typed expression to its skeleton and leaves, to record it in a graph or to evaluate it at once.
namespace weft {
namespace detail {

template <class X>
inline constexpr bool is_literal = false;
template <class T>
inline constexpr bool is_literal<literal<T>> = true;

/// The skeleton of Expr if its first argument has number `A` and its first constant number `C`. The skeleton of a leaf
/// depends only on its element type, so all extents share it.
template <class Expr, int A, int C>
struct lower;
template <class T, int A, int C>
struct lower_argument {
  using type = skeleton::argument<A, T>;
  static constexpr int arguments = A + 1, constants = C;
};
template <class T, int A, int C>
struct lower<literal<T>, A, C> {
  using type = skeleton::constant<C, T>;
  static constexpr int arguments = A, constants = C + 1;
};
template <class Expr, int A, int C>
using lower_operand =
    typename choose<Expr::operations == 0 && !is_literal<Expr>>::template type<lower_argument<value_t<Expr>, A, C>,
                                                                               lower<Expr, A, C>>;
template <class Op, class T, class D, class Dev, class X, int A, int C>
struct lower<expression<Op, T, D, Dev, X>, A, C> {
  using x = lower_operand<X, A, C>;
  using type = skeleton::apply<Op, T, typename x::type>;
  static constexpr int arguments = x::arguments, constants = x::constants;
};
template <class Op, class T, class D, class Dev, class X, class Y, int A, int C>
struct lower<expression<Op, T, D, Dev, X, Y>, A, C> {
  using x = lower_operand<X, A, C>;
  using y = lower_operand<Y, x::arguments, x::constants>;
  using type = skeleton::apply<Op, T, typename x::type, typename y::type>;
  static constexpr int arguments = y::arguments, constants = y::constants;
};
template <class Op, class T, class D, class Dev, class X, class Y, class Z, int A, int C>
struct lower<expression<Op, T, D, Dev, X, Y, Z>, A, C> {
  using x = lower_operand<X, A, C>;
  using y = lower_operand<Y, x::arguments, x::constants>;
  using z = lower_operand<Z, y::arguments, y::constants>;
  using type = skeleton::apply<Op, T, typename x::type, typename y::type, typename z::type>;
  static constexpr int arguments = z::arguments, constants = z::constants;
};

template <class Expr>
using skeleton_of = typename lower_operand<Expr, 0, 0>::type;

/// Calls `leaves.add` with every leaf, in order. Each set of extents instantiates this function, so it adds leaves
/// directly and recurs only for operands that are expressions.
template <class Expr, class Leaves>
void add_leaves(const Expr& e, Leaves& leaves) {
  if constexpr (Expr::operations == 0) {
    leaves.add(e);
  } else {
    if constexpr (decltype(e.a)::operations == 0)
      leaves.add(e.a);
    else
      add_leaves(e.a, leaves);
    if constexpr (requires { e.b; }) {
      if constexpr (decltype(e.b)::operations == 0)
        leaves.add(e.b);
      else
        add_leaves(e.b, leaves);
    }
    if constexpr (requires { e.c; }) {
      if constexpr (decltype(e.c)::operations == 0)
        leaves.add(e.c);
      else
        add_leaves(e.c, leaves);
    }
  }
}

// ---- into a graph ----

/// Collects the leaves of an expression that enters a graph.
struct graph_leaves {
  std::size_t count = 0;
  std::uint64_t* literals_end = literals;
  operand_source operands[device::max_operands];
  std::uint64_t literals[device::max_operands];

  void add(const handle& n) { operands[count++] = source_of(n); }
  template <class X>
    requires(!X::symbolic)
  void add(const X& tensor_or_view) {
    operands[count++] = source_of(tensor_or_view);
  }
  template <class T>
  void add(const literal<T>& number) {
    *literals_end++ = literal_bits(number.value);
  }
};

symbol record_fused(const graph_leaves&, const operation&, const void* detail, dtype, const shape& output,
                    attribute_words);

#if WEFT_DEFINITIONS

WEFT_DECL symbol record_fused(const graph_leaves& e, const operation& op, const void* detail, dtype type,
                              const shape& output, attribute_words attributes) {
  node_def c;
  c.op = &op;
  c.detail = detail;
  c.outputs = {{type, output}};
  c.attributes.append(attributes.words, attributes.count);
  c.literals.append(e.literals, static_cast<std::size_t>(e.literals_end - e.literals));
  return record_operation(static_cast<node_def&&>(c), e.operands, e.count);
}

#endif

constexpr bool has_argument(const skeleton::signature& s, dtype type) {
  for (std::size_t i = 0; i < s.arguments; ++i)
    if (s.types[i] == type) return true;
  return false;
}

/// Returns true if an expression converts between double and another floating-point type.
constexpr bool mixes_precisions(const skeleton::signature& s) {
  const auto has = [&](dtype type) { return ((s.elements >> static_cast<unsigned>(type)) & 1) != 0; };
  return has(dtype::float64) && (has(dtype::float32) || has(dtype::float16) || has(dtype::bfloat16));
}

/// Registers the primitives that gradients of float and double need.
template <class T, class Compiler = gpu::this_compiler>
void use_gradient_primitives(op_builder& where) {
  if constexpr (std::is_floating_point_v<T>) {
    gpu::compiled<Compiler>::template gradient_primitives<T>();
    where.use(gradient_primitives<T>);
  }
}
template <class T, class Compiler = gpu::this_compiler>
void use_primitives(op_builder& where) {
  if constexpr (std::is_floating_point_v<T>) {
    gpu::compiled<Compiler>::template primitives<T>();
    where.use(primitives<T>);
  }
}

template <class T, class Compiler>
void use_storage_type(op_builder& where) {
  gpu::compiled<Compiler>::template storage_primitives<T>();
  where.use(storage_primitives<T>);
}

template <class Compiler, class Expr>
symbol record_expression(const Expr& e, const operation& op, const void* detail, dtype type, const shape& output,
                         attribute_words attributes = {}) {
  using shape_of = lower_operand<Expr, 0, 0>;
  static_assert(shape_of::arguments < static_cast<int>(device::max_operands) - 1 &&
                    shape_of::constants < static_cast<int>(device::max_operands),
                "an expression has too many operands: name a part of it with let()");
  graph_leaves leaves;
  add_leaves(e, leaves);
  const symbol result = record_fused(leaves, op, detail, type, output, attributes);
  // All gradients of half and bfloat16 pass through an expression; the values to differentiate are float or double.
  constexpr const skeleton::signature& s = signature_of<typename shape_of::type>;
  if constexpr (has_argument(s, dtype::float16)) use_storage_type<half, Compiler>(*result.builder());
  if constexpr (has_argument(s, dtype::bfloat16)) use_storage_type<bfloat16, Compiler>(*result.builder());
  // Gradients then pass through values of a type that neither the loss nor its variables have.
  if constexpr (mixes_precisions(s)) {
    use_primitives<float, Compiler>(*result.builder());
    use_primitives<double, Compiler>(*result.builder());
  }
  return result;
}

/// Records an expression over leaves `node<T>` of any extents, with the result's extents given. Extents are not part of
/// a type, so all callers share the compiled code.
template <class Expr, class Compiler = gpu::this_compiler>
symbol record_untyped(const Expr& e, const shape& extents) {
  using skeleton = skeleton_of<Expr>;
  gpu::compiled<Compiler>::template map<skeleton>();
  return record_expression<Compiler>(e, operation_of<elementwise_op>, &differentiated<skeleton>,
                                     dtype_of<value_t<Expr>>, extents);
}

// ---- immediate evaluation ----

/// The operands of an expression over tensors.
struct tensor_leaves {
  const void* data[device::max_operands];
  const shape* extents[device::max_operands];
  const char* const* names[device::max_operands];
  dtype types[device::max_operands];
  std::size_t count = 0, bytes = 0;  // bytes: of one element of each operand
  std::uint64_t literals[device::max_operands];
  std::uint64_t* literals_end = literals;

  template <class Expr>
  explicit tensor_leaves(const Expr& e) {
    add_leaves(e, *this);
  }
  template <class T>
  void add(const literal<T>& number) {
    *literals_end++ = literal_bits(number.value);
  }
  template <class X>
  void add(const X& tensor_or_view) {
    data[count] = tensor_or_view.data();
    extents[count] = &tensor_or_view.extents();
    names[count] = dims_t<X>::names;
    types[count++] = dtype_of<value_t<X>>;
    bytes += sizeof(value_t<X>);
  }
};

shape broadcast_leaves(const tensor_leaves&, const fused&);
/// Divides the work like a step, so that the bits are the same.
void loop_over(const tensor_leaves&, bool memory_bound, const shape& space, const device::operand& out, void* to,
               std::size_t results, device::reduce_op, const device::arithmetic*, device::block_function map,
               device::block_function reduce);

/// The space over which a loop iterates. Throws invalid_argument if extents of one name differ.
struct iteration_space {
  bool plain;  // all operands have equal extents and fit into the caches, so one call suffices
  shape extents;

  iteration_space(const tensor_leaves& x, const fused& f) : plain(true), extents(*x.extents[0]) {
    for (std::size_t k = 1; k < x.count; ++k) plain = plain && *x.extents[k] == extents;
    if (!plain) extents = broadcast_leaves(x, f);
    plain = plain && !(f.signature.memory_bound && device::exceeds_caches(2 * x.bytes * extents.elements()));
  }
};

void eager_map(const fused&, const tensor_leaves&, const iteration_space&, dtype, void* to);

/// Writes results to elements that operands may view.
void eager_assign(const fused&, const tensor_leaves&, const iteration_space&, dtype, void* to);

#if WEFT_DEFINITIONS

WEFT_DECL void eager_map(const fused& f, const tensor_leaves& x, const iteration_space& space, dtype type, void* to) {
  const shape& extents = space.extents;
  if (space.plain) return version(f.map)(x.data, &to, extents.elements(), x.literals);
  loop_over(x, f.signature.memory_bound, extents, device::broadcast_operand(type, extents, extents), to, 0,
            device::reduce_op::store, nullptr, version(f.map), nullptr);
}

WEFT_COLD_BEGIN

WEFT_DECL void eager_assign(const fused& f, const tensor_leaves& x, const iteration_space& space, dtype type,
                            void* to) {
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const std::size_t bytes = space.extents.elements() * size_of(type);
  bool overlaps = false;  // an element can be written in place if it is read only at its own position
  for (std::size_t k = 0; k < x.count; ++k) {
    const std::size_t read = x.extents[k]->elements() * size_of(x.types[k]);
    const bool apart = address(x.data[k]) + read <= address(to) || address(to) + bytes <= address(x.data[k]);
    const bool in_place = x.data[k] == to && x.types[k] == type && *x.extents[k] == space.extents;
    overlaps = overlaps || !(apart || in_place);
  }
  if (!overlaps) return eager_map(f, x, space, type, to);
  const storage results(bytes);
  eager_map(f, x, space, type, results.data());
  __builtin_memcpy(to, results.data(), bytes);
}

WEFT_DECL shape broadcast_leaves(const tensor_leaves& x, const fused& f) {
  value_info infos[device::max_operands];
  for (std::size_t k = 0; k < x.count; ++k) infos[k] = {x.types[k], *x.extents[k]};
  check_names(infos, x.names, x.count, [&] { return skeleton::print(f.text); });
  return broadcast_space(infos, x.count);
}

WEFT_DECL void loop_over(const tensor_leaves& x, bool memory_bound, const shape& space, const device::operand& out,
                         void* to, std::size_t results, device::reduce_op how, const device::arithmetic* arithmetic,
                         device::block_function map, device::block_function reduce) {
  device::operand in[device::max_operands];
  for (std::size_t k = 0; k < x.count; ++k) in[k] = device::broadcast_operand(x.types[k], *x.extents[k], space);
  const device::loop body(space, x.count, in, 1, &out, &how, &arithmetic, map, reduce, memory_bound);
  if (how == device::reduce_op::store) return body.run(x.data, &to, x.literals);
  const std::size_t chunks = body.chunks(), scratch = body.scratch_bytes();
  const bool apart = chunks != 1 && body.chunks_share_output(0);
  const storage memory(scratch + (apart ? results * size_of(out.type) : 0));
  for (std::size_t c = 0; c < chunks; ++c) {
    void* into = apart ? memory.data() + scratch : to;
    if (apart) arithmetic->fill_identity(how, into, results);
    body.run(x.data, &into, x.literals, c, chunks, memory.data());
    if (apart) arithmetic->merge_tile(how, into, to, 1, results, 0, 1);
  }
}

WEFT_COLD_END

#endif

}  // namespace detail

/// Records the expression as a node of its graph, computed once for all uses. Returns a leaf unchanged.
template <Expression Expr, class Compiler = gpu::this_compiler>
  requires(Expr::symbolic)
auto let(const Expr& e) {
  if constexpr (Expr::operations == 0) {
    return detail::make_node<value_t<Expr>, dims_t<Expr>, device_t<Expr>>(e.erased());
  } else {
    gpu::compiled<Compiler>::template map<detail::skeleton_of<Expr>>();
    return detail::make_node<value_t<Expr>, dims_t<Expr>, device_t<Expr>>(detail::record_expression<Compiler>(
        e, operation_of<detail::elementwise_op>, &differentiated<detail::skeleton_of<Expr>>, dtype_of<value_t<Expr>>,
        dims_t<Expr>::spec));
  }
}

/// Records the expression as a node with a name, for dumps, messages and `explain`. A node that already has a name,
/// such as a variable, keeps it; a free identity of the node (tf.identity) gets the new name.
template <Expression Expr>
  requires(Expr::symbolic)
auto let(const Expr& e, const char* name) {
  const symbol s = let(e).erased();
  return detail::node_of<Expr>({s.builder(), s.builder()->with_name(s.id(), name)});
}

/// Evaluates an expression over tensors into `to`, in one pass. Throws invalid_argument if run-time extents do not fit.
template <Expression Expr, class T, class D, class Dev>
  requires(!Expr::symbolic)
void evaluate(const Expr& e, tensor<T, D, Dev>& to) {
  static_assert(correct<assignment_mistake<value_t<Expr>, dims_t<Expr>, T, D>>,
                "evaluate: the expression must have the destination's extents and elements");
  const detail::tensor_leaves leaves(e);
  const fused& f = evaluated<detail::skeleton_of<Expr>>;
  const detail::iteration_space space(leaves, f);
  // Operands share ownership of their storage, so a tensor on its own right-hand side is not written in place.
  if (to.can_hold(space.extents)) return detail::eager_assign(f, leaves, space, dtype_of<T>, to.data());
  auto made = detail::make_tensor<T, D, Dev>(space.extents, uninitialized{});
  detail::eager_map(f, leaves, space, dtype_of<T>, made.data());
  to = made;
}

/// Evaluates an expression over tensors into the elements of a view, in one pass. Throws invalid_argument if run-time
/// extents differ from the view's.
template <Expression Expr, class T, class D>
  requires(!Expr::symbolic)
void evaluate(const Expr& e, const tensor_view<T, D>& to) {
  static_assert(correct<assignment_mistake<value_t<Expr>, dims_t<Expr>, T, D>>,
                "evaluate: the expression must have the destination's extents and elements");
  const detail::tensor_leaves leaves(e);
  const fused& f = evaluated<detail::skeleton_of<Expr>>;
  const detail::iteration_space space(leaves, f);
  detail::check_same_extents("evaluate", space.extents, to.extents());
  detail::eager_assign(f, leaves, space, dtype_of<T>, to.data());
}

/// Evaluates an expression over tensors.
template <Expression Expr>
  requires(!Expr::symbolic)
auto eval(const Expr& e) {
  if constexpr (detail::is_view<Expr>) {
    return detail::make_tensor<value_t<Expr>, dims_t<Expr>, cpu>(e);
  } else if constexpr (Expr::operations == 0) {
    return e;
  } else {
    const detail::tensor_leaves leaves(e);
    const fused& f = evaluated<detail::skeleton_of<Expr>>;
    const detail::iteration_space space(leaves, f);
    auto result = detail::make_tensor<value_t<Expr>, dims_t<Expr>, device_t<Expr>>(space.extents, uninitialized{});
    detail::eager_map(f, leaves, space, dtype_of<value_t<Expr>>, result.data());
    return result;
  }
}

/// Converts an expression to an operand: a node, or a tensor. Returns nodes and tensors unchanged.
template <Expression Expr>
auto materialize(const Expr& e) {
  if constexpr (Expr::symbolic)
    return let(e);
  else
    return eval(e);
}

namespace detail {

/// Returns the elements of a node or a tensor with other extents, which have the same product and names of x.
template <class To, class X>
auto under_extents(const X& x, const shape& extents) {
  if constexpr (X::symbolic) {
    remember_formulas<To>(*x.erased().builder());
    return make_node<value_t<X>, To, device_t<X>>(weft::reshape(x.erased(), To::spec));
  } else {
    return make_tensor<value_t<X>, To, device_t<X>>(extents, x);
  }
}

/// Returns the elements under the extents of the axes `Pick::axis(i)`, for i < `Count`, and 1 for other axes.
template <class Pick, std::size_t Count, class Expr>
auto under_axes(const Expr& e) {
  const auto x = materialize(e);
  return under_extents<select<dims_t<Expr>, Count, Pick>>(x, selected<Pick>(Count, extents_of(x)));
}

/// Returns the elements without the axes in `Mask`, whose extents are 1.
template <std::uint32_t Mask, class Expr>
auto without(const Expr& e) {
  return under_axes<pick_kept<Mask>, without_axes<dims_t<Expr>, Mask>::rank>(e);
}

}  // namespace detail
}  // namespace weft

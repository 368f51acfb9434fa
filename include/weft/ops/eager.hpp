// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/node.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>
#include <weft/tensor/tensor.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

WEFT_COLD_BEGIN
namespace weft {

/// One of several results of an operation.
template <class T, class Dims>
struct typed_result {
  shape extents;  ///< over tensors; a graph takes the extents of the type
};

namespace detail {

/// An operand before it enters a graph: a node, or a tensor that becomes a constant. Refers to the caller's objects.
struct operand_source {
  const handle* node;  ///< null for a tensor
  const void* data;
  const shape* declared;
  const shape* extents;
  dtype type;
};

inline operand_source source_of(const handle& node) { return {&node, nullptr, nullptr, nullptr, {}}; }
template <class X>
  requires(!X::symbolic)
operand_source source_of(const X& tensor_or_view) {
  return {nullptr, tensor_or_view.data(), &dims_t<X>::spec, &tensor_or_view.extents(), dtype_of<value_t<X>>};
}

/// The attributes of a call as words.
struct attribute_words {
  const std::int64_t* words = nullptr;
  std::size_t count = 0;

  attribute_words() = default;
  attribute_words(const sequence<std::int64_t>& s) : words(s.data()), count(s.size()) {}
  attribute_words(no_attributes) {}
  template <class A>
  explicit attribute_words(const A& a)
      : words(reinterpret_cast<const std::int64_t*>(&a)), count(sizeof(A) / sizeof(std::int64_t)) {
    static_assert(std::is_trivially_copyable_v<A> && sizeof(A) % sizeof(std::int64_t) == 0);
  }
};

/// Records a call whose operands have not entered the graph yet. Tensors become constants of the graph that contains
/// the other operands.
symbol record_operation(node_def, const operand_source* operands, std::size_t count);

// Every shape instantiates the callers, so this function takes references to keep its calls small.
symbol record_operation(const operation&, dtype, const shape& output, attribute_words, const operand_source* operands,
                        std::size_t count);

/// Runs an operation over tensors on this thread, without a graph. Throws invalid_argument if extents of one name
/// differ. `buffers`: first the operands', then the results'.
void run_eagerly(const operation&, attribute_words attributes, const value_info* inputs,
                 const char* const* const* names, std::size_t count, const value_info* outputs, std::size_t results,
                 std::byte* const* buffers);

/// Throws invalid_argument, naming the `operation()`, if operands have different extents of one name. Over tensors, no
/// session unifies these; the compiler has checked all others.
template <class F>
void check_names(const value_info* operands, const char* const* const* names, std::size_t count, F operation) {
  constexpr std::size_t most = 128;
  const char* known[most];
  std::int64_t extents[most];
  std::size_t first[most], end = 0;  // first: the operand that has the name
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t i = 0; i < operands[k].extents.rank; ++i) {
      const char* const name = names[k][i];
      const std::int64_t extent = operands[k].extents[i];
      if (!name) continue;
      std::size_t at = 0;
      while (at < end && __builtin_strcmp(known[at], name) != 0) ++at;
      if (at == most) continue;
      if (at == end) known[at] = name, extents[at] = extent, first[at] = k, ++end;
      if (extents[at] != extent)
        throw error(error_code::invalid_argument, operation(),
                    {"the extent ", name, " is ", extents[at], " in ", to_string(operands[first[at]].extents), " and ",
                     extent, " in ", to_string(operands[k].extents)});
    }
}

#if WEFT_DEFINITIONS

WEFT_DECL symbol record_operation(node_def c, const operand_source* operands, std::size_t count) {
  op_builder* where = nullptr;
  value first{};
  for (std::size_t i = 0; i < count; ++i) {
    if (!operands[i].node) continue;
    const symbol operand = operands[i].node->erased();
    if (!where) {
      where = operand.builder();
      first = operand.id();
    } else if (operand.builder() != where) {
      throw error(error_code::invalid_argument, c.op->name,
                  {"operands belong to different graphs: ", where->description(first), " and ",
                   operand.builder()->description(operand.id()),
                   "; build both in one graph; a value of the body of a loop or branch leaves it as a result"});
    }
  }
  for (std::size_t i = 0; i < count; ++i)
    c.inputs.push_back(
        operands[i].node
            ? operands[i].node->id()
            : where->record_constant(operands[i].data, {operands[i].type, *operands[i].declared}, *operands[i].extents)
                  .id());
  return where->record(static_cast<node_def&&>(c));
}

WEFT_DECL symbol record_operation(const operation& op, dtype type, const shape& output, attribute_words attributes,
                                  const operand_source* operands, std::size_t count) {
  node_def c;
  c.op = &op;
  c.outputs = {{type, output}};
  c.attributes.append(attributes.words, attributes.count);
  return record_operation(static_cast<node_def&&>(c), operands, count);
}

WEFT_DECL void run_eagerly(const operation& op, attribute_words attributes, const value_info* inputs,
                           const char* const* const* names, std::size_t count, const value_info* outputs,
                           std::size_t results, std::byte* const* buffers) {
  check_names(inputs, names, count, [&] { return op.name; });
  node_def c;
  c.op = &op;
  c.attributes.append(attributes.words, attributes.count);
  c.inputs.resize(count);
  c.outputs.append(outputs, results);
  sequence<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < count + results; ++i) slots.push_back(i);
  kernel* k = op.prepare_cpu({c, inputs, outputs, slots.data(), slots.data() + count});
  struct release {
    kernel* k;
    ~release() { delete k; }
  } guard{k};
  thread_pool alone(1);
  const std::size_t workspace = k->workspace_bytes();
  const storage memory = workspace ? storage(workspace) : storage();
  k->run({buffers, &alone, nullptr, memory.data()});
}

#endif

/// Throws invalid_argument if the tensor was moved from, which its extents show unless a static extent is 0. A result
/// without these axes would hide the error.
template <class D>
void check_moved_from(const char* what, const shape& extents) {
  if (extents.elements() == 0) check_fits(what, D::spec, D::names, extents);
}

/// Records an operation if an operand is a node; over tensors, runs it at once.
template <class T, class D, class Dev, class... Operands>
auto record_or_run(const operation& op, const shape& extents, attribute_words attributes, const Operands&... operands) {
  if constexpr ((Operands::symbolic || ...)) {
    const operand_source sources[] = {source_of(operands)...};
    const symbol result = record_operation(op, dtype_of<T>, D::spec, attributes, sources, sizeof...(Operands));
    if constexpr (D::is_computed) remember_formulas<D>(*result.builder());
    return make_node<T, D, Dev>(result);
  } else {
    const value_info inputs[] = {value_info{dtype_of<value_t<Operands>>, operands.extents()}...};
    const char* const* const names[] = {dims_t<Operands>::names...};
    (check_moved_from<dims_t<Operands>>(op.name, operands.extents()), ...);
    auto result = make_tensor<T, D, Dev>(extents, uninitialized{});
    std::byte* const buffers[] = {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(operands.data()))...,
                                  reinterpret_cast<std::byte*>(result.data())};
    const value_info output{dtype_of<T>, extents};
    run_eagerly(op, attributes, inputs, names, sizeof...(Operands), &output, 1, buffers);
    return result;
  }
}

/// Overload for several results, returned as a tuple.
template <class Dev, class... T, class... D, std::size_t... Index, class... Operands>
auto record_or_run(const operation& op, const std::tuple<typed_result<T, D>...>& results, indices<Index...>,
                   attribute_words attributes, const Operands&... operands) {
  constexpr bool symbolic = (Operands::symbolic || ...);
  const value_info outputs[] = {value_info{dtype_of<T>, symbolic ? D::spec : std::get<Index>(results).extents}...};
  if constexpr (symbolic) {
    const operand_source sources[] = {source_of(operands)...};
    node_def c;
    c.op = &op;
    c.outputs.append(outputs, sizeof...(T));
    c.attributes.append(attributes.words, attributes.count);
    const symbol first = record_operation(static_cast<node_def&&>(c), sources, sizeof...(Operands));
    (remember_formulas<D>(*first.builder()), ...);
    return std::tuple{make_node<T, D, Dev>(first.output(Index))...};
  } else {
    const value_info inputs[] = {value_info{dtype_of<value_t<Operands>>, operands.extents()}...};
    const char* const* const names[] = {dims_t<Operands>::names...};
    (check_moved_from<dims_t<Operands>>(op.name, operands.extents()), ...);
    std::tuple made{make_tensor<T, D, Dev>(outputs[Index].extents, uninitialized{})...};
    std::byte* const buffers[] = {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(operands.data()))...,
                                  reinterpret_cast<std::byte*>(std::get<Index>(made).data())...};
    run_eagerly(op, attributes, inputs, names, sizeof...(Operands), outputs, sizeof...(T), buffers);
    return made;
  }
}

}  // namespace detail

/// Returns the extents of an operand: the type's for a node, the run-time extents of a tensor.
template <class Expr>
const shape& extents_of(const Expr& e) {
  if constexpr (Expr::symbolic)
    return dims_t<Expr>::spec;
  else
    return e.extents();
}

/// Returns the extents with another extent along one axis.
constexpr shape resized(shape extents, std::size_t axis, std::int64_t extent) {
  extents[axis] = extent;
  return extents;
}

namespace gpu {
template <class Op, class T>
struct kernels_of_call;  // ops/gpu/compile.hpp
}

/// Calls a declared operation with one output: records it if an operand is a node, and runs it at once over tensors.
/// `call_operation<slice_op, T, To>(extents, {axis, begin}, x)`. `extents` are the result's over tensors; a graph
/// ignores them and uses `To`. Pass expressions through `materialize` first. Compiles the operation's GPU kernels for
/// the element type in its name or, if it moves elements, in its result.
template <class Op, class T, class Dims, class First, class... Rest>
auto call_operation(const shape& extents, const attributes_type<Op>& a, const First& first, const Rest&... rest) {
  if constexpr ((First::symbolic || ... || Rest::symbolic)) gpu::kernels_of_call<Op, T>::compile();
  return detail::record_or_run<T, Dims, device_t<First>>(operation_of<Op>, extents, detail::attribute_words(a), first,
                                                         rest...);
}

/// Overload for several outputs, returned as a tuple:
/// `auto [values, indices] = call_operation<sort_op<T>>(std::tuple{typed_result<T, To>{extents}, ...}, {axis, order},
/// x)`.
template <class Op, class... Results, class First, class... Rest>
auto call_operation(const std::tuple<Results...>& results, const attributes_type<Op>& a, const First& first,
                    const Rest&... rest) {
  if constexpr ((First::symbolic || ... || Rest::symbolic)) gpu::kernels_of_call<Op, value_t<First>>::compile();
  return detail::record_or_run<device_t<First>>(operation_of<Op>, results,
                                                typename detail::make_indices<sizeof...(Results)>::type(),
                                                detail::attribute_words(a), first, rest...);
}

}  // namespace weft

WEFT_COLD_END

#pragma pop_macro("slots")

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/train/changed_gradients.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Gradients that are summed over several steps, so that an optimizer receives their mean.
template <class Gradients>
struct accumulated_gradients {
  effect add;      ///< adds a micro-batch's gradients
  Gradients mean;  ///< of all examples added since the last update; zeros if there are none
};

/// Splits a batch that exceeds memory into micro-batches. A step that runs `add` costs a gradient and one pass over it,
/// and changes neither variables nor slots. The training step of `mean` updates them and resets the sums:
///
///     auto sums = accumulate_gradients(compute_gradients(loss, w, b));
///     auto train = apply_gradients(adam{}, clip_by_global_norm(sums.mean, 1.0), global_step(g));
///     for (const auto& batch : batches) {
///       s.run(fetch(sums.add), with(images, batch.images), with(labels, batch.labels));
///       if (++micro_batches % 8 == 0) s.run(fetch(train));
///     }
///
/// If the loss is a mean, this equals the update of the whole batch. Micro-batches are weighted by their sizes if the
/// leading extents of the gradients' inputs have one common name, such as `dyn<"batch">`, and equally otherwise. Each
/// sum is a variable of variable_kind::local next to its own, `w/gradient_sum`. In a replicated session each worker has
/// its own sums and contributes its mean to the update. Updates that add_update noted for the loss run with `add`. A
/// sparse gradient stays sparse: its mean has the rows that any micro-batch has used.
template <class Gradients>
[[nodiscard]] auto accumulate_gradients(const Gradients& gradients);

/// Input: the number of times each row was used. Output: for each row that was used, its own index; for the others, the
/// first used index, or 0 if there is none.
struct taken_rows_op {
  static constexpr const char* name = "taken_rows";
  static kernel* prepare(const prepare_context&);
};

/// Inputs: a value whose leading extent is the size of a micro-batch, and the size of the sum's first micro-batch (0
/// before it). Outputs, as double: the learning rate with which gradient descent adds the gradient times size / first
/// size; and the first size. With equal sizes, all weights are exactly 1 in any type.
struct micro_batch_op {
  static constexpr const char* name = "micro_batch";
  static kernel* prepare(const prepare_context&);
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::extents : operand_use::read;
  }
};

namespace detail {

class micro_batch_kernel final : public kernel {
 public:
  explicit micro_batch_kernel(const prepare_context& p)
      : size_(static_cast<double>(p.inputs[0].extents[0])),
        first_(p.input_slots[1]),
        rate_(p.output_slots[0]),
        new_first_(p.output_slots[1]) {}
  void run(const kernel_context& f) override {
    const double before = *reinterpret_cast<const double*>(f.buffers[first_]), first = before > 0 ? before : size_;
    *reinterpret_cast<double*>(f.buffers[rate_]) = first > 0 ? -size_ / first : 0;
    *reinterpret_cast<double*>(f.buffers[new_first_]) = first;
  }
  std::string describe() const override { return str_cat({"micro_batch of ", static_cast<std::int64_t>(size_)}); }

 private:
  double size_;
  std::uint32_t first_, rate_, new_first_;
};

class taken_rows_kernel final : public kernel {
 public:
  explicit taken_rows_kernel(const prepare_context& p)
      : wide_(p.inputs[0].type == dtype::float64),
        counts_(p.input_slots[0]),
        numbers_(p.output_slots[0]),
        rows_(p.inputs[0].extents.elements()) {}
  void run(const kernel_context& f) override {
    wide_ ? find<double>(f.buffers[counts_], f.buffers[numbers_])
          : find<float>(f.buffers[counts_], f.buffers[numbers_]);
  }
  std::string describe() const override { return str_cat({"taken_rows of ", rows_}); }

 private:
  template <class T>
  void find(const std::byte* from, std::byte* to) const {
    const T* const counts = reinterpret_cast<const T*>(from);
    std::int64_t* const numbers = reinterpret_cast<std::int64_t*>(to);
    std::size_t first = 0;
    while (first < rows_ && !(counts[first] > 0)) ++first;
    if (first == rows_) first = 0;
    for (std::size_t r = 0; r < rows_; ++r) numbers[r] = static_cast<std::int64_t>(counts[r] > 0 ? r : first);
  }

  bool wide_;
  std::uint32_t counts_, numbers_;
  std::size_t rows_;
};

}  // namespace detail

inline kernel* micro_batch_op::prepare(const prepare_context& p) { return new detail::micro_batch_kernel(p); }
inline kernel* taken_rows_op::prepare(const prepare_context& p) { return new detail::taken_rows_kernel(p); }

namespace detail {

/// Gradient descent with rate -1 adds the gradient: a matrix product in place, or only the rows of a sparse gradient.
inline constexpr gradient_descent adding{-1.0};

inline symbol record_sum_variable(graph& g, symbol beside, const char* name, const value_info& info) {
  const graph::device_scope there(g, place_of_variable{g[beside.id().node].device});
  node_def c;
  c.op = &operation_of<variable_op>;
  c.outputs = {info};
  c.attributes = words_of(variable_op::attributes{variable_kind::local});
  const std::uint32_t node = g.add(static_cast<node_def&&>(c), str_cat({g[beside.id().node].name, "/", name}));
  g.initialize(node, {initializer::kind_type::constant, 0, 0, {}});
  return {&g, {node, 0}};
}

/// Returns an input of the gradients, such as a placeholder, whose leading extent is the batch size, if all named
/// leading extents of inputs are equal. Otherwise returns a number.
inline symbol find_batch(graph& g, const symbol_gradients& gradients) {
  sequence<bool> seen;
  seen.assign(g.size(), false);
  sequence<std::uint32_t> left;
  for (const auto& each : gradients) left.push_back(each.gradient.id().node);
  symbol found;
  while (!left.empty()) {
    const std::uint32_t n = left.back();
    left.pop_back();
    if (seen[n]) continue;
    seen[n] = true;
    const node_def& c = g[n].def;
    for (const value& in : c.inputs) left.push_back(in.node);
    if (!c.inputs.empty()) continue;
    for (std::uint32_t k = 0; k < c.outputs.size(); ++k) {
      const shape& extents = c.outputs[k].extents;
      if (extents.rank == 0 || extents[0] >= 0) continue;
      if (!found.is_number() && found.extents()[0] != extents[0]) return {};
      found = {&g, {n, k}};
    }
  }
  return found;
}

/// Returns the first sum of rows in a sparse gradient.
inline std::uint32_t first_rows(const graph& g, symbol gradient) {
  std::uint32_t n = gradient.id().node;
  while (!g[n].def.op->row_sums) n = g[n].def.inputs[0].node;
  return n;
}

struct accumulation {
  effect add;
  symbol_gradients mean;
};
/// `adds`: for each gradient, the operation of its type that adds to a sum.
inline accumulation record_accumulation(symbol_gradients all, const sequence<const operation*>& adds) {
  graph& g = graph_of(all[0].variable);
  sequence<symbol> variables, losses, members, resets;
  gradient_descent weighted = adding;
  for (const auto& each : all) {
    variables.push_back(each.variable);
    append_once(losses, each.loss);
  }
  check_trained(g, "accumulate_gradients", variables);
  if (const symbol batch = find_batch(g, all); !batch.is_number()) {
    const value_info number{dtype::float64, shape()};
    const graph::device_scope there(g, cpu{});  // the operation has no GPU kernel, so ignore the caller's scope
    const symbol first = record_sum_variable(g, all[0].variable, "first_micro_batch", number);
    const symbol operands[] = {batch, first};
    const symbol rate = record_call(operation_of<micro_batch_op>, operands, 2, {number, number}, {});
    weighted.learning_rate = hyperparameter(node<double>(rate));
    members.push_back(record_call(operation_of<assign_op>, {first, rate.output(1)}, number));
    resets.push_back(record_call(operation_of<assign_op>, {first, fill(g, number, 0)}, number));
  }
  const update_definition how{adding.name, nullptr, 0, &weighted.learning_rate, 1, true, &weighted, 0, nullptr};
  const auto sum_up = [&](symbol beside, const char* name, symbol gradient, const operation* add) {
    const graph::device_scope there(g, place_of_variable{g[beside.id().node].device});
    const symbol sum = record_sum_variable(g, beside, name, gradient.info());
    members.push_back(record_update(g, how, {{gradient, sum}, add}));
    resets.push_back(record_call(operation_of<assign_op>, {sum, fill(g, sum.info(), 0)}, sum.info()));
    return sum;
  };
  symbol count;  // the sum of the micro-batches' weights
  for (std::size_t i = 0; i < all.size(); ++i) {
    const symbol gradient = all[i].gradient, variable = all[i].variable;
    const dtype type = variable.type();
    if (count.is_number()) count = sum_up(variable, "micro_batches", as_scalar(g, 1, type), adds[i]);
    const symbol sum = sum_up(variable, "gradient_sum", gradient, adds[i]);
    const symbol mean = sum / math::convert(math::maximum(count, 1), type);
    all[i] = {mean, variable, symbol(), symbol()};
    g.note_gradient(mean.id(), variable.id().node);
    sequence<value> lists;
    const operation* sums = nullptr;
    if (!find_rows(g, gradient.id(), lists, sums)) continue;
    const value_info of_rows{type, shape(variable.extents()[0])};
    sequence<symbol> ones;
    for (std::size_t k = 0; k < lists.size(); k += 2) ones.push_back(fill(g, {type, g.info(lists[k + 1]).extents}, 1));
    const symbol* next = ones.begin();
    const symbol taken = sum_up(variable, "taken_rows", replace_rows(g, gradient, next, of_rows), adds[i]);
    node_def c = g[first_rows(g, gradient)].def;
    c.inputs = {mean.id(), record_call(operation_of<taken_rows_op>, {taken}, {dtype::int64, of_rows.extents}).id()};
    all[i].gradient = g.record(static_cast<node_def&&>(c));
    g.note_whole(all[i].gradient.id(), mean.id());
  }
  append_noted(g, losses, members);
  const effect add = record_group(g, members, "accumulate_gradients");
  const symbol reset = record_group(g, resets, "reset_gradient_sums").erased();
  for (auto& each : all) each.beside = reset;
  return {add, static_cast<symbol_gradients&&>(all)};
}

template <class Gradient, class V>
void append_adds(const variable_gradient<Gradient, V>&, sequence<const operation*>& adds) {
  adds.push_back(update_of<gradient_descent, value_t<V>>());
}
template <class... Pair>
void append_adds(const std::tuple<Pair...>& pairs, sequence<const operation*>& adds) {
  std::apply([&](const auto&... pair) { (append_adds(pair, adds), ...); }, pairs);
}
template <class T>
void append_adds(const variable_gradients<T>& list, sequence<const operation*>& adds) {
  adds.assign(list.size(), update_of<gradient_descent, T>());
}

}  // namespace detail

template <class Gradients>
auto accumulate_gradients(const Gradients& gradients) {
  static_assert(correct<changed_value_is_not_a_gradient<Gradients>>, WEFT_NEEDS_OF_CHANGE("accumulate_gradients"));
  if constexpr (correct<changed_value_is_not_a_gradient<Gradients>>) {
    sequence<const operation*> adds;
    detail::append_adds(gradients, adds);
    const detail::accumulation made =
        detail::record_accumulation(detail::symbols_of("accumulate_gradients", gradients), adds);
    auto mean = detail::changed(gradients, made.mean);
    return accumulated_gradients<decltype(mean)>{made.add, mean};
  } else {
    return accumulated_gradients<Gradients>{effect(symbol()), gradients};
  }
}

}  // namespace weft
WEFT_COLD_END

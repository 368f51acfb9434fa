// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/bounded.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/in_graph.hpp>
#include <weft/ops/index/searchsorted.hpp>
#include <weft/ops/reduce/scan.hpp>

/// Repetition of rows by counts; `repeat<axis, count>(x)` is in ops/arrays/stack.hpp. Not part of <weft/weft.hpp>,
/// since for GPUs it includes CUB.
namespace weft {

/// There must be one count for each row.
template <class Dims, class Counts>
struct counts_are_not_those_of_rows
    : mistake<(Dims::rank == 0 || Counts::rank != 1 || Counts::spec[0] != Dims::spec[0])> {};

/// In a graph, the bound of the number of rows must be given.
template <auto Bound, bool Symbolic>
struct bound_is_missing : mistake<(Symbolic && detail::code(Bound) == detail::code(dyn<"count">))> {};

/// Repeats row i counts[i] times (tf.repeat, torch.repeat_interleave): for x `[n, ...]` and counts `[n]`, std::int32_t
/// or std::int64_t and not negative. Over tensors, the result has as many rows as all counts together. In a graph,
/// `repeat<Bound>(x, counts)` is a bounded value (ops/bounded.hpp) of at most `Bound` rows, a number or a name; a fetch
/// throws out_of_range if there are more. If the bound is the exact number, `.values` is the result. The gradient of a
/// row is the sum over its copies.
template <auto Bound = dyn<"count">, auto Count = dyn<"count">, Expression Expr, Expression Counts>
[[nodiscard]] auto repeat(const Expr& e, const Counts& counts) {
  using D = dims_t<Expr>;
  using T = value_t<Expr>;
  constexpr bool symbolic = Expr::symbolic || Counts::symbolic;
  using mistake = first_mistake<row_indices_not_integers<value_t<Counts>>, extents_are_not_valid<dims<Bound>>,
                                counts_are_not_those_of_rows<D, dims_t<Counts>>, bound_is_missing<Bound, symbolic>>;
  static_assert(correct<mistake>,
                "repeat(x, counts): needs an integer for each row; in a graph, also the largest number of "
                "rows of the result: repeat<64>(x, counts)");
  if constexpr (!correct<mistake>) {
    return detail::same_after_mistake(e);
  } else if constexpr (Expr::symbolic && !Counts::symbolic) {
    const auto x = let(e);
    return repeat<Bound, Count>(x, detail::in_graph(*x.erased().builder(), eval(counts)));
  } else {
    using Integer = std::int64_t;  // of which the sums do not overflow
    using Rows = std::conditional_t<symbolic, dims_t<dims<Bound>>, dims_t<dims<Count>>>;
    using To = detail::with_rows<D, 1, Rows>;
    const auto x = materialize(e);
    const auto numbers = materialize(cast<Integer>(counts));
    if constexpr (!symbolic) {
      if (numbers.extents()[0] != x.extents()[0])
        throw error(error_code::invalid_argument, "repeat",
                    {"needs a count for each of ", x.extents()[0], " rows, not ", numbers.extents()[0], " counts"});
      for (std::size_t i = 0; i < numbers.elements(); ++i)
        if (numbers.data()[i] < 0)
          throw error(error_code::invalid_argument, "repeat", {"a count is ", numbers.data()[i]});
    }
    const auto ends = materialize(cumsum<0>(numbers));
    std::int64_t total = 0;
    if constexpr (!symbolic) total = ends.elements() ? static_cast<std::int64_t>(ends.data()[ends.elements() - 1]) : 0;
    const auto places = detail::counted_from_0<Integer, Rows>(ends, total);
    const auto rows = searchsorted(ends, places, side::right);
    shape extents = To::spec;
    if constexpr (!symbolic) extents = resized(x.extents(), 0, total);
    auto values = call_operation<batch_gather_op<T>, T, To>(extents, {0, 0, false, index_rule::any}, x, rows);
    if constexpr (symbolic) {
      const auto count = let(cast<std::int64_t>(sum(counts)));
      return bounded<decltype(values), detail::with_rows<D, 1, dims<Count>>>{values, count};
    } else {
      return values;
    }
  }
}

}  // namespace weft

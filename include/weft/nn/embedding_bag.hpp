// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/nn/embedding.hpp>
#include <weft/ops/index/ragged.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Embeddings of bags of indices. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {

/// How the rows of a bag become one.
enum class bag : unsigned char { sum, mean, max };

/// Bags must be the last axis of the indices: [..., indices].
template <class X>
struct bags_have_no_axis : mistake<X::rank == 0> {};

namespace detail {

/// Integers after the indices are the splits of bags, other numbers are weights.
template <class X>
inline constexpr bool are_splits = std::is_integral_v<value_t<X>> && !std::is_same_v<value_t<X>, bool>;

}  // namespace detail

/// The indices of ragged bags must have one axis.
template <class Indices, class Splits>
struct ragged_bags_do_not_fit : mistake<(Indices::rank != 1 || Splits::rank != 1)> {};

/// The weights of a bag must have the extents of its indices and the elements of the table, and the bag must be a sum.
template <class Weights, class Indices, class T, bag How>
struct weights_do_not_fit_bag : mistake<!std::is_same_v<dims_t<Weights>, dims_t<Indices>> ||
                                        !std::is_same_v<value_t<Weights>, T> || How != bag::sum> {};

/// The sum, the mean or the largest elements of the rows of a table that each bag lists: indices [..., k], table [Rows,
/// Width], the result [..., Width] (torch.nn.EmbeddingBag, tf.nn.embedding_lookup_sparse with combiners).
/// `PaddingIndex` fills bags that are shorter than k: it does not count, and a bag without other indices yields zeros.
/// `layer(indices, weights)` multiplies each row of a sum by its weight [..., k]. `layer(indices, splits)` takes the
/// indices [n] of all bags and integers [bags + 1]: bag i has the indices splits[i] to splits[i + 1] - 1 (PyTorch's
/// offsets with include_last_offset). For the table and errors, see embedding.
template <int Rows, int Width, bag How = bag::mean, int PaddingIndex = no_padding, Element T = float>
struct embedding_bag {
  static_assert(correct<padding_index_out_of_range<Rows, PaddingIndex>>,
                "embedding_bag<rows, width, how, padding_index>: the padding index must be a row of the table");
  stored_initializer table_init = init::uniform{};
  layer_state state{detail::layer_class::embedding_bag};
  mutable variable_node<T, dims<Rows, Width>> table{};

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = first_mistake<indices_are_not_integers<X>, bags_have_no_axis<dims_t<X>>>;

  template <Expression X>
  auto operator()(const X& indices) const {
    static_assert(correct<operand_mistake<X>>, "embedding_bag: needs int32 or int64 indices [..., k] in a graph");
    if constexpr (!correct<operand_mistake<X>>)
      return weft::detail::after_mistake<T, dims_t<X>>(indices);
    else
      return call(indices, unweighted(), along_axis());
  }
  template <Expression X, Expression Y>
  auto operator()(const X& indices, const Y& more) const {
    if constexpr (detail::are_splits<Y>) {
      using mistaken = first_mistake<operand_mistake<X>, ragged_bags_do_not_fit<dims_t<X>, dims_t<Y>>>;
      static_assert(correct<mistaken>, "embedding_bag: needs the indices [n] of all bags, and their splits [bags + 1]");
      if constexpr (!correct<mistaken>)
        return weft::detail::after_mistake<T, dims_t<X>>(indices);
      else
        return call(indices, unweighted(), by_splits<decltype(let(more))>{let(more)});
    } else {
      using mistaken = first_mistake<operand_mistake<X>, weights_do_not_fit_bag<Y, X, T, How>>;
      static_assert(correct<mistaken>,
                    "embedding_bag: only a bag::sum takes weights, which have the extents of the indices and the "
                    "elements of the table");
      if constexpr (!correct<mistaken>)
        return weft::detail::after_mistake<T, dims_t<X>>(indices);
      else
        return call(indices, [&](const auto& rows) { return let(rows * expand_dims<-1>(more)); }, along_axis());
    }
  }

  void visit(const std::string& path, layer_visitor& v) const { v.layer(path, state, {{"table", &table}}); }

 private:
  struct unweighted {
    auto operator()(const auto& rows) const { return rows; }
  };
  struct along_axis {
    auto add(const auto& x) const { return sum<-2>(x); }
    auto largest(const auto& x) const { return max<-2>(x); }
  };
  template <class Splits>
  struct by_splits {
    Splits splits;
    auto add(const auto& x) const { return ragged_sum(x, splits); }
    auto largest(const auto& x) const { return ragged_max(x, splits); }
  };

  template <class X, class Weigh, class Reduce>
  auto call(const X& indices, const Weigh& weigh, const Reduce& reduce) const {
    const auto i = let(indices);
    const parameter_request request{"table", shape(Rows, Width), table_init, table};
    layer_call call(state, i.erased(), &request, 1, dtype_of<T>);
    const auto rows = weigh(gather<0>(table, i));
    using D = dims_t<decltype(rows)>;
    if constexpr (PaddingIndex == no_padding && How == bag::sum) {
      return call.result(reduce.add(rows));
    } else if constexpr (PaddingIndex == no_padding && std::is_same_v<Reduce, along_axis> && D::spec[D::rank - 2] > 0) {
      if constexpr (How == bag::mean)
        return call.result(mean<-2>(rows));
      else
        return call.result(max<-2>(rows));
    } else {
      const auto counts = let(expand_dims<-1>(i) != PaddingIndex);
      if constexpr (How == bag::sum) {
        return call.result(reduce.add(select(counts, rows, 0)));
      } else {
        const auto count = let(reduce.add(cast<T>(counts)));
        if constexpr (How == bag::max)
          return call.result(
              select(count > 0, reduce.largest(select(counts, rows, -std::numeric_limits<T>::infinity())), 0));
        else
          return call.result(reduce.add(select(counts, rows, 0)) / maximum(count, 1));
      }
    }
  }
};

}  // namespace weft::nn
WEFT_COLD_END

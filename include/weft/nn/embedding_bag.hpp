// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/nn/embedding.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Embeddings of bags of indices. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {

/// How the rows of a bag become one.
enum class bag : unsigned char { sum, mean, max };

/// Bags must be the last axis of the indices: [..., indices].
template <class X>
struct bags_have_no_axis : mistake<X::rank == 0> {};

/// The weights of a bag must have the extents of its indices and the elements of the table, and the bag must be a sum.
template <class Weights, class Indices, class T, bag How>
struct weights_do_not_fit_bag : mistake<!std::is_same_v<dims_t<Weights>, dims_t<Indices>> ||
                                        !std::is_same_v<value_t<Weights>, T> || How != bag::sum> {};

/// The sum, the mean or the largest elements of the rows of a table that each bag lists: indices [..., k], table [Rows,
/// Width], the result [..., Width] (torch.nn.EmbeddingBag, tf.nn.embedding_lookup_sparse with combiners).
/// `PaddingIndex` fills bags that are shorter than k: it does not count, and a bag without other indices yields zeros.
/// `layer(indices, weights)` multiplies each row of a sum by its weight [..., k]. For the table and errors, see
/// embedding.
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
      return call(indices, [](const auto& rows) { return rows; });
  }
  template <Expression X, Expression Weights>
  auto operator()(const X& indices, const Weights& weights) const {
    using mistaken = first_mistake<operand_mistake<X>, weights_do_not_fit_bag<Weights, X, T, How>>;
    static_assert(
        correct<mistaken>,
        "embedding_bag: only a bag::sum takes weights, which have the extents of the indices and the elements "
        "of the table");
    if constexpr (!correct<mistaken>)
      return weft::detail::after_mistake<T, dims_t<X>>(indices);
    else
      return call(indices, [&](const auto& rows) { return let(rows * expand_dims<-1>(weights)); });
  }

  void visit(const std::string& path, layer_visitor& v) const { v.layer(path, state, {{"table", &table}}); }

 private:
  template <class X, class Weigh>
  auto call(const X& indices, const Weigh& weigh) const {
    const auto i = let(indices);
    const parameter_request request{"table", shape(Rows, Width), table_init, table};
    layer_call call(state, i.erased(), &request, 1, dtype_of<T>);
    const auto rows = weigh(gather<0>(table, i));
    using D = dims_t<decltype(rows)>;
    if constexpr (PaddingIndex == no_padding && D::spec[D::rank - 2] > 0) {
      if constexpr (How == bag::sum)
        return call.result(sum<-2>(rows));
      else if constexpr (How == bag::mean)
        return call.result(mean<-2>(rows));
      else
        return call.result(max<-2>(rows));
    } else {
      const auto counts = let(expand_dims<-1>(i) != PaddingIndex);
      const auto count = let(sum<-2>(cast<T>(counts)));
      if constexpr (How == bag::max) {
        const auto largest = max<-2>(select(counts, rows, -std::numeric_limits<T>::infinity()));
        return call.result(select(count > 0, largest, 0));
      } else {
        const auto all = sum<-2>(select(counts, rows, 0));
        if constexpr (How == bag::sum)
          return call.result(all);
        else
          return call.result(all / maximum(count, 1));
      }
    }
  }
};

}  // namespace weft::nn
WEFT_COLD_END

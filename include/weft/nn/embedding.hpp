// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/index/gather.hpp>

WEFT_COLD_BEGIN
namespace weft::nn {

/// Indices must be integers of a graph.
template <class X>
struct indices_are_not_integers
    : mistake<!(X::symbolic && std::is_integral_v<value_t<X>> && !std::is_same_v<value_t<X>, bool>)> {};

/// No index is padding.
inline constexpr int no_padding = -1;

/// A padding index must be one of the table's rows: 0 to Rows - 1.
template <int Rows, int PaddingIndex>
struct padding_index_out_of_range : mistake<(PaddingIndex < no_padding || PaddingIndex >= Rows)> {};

/// Looks up a row of a table for each index: indices [...] of integers, table [Rows, Width], the result [..., Width]
/// (tf.keras.layers.Embedding, torch.nn.Embedding). The table is initialized uniformly in [-0.05, 0.05). Its gradient
/// is sparse, so optimizers update only the rows that are used. A step throws out_of_range if an index is not in [0,
/// Rows).
///
/// The result for `PaddingIndex` is zeros without gradient, whatever its row contains: `embedding<1000, 64, float, 0>`
/// (padding_idx).
template <int Rows, int Width, Element T = float, int PaddingIndex = no_padding>
struct embedding {
  static_assert(correct<padding_index_out_of_range<Rows, PaddingIndex>>,
                "embedding<rows, width, T, padding_index>: the padding index must be a row of the table");
  stored_initializer table_init = init::uniform{};
  layer_state state{detail::layer_class::embedding};
  mutable variable_node<T, dims<Rows, Width>> table{};

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = indices_are_not_integers<X>;

  template <Expression X>
  auto operator()(const X& indices) const {
    static_assert(correct<operand_mistake<X>>, "embedding: needs int32 or int64 indices in a graph");
    if constexpr (!correct<operand_mistake<X>>) {
      return weft::detail::after_mistake<T, dims_t<X>>(indices);
    } else {
      const auto i = let(indices);
      const parameter_request request{"table", shape(Rows, Width), table_init, table};
      layer_call call(state, i.erased(), &request, 1, dtype_of<T>);
      const auto rows = gather<0>(table, i);
      if constexpr (PaddingIndex < 0)
        return call.result(rows);
      else
        return call.result(let(select(expand_dims<-1>(i) != PaddingIndex, rows, 0)));
    }
  }

  void visit(const std::string& path, layer_visitor& v) const { v.layer(path, state, {{"table", &table}}); }
};

template <int Width, class T>
struct embedding<-1, Width, T> {
  template <class... Arguments>
  explicit embedding(const Arguments&...) {
    static_assert(correct<extents_are_template_arguments<Arguments...>>,
                  "embedding: its sizes are template arguments: nn::embedding<1000, 64> layer");
  }
};
template <class First, class... More>
embedding(const First&, const More&...) -> embedding<-1, 1>;

}  // namespace weft::nn
WEFT_COLD_END

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/graph/graph.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/nn/activation.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/images/convolution.hpp>
#include <weft/ops/products/matmul.hpp>

/// Mixed precision for models of float. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Products are cast to bfloat16 or half.
template <class T>
struct cast_is_not_to_a_storage_type : mistake<!is_storage_type<T>> {};

namespace detail {

/// The operation of Narrow in place of a product of float, or null.
template <class Narrow>
const operation* narrow_product(const operation* op) {
  const operation* const products[][2] = {
      {&operation_of<matmul_op<float>>, &operation_of<matmul_op<Narrow>>},
      {&operation_of<convolution_op<float>>, &operation_of<convolution_op<Narrow>>},
      {&operation_of<convolution_input_gradient_op<float>>, &operation_of<convolution_input_gradient_op<Narrow>>}};
  for (const auto& [wide, narrow] : products)
    if (op == wide) return narrow;
  return nullptr;
}

template <class Narrow>
bool record_narrow_product(op_builder& where, const node_def& def, symbol& result) {
  const operation* const op = narrow_product<Narrow>(def.op);
  if (!op) return false;
  const auto narrow = [&](const value& v) {
    const symbol x(&where, v);
    return record_untyped(cast<Narrow>(node<float>(x)), x.extents());
  };
  const symbol product = weft::detail::record_call(*op, {narrow(def.inputs[0]), narrow(def.inputs[1])},
                                                   {dtype_of<Narrow>, def.outputs[0].extents}, def.attributes);
  result = record_untyped(cast<float>(node<Narrow>(product)), product.extents());
  return true;
}

}  // namespace detail

/// While it exists, matrix products and convolutions of float that are recorded in a graph multiply in bfloat16 or half
/// (torch.autocast, Keras's policy "mixed_bfloat16"): dense, convolutional, recurrent and attention layers, matmul,
/// conv1d, conv2d and their transposes. Their operands are cast, their sums are computed in float, and their results
/// are cast back to float. Parameters, biases, activations, normalizations and losses remain float:
///
///     const auto loss = [&] {
///       const nn::autocast<bfloat16> mixed(g);
///       return let(mean(softmax_cross_entropy(net(images, nn::mode::training), labels)));
///     }();
///     auto train = adam{}.minimize(loss, nn::parameters(net));  // gradients of parameters are float
///
/// Gradients of these products are products of the same type. Gradients in half need loss_scale. Products of grouped
/// and depthwise convolutions, and of double, do not change.
template <class T>
class autocast {
 public:
  explicit autocast(graph& g) : graph_(g.self()), outer_(g.set_rewrite(rewrite())) {
    static_assert(correct<cast_is_not_to_a_storage_type<T>>, "autocast: needs nn::autocast<bfloat16> or <half>");
  }
  ~autocast() { graph_.set_rewrite(outer_); }
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  static weft::detail::graph_rewrite* rewrite() {
    if constexpr (correct<cast_is_not_to_a_storage_type<T>>) {
      gpu::compile_kernels<matmul_op, T>();
      gpu::compile_kernels<convolution_op, T>();
      return detail::record_narrow_product<T>;
    } else {
      return nullptr;
    }
  }

  graph& graph_;
  weft::detail::graph_rewrite* outer_;
};

}  // namespace weft::nn
WEFT_COLD_END

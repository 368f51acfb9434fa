// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <utility>

#include <weft/nn/batch_norm.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/stop_gradient.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/state.hpp>
#include <weft/session/initialize.hpp>
#include <weft/tensor/random.hpp>

/// Layers whose weights are normalized before they are used. Not part of `<weft/nn.hpp>`.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Only layers with weights of their own can be normalized: dense and convolutional layers.
template <class Layer>
    struct layer_has_no_weights_to_normalize : mistake < !requires(const Layer& l) {
  l.weights;
  l.weights_init;
  typename Layer::template kernel_of<dims<1, 1>>;
}>{};

namespace detail {

/// The weights of a layer as a matrix, whose columns are PyTorch's first axis: the outputs or, in a transposed
/// convolution, the inputs.
inline shape matrix_of(const layer_state& layer, const shape& weights) {
  const std::size_t columns = layer.type() == layer_class::depthwise_conv2d ? 2 : 1;
  shape matrix(1, 1);
  for (std::size_t i = 0; i < weights.rank; ++i) matrix[i + columns < weights.rank ? 0 : 1] *= weights[i];
  return matrix;
}

/// Returns the initial value of a variable with the given name.
template <class T>
sequence<T> first_elements(const graph& g, const symbol& variable) {
  const graph_node& of = g[variable.id().node];
  sequence<T> elements(variable.extents().elements());
  weft::detail::initialize(of.init, variable.info(), g.seed(), of.name, elements.data());
  return elements;
}

/// Creates a variable of a layer's wrapper, with these elements at first, in the scope of the layer.
template <class T>
parameter add_variable(graph& g, const char* name, const sequence<T>& first, variable_kind kind) {
  return parameter(weft::detail::record_variable(g, name, dtype_of<T>, shape(static_cast<std::int64_t>(first.size())),
                                                 dims<1>::names, first.data(), first.size() * sizeof(T), kind));
}

/// Calls a layer with other weights.
template <class Layer, class X>
auto call_with_weights(const Layer& layer, const X& x, const symbol& weights) {
  using handle = std::remove_cvref_t<decltype(layer.weights)>;
  struct restore {
    handle& weights;
    const handle own = weights;
    ~restore() { weights = own; }
  } after{layer.weights};
  layer.weights = handle(weights);
  return layer(x);
}

/// Adds the variables of a wrapper to those of the wrapped layer.
class with_more_parameters final : public layer_visitor {
 public:
  with_more_parameters(layer_visitor& to, const layer_state& of, std::initializer_list<named_parameter> more)
      : to_(to), of_(of), more_(more) {}
  void layer(const std::string& path, const layer_state& l, const parameter_list& parameters) override {
    sequence<named_parameter> all;
    for (const named_parameter& p : parameters) all.push_back(p);
    if (&l == &of_)
      for (const named_parameter& p : more_) all.push_back(p);
    to_.layer(path, l, {all.data(), all.size()});
  }
  void variable(const std::string& path, const weft::detail::handle& v) override { to_.variable(path, v); }

 private:
  layer_visitor& to_;
  const layer_state& of_;
  sequence<named_parameter> more_;
};

template <class Layer, class X>
constexpr auto find_weights_mistake() {
  if constexpr (layer_has_no_weights_to_normalize<Layer>::value)
    return layer_has_no_weights_to_normalize<Layer>();
  else
    return typename Layer::template operand_mistake<X>();
}

/// Creates the weights of a layer before its first call.
template <class Layer, class X>
void create_weights(const Layer& layer, const X& x) {
  if (!layer.weights.empty()) return;
  using Kernel = typename Layer::template kernel_of<dims_t<X>>;
  const parameter_request request{"weights", Kernel::spec, layer.weights_init, layer.weights};
  const layer_call call(layer.state, x.erased(), &request, 1, dtype_of<value_t<X>>);
}

/// weights * scale / norms, by columns.
template <class T>
symbol scale_columns(const layer_state& layer, const symbol& weights, const symbol& scale) {
  using leaf = node<T>;
  const symbol w = reshape(weights, matrix_of(layer, weights.extents()));
  const symbol squares = record_sums(square(leaf(w)), w);
  const symbol factor = record_untyped(leaf(scale) * rsqrt(leaf(squares)), scale.extents());
  return reshape(record_untyped(leaf(w) * leaf(factor), w.extents()), weights.extents());
}

template <class T>
sequence<T> norms_of_columns(const sequence<T>& matrix, std::size_t columns) {
  sequence<T> norms(columns, T());
  for (std::size_t i = 0; i < matrix.size(); ++i) norms[i % columns] += matrix[i] * matrix[i];
  for (T& n : norms) n = static_cast<T>(__builtin_sqrt(static_cast<double>(n)));
  return norms;
}

}  // namespace detail

/// A layer with weights * scale / norm, whose norm is that of the weights of each output, so that direction and length
/// train separately (Salimans and Kingma, NeurIPS 2016; torch.nn.utils.parametrizations.weight_norm):
/// `nn::weight_norm<nn::dense<64>> hidden{{.activation = nn::relu}}`. Scales start as the norms of the initial weights,
/// so the first results are those of the layer alone. For dense and convolutional layers; a transposed convolution has
/// one scale for each input, as in PyTorch.
template <class Layer>
struct weight_norm {
  Layer layer{};
  mutable parameter scale{};

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = decltype(detail::find_weights_mistake<Layer, X>());

  template <Expression X>
  auto operator()(const X& e) const {
    static_assert(correct<layer_has_no_weights_to_normalize<Layer>>,
                  "weight_norm: needs a layer with weights, such as nn::weight_norm<nn::dense<64>>");
    if constexpr (!correct<operand_mistake<X>>) {
      return layer(e);  // reports the mistake
    } else {
      using T = value_t<X>;
      const auto x = let(e);
      if (scale.empty()) create<T>(x);
      return detail::call_with_weights(layer, x,
                                       detail::scale_columns<T>(layer.state, layer.weights.erased(), scale.erased()));
    }
  }

  void visit(const std::string& path, layer_visitor& v) const {
    detail::with_more_parameters all(v, layer.state, {{"weights_scale", &scale}});
    layer.visit(path, all);
  }

 private:
  template <class T, class X>
  void create(const X& x) const {
    detail::create_weights(layer, x);
    graph& g = graph_of(x);
    const symbol weights = layer.weights.erased();
    const auto columns = static_cast<std::size_t>(detail::matrix_of(layer.state, weights.extents())[1]);
    const layer_call scope(layer.state, x);
    scale = detail::add_variable(g, "weights_scale",
                                 detail::norms_of_columns(detail::first_elements<T>(g, weights), columns),
                                 variable_kind::trained);
  }
};
template <class Layer>
weight_norm(Layer) -> weight_norm<Layer>;

namespace detail {

/// x / max(|x|, 1e-12) of a column [n, 1].
template <class T>
symbol record_unit(const symbol& x) {
  using leaf = node<T>;
  const symbol squares = record_sums(square(leaf(x)), x);
  const symbol norm = record_untyped(maximum(sqrt(leaf(squares)), T(1e-12)), squares.extents());
  return record_untyped(leaf(x) / leaf(norm), x.extents());
}

/// Records a variable's next value for training, once for calls that share their nodes.
inline void note_assignment(const symbol& variable, const symbol& value) {
  graph& g = graph_of(variable);
  const std::uint32_t made =
      weft::detail::record_call(operation_of<assign_op>, {variable, value}, variable.info()).id().node;
  for (const std::uint32_t n : g.updates())
    if (n == made) return;
  g.note_update(made);
}

/// The axes that a transposed convolution exchanges, so that the columns of its matrix are outputs.
inline bool has_outputs_before_inputs(const layer_state& layer) {
  return layer.type() == layer_class::conv1d_transpose || layer.type() == layer_class::conv2d_transpose;
}
inline symbol record_matrix(const layer_state& layer, const symbol& weights) {
  if (!has_outputs_before_inputs(layer)) return reshape(weights, matrix_of(layer, weights.extents()));
  sequence<std::int64_t> axes;
  for (std::size_t i = 0; i < weights.extents().rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  const symbol w = transpose(weights, axes);
  return reshape(w, matrix_of(layer, w.extents()));
}

/// weights / sigma, by the singular vectors of their matrix [inputs, outputs].
template <class T>
symbol divide_by_norm(const layer_state& layer, const symbol& weights, const symbol& u, const symbol& v, mode how,
                      int iterations) {
  using leaf = node<T>;
  gpu::compile_kernels<matmul_op, T>();
  gpu::compile_kernels<gpu::moves, T>();
  const auto fixed = [](const symbol& x) { return record<stop_gradient_op>({x}, x.info()); };
  const auto column = [](const symbol& x) { return reshape(x, shape(x.extents()[0], 1)); };
  const symbol w = record_matrix(layer, weights);
  symbol of_outputs = column(u), of_inputs = column(v);
  if (how == mode::training && iterations > 0) {
    const symbol now = fixed(w);
    for (int i = 0; i < iterations; ++i) {
      of_outputs = record_unit<T>(matmul<T>(now, of_inputs, true));
      of_inputs = record_unit<T>(matmul<T>(now, of_outputs));
    }
    note_assignment(u, reshape(of_outputs, u.extents()));
    note_assignment(v, reshape(of_inputs, v.extents()));
  }
  const symbol along = matmul<T>(w, fixed(of_inputs), true);
  const symbol sigma = record_sums(leaf(fixed(of_outputs)) * leaf(along), along);
  return record_untyped(leaf(weights) / leaf(sigma), weights.extents());
}

/// The first singular vectors of the initial weights, by 15 iterations from a fixed random vector, as in PyTorch.
template <class T>
void first_vectors(const layer_state& layer, const sequence<T>& weights, const shape& extents, sequence<T>& u,
                   sequence<T>& v) {
  shape of = extents;
  const bool swapped = has_outputs_before_inputs(layer);
  if (swapped) std::swap(of[of.rank - 1], of[of.rank - 2]);
  const shape matrix = matrix_of(layer, of);
  const auto rows = static_cast<std::size_t>(matrix[0]), columns = static_cast<std::size_t>(matrix[1]),
             inputs = static_cast<std::size_t>(of[of.rank - 2]);
  const auto at = [&](std::size_t row, std::size_t column) {
    return static_cast<double>(
        weights[swapped ? (row / inputs * columns + column) * inputs + row % inputs : row * columns + column]);
  };
  u.assign(columns, T()), v.assign(rows, T());
  const random_stream numbers(1, 1);
  for (std::size_t i = 0; i < rows; ++i) v[i] = static_cast<T>(numbers.normal(i));
  const auto multiply = [](sequence<T>& to, const sequence<T>& by, const auto& element) {
    double squares = 0;
    for (std::size_t i = 0; i < to.size(); ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < by.size(); ++k) sum += element(i, k) * static_cast<double>(by[k]);
      to[i] = static_cast<T>(sum);
      squares += sum * sum;
    }
    const double norm = __builtin_sqrt(squares);
    for (T& x : to) x = static_cast<T>(static_cast<double>(x) / (norm > 1e-12 ? norm : 1e-12));
  };
  for (int i = 0; i < 15; ++i) {
    multiply(u, v, [&](std::size_t column, std::size_t row) { return at(row, column); });
    multiply(v, u, at);
  }
}

}  // namespace detail

/// A layer with weights / sigma, the largest singular value of their matrix [inputs, outputs], which bounds the layer's
/// Lipschitz constant (Miyato et al., ICLR 2018; torch.nn.utils.parametrizations.spectral_norm):
/// `nn::spectral_norm<nn::conv2d<3, 64>> conv`. A call for training improves the estimate of the singular vectors, the
/// variables weights_u and weights_v, by `power_iterations` steps of the power method; a later minimize stores them.
/// Calls for inference use the stored ones. The gradient treats the vectors as constants. For dense and convolutional
/// layers.
template <class Layer>
struct spectral_norm {
  Layer layer{};
  int power_iterations = 1;
  mutable parameter u{}, v{};

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = decltype(detail::find_weights_mistake<Layer, X>());

  template <Expression X>
  auto operator()(const X& e, mode how) const {
    static_assert(correct<layer_has_no_weights_to_normalize<Layer>>,
                  "spectral_norm: needs a layer with weights, such as nn::spectral_norm<nn::dense<64>>");
    if constexpr (!correct<operand_mistake<X>>) {
      return layer(e);  // reports the mistake
    } else {
      using T = value_t<X>;
      const auto x = let(e);
      if (u.empty()) create<T>(x);
      return detail::call_with_weights(layer, x,
                                       detail::divide_by_norm<T>(layer.state, layer.weights.erased(), u.erased(),
                                                                 v.erased(), how, power_iterations));
    }
  }
  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(correct<mode_is_missing<X>>,
                  "spectral_norm: needs a mode, nn::mode::training or nn::mode::inference: layer(x, how)");
    return (*this)(x, mode::inference);
  }
  static constexpr bool needs_mode = true;

  void visit(const std::string& path, layer_visitor& visitor) const {
    detail::with_more_parameters all(visitor, layer.state, {{"weights_u", &u}, {"weights_v", &v}});
    layer.visit(path, all);
  }

 private:
  template <class T, class X>
  void create(const X& x) const {
    detail::create_weights(layer, x);
    graph& g = graph_of(x);
    const symbol weights = layer.weights.erased();
    sequence<T> first_u, first_v;
    detail::first_vectors(layer.state, detail::first_elements<T>(g, weights), weights.extents(), first_u, first_v);
    const layer_call scope(layer.state, x);
    u = detail::add_variable(g, "weights_u", first_u, variable_kind::averaged);
    v = detail::add_variable(g, "weights_v", first_v, variable_kind::averaged);
  }
};
template <class Layer>
spectral_norm(Layer) -> spectral_norm<Layer>;

}  // namespace weft::nn
WEFT_COLD_END

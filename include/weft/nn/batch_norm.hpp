// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/graph/effects.hpp>
#include <weft/graph/scopes.hpp>
#include <weft/nn/activation.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/reduce/moving_average.hpp>
#include <weft/ops/reduce/normalization.hpp>

WEFT_COLD_BEGIN
namespace weft::nn {
namespace detail {

struct batch_norm_call {
  double momentum, epsilon;
  mode how;
};

/// Records an update of `average` towards `value` for training, once for calls that share their nodes.
void note_average(const symbol& average, const symbol& value, const symbol& count, const operation& op, double momentum,
                  bool is_variance);

#if WEFT_DEFINITIONS

WEFT_DECL void note_average(const symbol& average, const symbol& value, const symbol& count, const operation& op,
                            double momentum, bool is_variance) {
  graph& g = graph_of(average);
  for (const std::uint32_t n : g.updates()) {
    const node_def& noted = g[n].def;
    if (noted.op->id == op.id && noted.inputs[0] == average.id() && noted.inputs[1] == value.id()) return;
  }
  const symbol moved =
      weft::detail::record_call(op, {average, value, count}, average.info(),
                                words_of(weft::detail::moving_average_attributes{momentum, is_variance}));
  g.note_update(moved.id().node);
}

#endif

/// The variables of a layer in a call.
struct batch_norm_variables {
  explicit batch_norm_variables(const layer_call& c) : scale(c[0]), offset(c[1]), mean(c[2]), variance(c[3]) {}

  const symbol &scale, &offset, &mean, &variance;
};

/// Records the updates of the moving averages by the moments of a batch with `count` elements in each channel.
template <class T>
void move_averages(const batch_norm_variables& of, const symbol& mean, const symbol& variance, const symbol& count,
                   double momentum) {
  gpu::compile_kernels<moving_average_op, T>();
  const operation& update = operation_of<moving_average_op<T>>;
  note_average(of.mean, mean, count, update, momentum, false);
  note_average(of.variance, variance, count, update, momentum, true);
}

/// The number of elements per channel of x. It can be 0 at run time.
template <class T>
symbol count_elements(const symbol& x, const symbol& scale) {
  return let(cast<T>(size(node<T>(x))) / static_cast<T>(scale.extents()[0])).erased();
}

/// scale / sqrt(variance + epsilon)
template <class T>
symbol factor_of(const symbol& scale, const symbol& variance, double epsilon) {
  using leaf = node<T>;
  return record_untyped(leaf(scale) * rsqrt(leaf(variance) + static_cast<T>(epsilon)), scale.extents());
}

/// activation((x - mean) * factor + offset + residual). `residual` is a plain number if the call has no residual.
template <class T>
symbol normalize_channels(const symbol& x, const symbol& residual, const symbol& mean, const symbol& factor,
                          const symbol& offset, const activation_option<T>& activation) {
  using leaf = node<T>;
  const auto finish = [&](const auto& e) {
    return activation.is_relu() ? record_untyped(weft::relu(e), x.extents())
                                : activation.apply(record_untyped(e, x.extents()), symbol());
  };
  const auto normal = (leaf(x) - leaf(mean)) * leaf(factor) + leaf(offset);
  return residual.is_number() ? finish(normal) : finish(normal + leaf(residual));
}

/// Parameters: scale, offset, moving_mean, moving_variance. `residual` is a plain number if the call has no residual.
template <class T>
symbol call_batch_norm(const symbol& x, const symbol& residual, const layer_state& layer,
                       const parameter_request (&parameters)[4], const batch_norm_call& o,
                       const activation_option<T>& activation) {
  layer_call call(layer, x, parameters, 4, dtype_of<T>);
  const batch_norm_variables of(call);
  if (o.how == mode::inference)
    return call.result(normalize_channels<T>(x, residual, of.mean, factor_of<T>(of.scale, of.variance, o.epsilon),
                                             of.offset, activation));
  gpu::compile_kernels<batch_normalization_op, T>();
  sequence<symbol> operands{x, of.scale, of.offset};
  if (!residual.is_number()) operands.push_back(residual);
  const value_info c = of.scale.info();
  const symbol y =
      record<batch_normalization_op<T>>(operands, {x.info(), c, c, c, c}, {o.epsilon, activation.is_relu()});
  move_averages<T>(of, y.output(1), y.output(2), count_elements<T>(x, of.scale), o.momentum);
  return call.result(activation.is_relu() ? y : activation.apply(y, symbol()));
}

/// Sums an expression over all axes but the last. Its leaves are `node<T>` with the extents of x.
template <class Expr, class Compiler = gpu::this_compiler>
symbol record_sums(const Expr& e, const symbol& x) {
  using skeleton = weft::detail::skeleton_of<Expr>;
  using weft::detail::reduction_op;
  constexpr auto how = device::reduce_op::sum;
  const shape& extents = x.extents();
  const std::size_t last = extents.rank - 1;
  gpu::compiled<Compiler>::template reduction<skeleton, how>();
  return weft::detail::record_expression<Compiler>(
      e, operation_of<reduction_op>, &reduced<skeleton, how, true>, dtype_of<value_t<Expr>>, shape(extents[last]),
      weft::detail::attribute_words(reduction_op::attributes{(std::int64_t{1} << last) - 1, how, false}));
}

template <class T>
symbol add_up(const sequence<symbol>& terms) {
  using leaf = node<T>;
  symbol sum = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) sum = record_untyped(leaf(sum) + leaf(terms[i]), sum.extents());
  return sum;
}

/// A call with the values of several replicas, normalized by the moments of all rows together. Operations on whole
/// values run on the device of the value; only sums per channel are transferred.
template <class T>
sequence<symbol> call_batch_norm_of_replicas(const sequence<symbol>& xs, const layer_state& layer,
                                             const parameter_request (&parameters)[4], const batch_norm_call& o,
                                             const activation_option<T>& activation) {
  using leaf = node<T>;
  if (xs.empty())
    throw error(error_code::invalid_argument, layer.path().empty() ? layer.kind() : layer.path(),
                "the list of replicas is empty: pass at least one value");
  if (xs.size() == 1) return {call_batch_norm<T>(xs[0], symbol(), layer, parameters, o, activation)};
  for (const symbol& x : xs) weft::detail::check_same_graph("batch_norm", xs[0].builder(), x);
  layer_call call(layer, xs[0], parameters, 4, dtype_of<T>);
  const batch_norm_variables of(call);
  const auto in_each_replica = [&](const auto& record_in) {
    sequence<symbol> results;
    for (const symbol& x : xs) {
      const auto there = colocate_with(graph_of(x), x);
      results.push_back(record_in(x));
    }
    return results;
  };
  symbol mean = of.mean, variance = of.variance;
  if (o.how == mode::training) {
    const symbol count = add_up<T>(in_each_replica([&](const symbol& x) { return count_elements<T>(x, of.scale); }));
    // Without rows, the moments are 0, and the gradients of scale and offset are 0 instead of NaN.
    const symbol divisor = record_untyped(maximum(leaf(count), T(1)), shape());
    const auto mean_of = [&](const sequence<symbol>& sums) {
      return record_untyped(leaf(add_up<T>(sums)) / leaf(divisor), of.scale.extents());
    };
    mean = mean_of(in_each_replica([&](const symbol& x) { return record_sums(leaf(x), x); }));
    variance = mean_of(in_each_replica([&](const symbol& x) { return record_sums(square(leaf(x) - leaf(mean)), x); }));
    move_averages<T>(of, mean, variance, count, o.momentum);
  }
  const symbol factor = factor_of<T>(of.scale, variance, o.epsilon);
  const auto results = in_each_replica(
      [&](const symbol& x) { return normalize_channels<T>(x, symbol(), mean, factor, of.offset, activation); });
  call.result(results[0]);
  return results;
}

template <class Xs>
inline constexpr bool holds_expressions = false;
template <template <class...> class Whole, class... X>
inline constexpr bool holds_expressions<Whole<X...>> = (Expression<X> && ...);
/// A layer's operands in several replicas of a network: a std::tuple or std::pair, or a list such as std::vector or
/// std::array.
template <class Xs>
concept TupleOfReplicas = Tuple<Xs> && !Expression<Xs> && holds_expressions<Xs>;
template <class Xs>
concept ListOfReplicas = List<const Xs> && !Expression<Xs> && Expression<typename Xs::value_type>;

/// The list type `Xs` with another element type.
template <class Xs, class Y>
struct list_with;
template <template <class...> class Whole, class X, class... More, class Y>
struct list_with<Whole<X, More...>, Y> {
  using type = Whole<Y>;
};
template <template <class, std::size_t> class Whole, class X, std::size_t Count, class Y>
struct list_with<Whole<X, Count>, Y> {
  using type = Whole<Y, Count>;
};

}  // namespace detail

/// The replicas of one layer must have equal numbers of channels.
template <class First, class Other>
struct channels_of_replicas_differ
    : mistake<(First::rank > 0 && Other::rank > 0 &&
               First::spec[First::rank - (First::rank > 0)] != Other::spec[Other::rank - (Other::rank > 0)])> {};

/// The mistake in the operands of several replicas, if there is one.
template <class T, int In, class First, class... Rest>
using replicas_mistake = first_mistake<features_mistake<First, T, In>, features_mistake<Rest, T, In>...,
                                       channels_of_replicas_differ<dims_t<First>, dims_t<Rest>>...>;

/// Batch normalization of [..., channels] over all other axes (Ioffe and Szegedy, ICML 2015;
/// tf.keras.layers.BatchNormalization, torch.nn.BatchNorm2d): activation((x - mean) / sqrt(variance + epsilon) *
/// scale + offset + residual).
///
/// Training uses the mean and variance of the batch, and each step updates the moving averages: average * momentum +
/// value * (1 - momentum), with the unbiased variance. `minimize` includes these updates if it is recorded after the
/// call. If a step has several calls, for example in siamese networks, each updates the averages; calls with the same
/// operand count once. An empty batch does not change the averages. Inference uses the moving averages. Workers of a
/// cluster share the averages. The defaults are Keras's; torch.nn.BatchNorm2d has `{.momentum = 0.9, .epsilon = 1e-5}`.
/// A residual (an operand with the extents of x) and a ReLU need no additional pass.
///
/// A list of values, such as `std::tuple(x0, x1)`, is one batch that is divided among replicas of the network in one
/// graph (torch.nn.SyncBatchNorm, Keras's `synchronized=True`). The result is also a list. Mean and variance are
/// computed from all rows, and the averages are updated once.
template <int In = deduced, Element T = float>
struct batch_norm {
  double momentum = 0.99;
  double epsilon = 1e-3;
  activation_option<T> activation{};
  stored_initializer scale_init = init::ones{};
  stored_initializer offset_init = init::zeros{};
  layer_state state{detail::layer_class::batch_norm};
  using parameter_type = typename detail::parameter_type<In != deduced, T, dims<In>>::type;
  mutable parameter_type scale{}, offset{}, moving_mean{}, moving_variance{};

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = features_mistake<X, T, In>;

  template <Expression X>
  auto operator()(const X& x, mode how) const {
    return call(x, symbol(), how);
  }
  template <Expression X, Expression Residual>
  auto operator()(const X& x, const Residual& residual, mode how) const {
    using mistaken = residual_mistake<X, Residual>;
    static_assert(correct<mistaken>, "batch_norm: the residual must have the extents and elements of the operand");
    if constexpr (correct<mistaken>)
      return call(x, let(residual).erased(), how);
    else
      return call(x, symbol(), how);
  }
  template <detail::ListOfReplicas Xs>
  auto operator()(const Xs& replicas, mode how) const {
    using X = typename Xs::value_type;
    using mistaken = replicas_mistake<T, In, X>;
    static_assert(
        correct<mistaken>,
        "batch_norm: needs nodes [..., channels] of the layer's element type, float or double, and number of channels");
    if constexpr (!correct<mistaken>) {
      return replicas;
    } else {
      typename detail::list_with<Xs, decltype(result_of<X>(symbol()))>::type list;
      sequence<symbol> values;
      for (const auto& x : replicas) values.push_back(let(x).erased());
      const sequence<symbol> results = call_replicas<X>(values, how);
      for (std::size_t i = 0; i < results.size(); ++i) {
        if constexpr (requires { list.push_back(result_of<X>(results[i])); })
          list.push_back(result_of<X>(results[i]));
        else
          list[i] = result_of<X>(results[i]);
      }
      return list;
    }
  }
  template <template <class...> class Tuple, class First, class... Rest>
    requires(detail::TupleOfReplicas<Tuple<First, Rest...>>)
  auto operator()(const Tuple<First, Rest...>& replicas, mode how) const {
    using mistaken = replicas_mistake<T, In, First, Rest...>;
    static_assert(correct<mistaken>,
                  "batch_norm: needs nodes [..., channels] of the layer's element type, float or double, with the same "
                  "channels in all replicas");
    if constexpr (!correct<mistaken>) {
      return replicas;
    } else {
      const sequence<symbol> results = call_replicas<First>(
          std::apply([](const auto&... x) { return sequence<symbol>{let(x).erased()...}; }, replicas), how);
      return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
        return std::tuple{result_of<First>(results[0]), result_of<Rest>(results[1 + Index])...};
      }(std::index_sequence_for<Rest...>());
    }
  }
  template <Expression X, class... Residual>
  auto operator()(const X& x, const Residual&...) const {
    static_assert(correct<mode_is_missing<batch_norm>>,
                  "batch_norm: needs a mode, nn::mode::training or nn::mode::inference: norm(x, how)");
    return (*this)(x, mode::inference);
  }
  template <class Xs>
    requires(detail::TupleOfReplicas<Xs> || detail::ListOfReplicas<Xs>)
  auto operator()(const Xs& replicas) const {
    static_assert(correct<mode_is_missing<batch_norm>>,
                  "batch_norm: needs a mode, nn::mode::training or nn::mode::inference: norm(replicas, how)");
    return (*this)(replicas, mode::inference);
  }
  auto operator()(...) const WEFT_DELETED;  // norm(x, how), norm(x, residual, how), or norm(std::tuple(x0, x1), how)
  static constexpr bool needs_mode = true;

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(
        path, state,
        {{"scale", &scale}, {"offset", &offset}, {"moving_mean", &moving_mean}, {"moving_variance", &moving_variance}});
  }

 private:
  /// Calls record(parameters) for values of type X.
  template <class X, class Record>
  auto with_parameters(const Record& record) const {
    const stored_initializer zeros = init::zeros{}, ones = init::ones{};
    const shape c(dims_t<X>::spec[dims_t<X>::rank - 1]);
    const parameter_request parameters[4] = {{"scale", c, scale_init, scale},
                                             {"offset", c, offset_init, offset},
                                             {"moving_mean", c, zeros, moving_mean, variable_kind::averaged},
                                             {"moving_variance", c, ones, moving_variance, variable_kind::averaged}};
    return record(parameters);
  }

  template <class X>
  static auto result_of(const symbol& y) {
    return weft::detail::make_node<T, dims_t<X>, device_t<X>>(y);
  }

  template <Expression X>
  auto call(const X& x, const symbol& residual, mode how) const {
    using mistaken = operand_mistake<X>;
    static_assert(correct<mistaken>,
                  "batch_norm: needs a node [..., channels] of the layer's element type, float or double, and number "
                  "of channels");
    if constexpr (!correct<mistaken>)
      return weft::detail::after_mistake<T, dims_t<X>>(x);
    else
      return result_of<X>(with_parameters<X>([&](const auto& parameters) {
        return detail::call_batch_norm<T>(let(x).erased(), residual, state, parameters, {momentum, epsilon, how},
                                          activation);
      }));
  }

  template <class X>
  sequence<symbol> call_replicas(const sequence<symbol>& xs, mode how) const {
    return with_parameters<X>([&](const auto& parameters) {
      return detail::call_batch_norm_of_replicas<T>(xs, state, parameters, {momentum, epsilon, how}, activation);
    });
  }
};

}  // namespace weft::nn
WEFT_COLD_END

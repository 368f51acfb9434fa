// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/extent_bindings.hpp>
#include <weft/graph/graph.hpp>
#include <weft/ops/node.hpp>
#include <weft/tensor/tensor.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Initializers of variables.
namespace init {

/// No initial value: the program must assign the variable before reading it.
struct none {
  initializer operator()(const shape&) const { return {}; }
};
/// Sets all elements to `value` (tf.constant_initializer).
struct constant {
  double value = 0;
  initializer operator()(const shape&) const { return {initializer::kind_type::constant, value, 0, {}}; }
};
/// Sets all elements to 0 (tf.zeros_initializer).
struct zeros {
  initializer operator()(const shape& s) const { return constant{0}(s); }
};
/// Sets all elements to 1 (tf.ones_initializer).
struct ones {
  initializer operator()(const shape& s) const { return constant{1}(s); }
};
/// Uniform in [low, high). For integer variables, `low` and `high` must be integers.
struct uniform {
  double low = -0.05, high = 0.05;
  initializer operator()(const shape&) const { return {initializer::kind_type::uniform, low, high, {}}; }
};
/// Normal with the given mean and standard deviation (tf.random_normal_initializer).
struct normal {
  double mean = 0, stddev = 0.05;
  initializer operator()(const shape&) const { return {initializer::kind_type::normal, mean, stddev, {}}; }
};
/// Normal, truncated at two standard deviations from the mean.
struct truncated_normal {
  double mean = 0, stddev = 0.05;
  initializer operator()(const shape&) const { return {initializer::kind_type::truncated_normal, mean, stddev, {}}; }
};

/// The number of inputs and outputs of one unit of a matrix [in, out] or a convolution filter [..., in, out].
struct fans {
  double in = 1, out = 1;
  explicit fans(const shape& s) {
    double receptive = 1;
    for (std::size_t i = 0; i + 2 < s.rank; ++i) receptive *= static_cast<double>(s[i]);
    if (s.rank > 0) out = static_cast<double>(s[s.rank - 1]) * receptive;
    in = s.rank > 1 ? static_cast<double>(s[s.rank - 2]) * receptive : out;
  }
};

/// Uniform in [-x, x) with x = sqrt(6 / (in + out)): Glorot and Bengio, AISTATS 2010.
struct glorot_uniform {
  initializer operator()(const shape& s) const {
    const fans f(s);
    const double limit = __builtin_sqrt(6 / (f.in + f.out));
    return uniform{-limit, limit}(s);
  }
};
/// Truncated normal with variance 2 / (in + out): Glorot and Bengio, AISTATS 2010.
struct glorot_normal {
  initializer operator()(const shape& s) const {
    const fans f(s);
    return truncated_normal{0, __builtin_sqrt(2 / (f.in + f.out)) / 0.87962566103423978}(s);
  }
};
/// Truncated normal with variance 2 / in: He et al., ICCV 2015.
struct he_normal {
  initializer operator()(const shape& s) const {
    return truncated_normal{0, __builtin_sqrt(2 / fans(s).in) / 0.87962566103423978}(s);
  }
};
/// Uniform with variance 2 / in: He et al., ICCV 2015.
struct he_uniform {
  initializer operator()(const shape& s) const {
    const double limit = __builtin_sqrt(6 / fans(s).in);
    return uniform{-limit, limit}(s);
  }
};
/// A matrix with orthonormal rows or columns, whichever are fewer, times `gain`: Saxe et al., ICLR 2014. The leading
/// axes of a convolution filter are flattened into rows (tf.keras.initializers.Orthogonal). Throws invalid_argument for
/// fewer than 2 axes. An n by m matrix with n <= m takes n * n * m multiply-adds.
struct orthogonal {
  double gain = 1;
  initializer operator()(const shape& s) const {
    if (s.rank < 2)
      throw error(error_code::invalid_argument, "init::orthogonal",
                  {"needs a variable of at least 2 axes, not ", to_string(s)});
    return {initializer::kind_type::orthogonal, gain, 0, {}};
  }
};

}  // namespace init

namespace detail {

inline void remember_names(graph& g, const shape& spec, const char* const* names) {
  for (std::size_t i = 0; i < spec.rank; ++i)
    if (names[i]) g.remember_name(spec[i], names[i]);
}

symbol record_leaf(graph&, const operation&, std::string_view name, dtype, const shape&, const char* const* names);

#if WEFT_DEFINITIONS

WEFT_DECL symbol record_leaf(graph& g, const operation& op, std::string_view name, dtype type, const shape& spec,
                             const char* const* names) {
  remember_names(g, spec, names);
  node_def c;
  c.op = &op;
  c.outputs = {{type, spec}};
  return {&g, {g.add(static_cast<node_def&&>(c), std::string(name.empty() ? op.name : name)), 0}};
}

#endif

/// A type-erased initializer, called once the extents are known.
struct first_value {
  const void* init;
  initializer (*make)(const void* init, const shape&);
};

// A template over the initializer only: a program has nearly as many shapes as variables.
template <class Init>
initializer make_first_value(const void* init, const shape& s) {
  return (*static_cast<const Init*>(init))(s);
}

/// An existing variable to reuse, or a new one without an initial value.
struct recorded_variable {
  symbol it;
  bool is_new;
};
recorded_variable find_or_record(graph&, std::string_view name, dtype, const shape&, const char* const* names,
                                 variable_kind);
symbol record_variable(graph&, std::string_view name, dtype, shape, const char* const* names, first_value,
                       variable_kind);
symbol record_variable(graph&, std::string_view name, dtype, const shape&, const char* const* names, const void* data,
                       std::size_t bytes, variable_kind);

#if WEFT_DEFINITIONS

/// Throws invalid_argument if the integer type or bool cannot represent the initial value.
inline void check_first_value(std::string_view name, dtype type, const initializer& first) {
  using kind = initializer::kind_type;
  if (is_floating(type) || first.kind == kind::none || first.kind == kind::value) return;
  if (first.kind != kind::constant && first.kind != kind::uniform)
    throw error(error_code::invalid_argument, std::string(name),
                {"normal numbers cannot be ", weft::name(type), ": init::uniform draws integers"});
  const bool is_signed = type >= dtype::int8 && type <= dtype::int64;
  const int bits = type == dtype::boolean ? 1 : static_cast<int>(8 * size_of(type)) - is_signed;
  const double end = __builtin_ldexp(1, bits), lowest = is_signed ? -end : 0;
  const auto check = [&](double number, bool may_be_end) {
    if (number >= lowest && (number < end || (may_be_end && number == end)) && __builtin_floor(number) == number)
      return;
    throw error(
        error_code::invalid_argument, std::string(name),
        {"the initial value ", format_number("%.*g", 17, number), " cannot be represented as ", weft::name(type)});
  };
  check(first.a, false);
  if (first.kind == kind::uniform) check(first.b, true);
}

WEFT_DECL recorded_variable find_or_record(graph& here, std::string_view name, dtype type, const shape& spec,
                                           const char* const* names, variable_kind kind) {
  graph& g = here.whole();  // bodies capture their variables
  if (name.empty()) name = operation_of<variable_op>.name;
  const std::uint32_t known = g.reused_variable(name, {type, spec}, kind);
  if (known != graph_node::no_node) return {{&g, {known, 0}}, false};
  remember_names(g, spec, names);
  node_def c;
  c.op = &operation_of<variable_op>;
  c.outputs = {{type, spec}};
  if (kind != variable_kind::trained) c.attributes = words_of(variable_op::attributes{kind});
  return {{&g, {g.add_variable(static_cast<node_def&&>(c), name), 0}}, true};
}

WEFT_DECL symbol record_variable(graph& g, std::string_view name, dtype type, shape extents, const char* const* names,
                                 first_value first, variable_kind kind) {
  const shape spec = extents;
  extent_bindings known;
  for (const auto& [code, size] : g.fixed_extents()) known.bind(code, size);
  for (std::size_t i = 0; i < extents.rank; ++i) {
    if (extents[i] >= 0) continue;
    const std::int64_t* const size = known.compute(g, extents[i]);
    if (!size)
      throw error(error_code::failed_precondition, std::string(name),
                  {"the extent ", names[i], " has no value yet: g.set(dyn<\"",
                   g.extent_formula(extents[i]) ? "...\">, n) of the names in it" : names[i],
                   g.extent_formula(extents[i]) ? "" : "\">, n)", " must come before the variable"});
    extents[i] = *size;
  }
  initializer value = first.make(first.init, extents);
  check_first_value(name, type, value);
  const recorded_variable v = find_or_record(g, name, type, spec, names, kind);
  if (v.is_new) g.whole().initialize(v.it.id().node, static_cast<initializer&&>(value));
  return v.it;
}

WEFT_DECL symbol record_variable(graph& g, std::string_view name, dtype type, const shape& spec,
                                 const char* const* names, const void* data, std::size_t bytes, variable_kind kind) {
  const recorded_variable v = find_or_record(g, name, type, spec, names, kind);
  if (!v.is_new) return v.it;
  storage copy(bytes);
  if (bytes > 0) __builtin_memcpy(copy.data(), data, bytes);
  g.whole().initialize(v.it.id().node, {initializer::kind_type::value, 0, 0, copy});
  return v.it;
}

#endif

}  // namespace detail

/// A value to feed in each step (tf.placeholder). Default names: placeholder, placeholder_1, ...
template <Element T, class Dims = dims<>>
node<T, dims_t<Dims>> placeholder(graph& g, std::string_view name = {}) {
  static_assert(
      correct<extents_are_not_valid<Dims>>,
      "placeholder<T, dims<...>>: needs at most 8 integers, none negative; dyn<\"name\"> is an extent known at run "
      "time");
  if constexpr (correct<extents_are_not_valid<Dims>>) {
    if constexpr (Dims::is_computed) detail::remember_formulas<Dims>(g);
    return node<T, dims_t<Dims>>(
        detail::record_leaf(g, operation_of<placeholder_op>, name, dtype_of<T>, Dims::spec, Dims::names));
  } else {
    return node<T, dims_t<Dims>>(symbol());
  }
}

/// A function object that returns the initializer for the given extents, such as init::normal or one of the program's
/// own.
template <class Init>
concept Initializer = requires(const Init& init, const shape& extents) { initializer(init(extents)); };

/// State stored in the session or on a parameter server (tf.Variable). The initial value of an element depends only on
/// the graph's seed, the variable's name and the element's index. In a `variable_scope` with reuse, returns the
/// existing variable and ignores `first`. Throws invalid_argument if another variable has this name, or if the variable
/// to reuse has other elements or extents; not_found if there is no variable to reuse. The kind determines how training
/// treats the variable: `variable<float, dims<8>>(g, "mean", 0, variable_kind::averaged)` is not trained.
///
/// Without `first`, the variable starts at zero, which suits biases, counters and slots. Weights that start equal stay
/// equal in training: give them a random initializer, such as init::glorot_uniform{}, the default of TensorFlow's
/// get_variable.
template <Element T, class Dims = dims<>, Initializer Init = init::zeros>
variable_node<T, dims_t<Dims>> variable(graph& g, std::string_view name, const Init& first = {},
                                        variable_kind kind = variable_kind::trained) {
  static_assert(
      correct<extents_are_not_valid<Dims>>,
      "variable<T, dims<...>>: needs at most 8 integers, none negative; dyn<\"name\"> is an extent known at run "
      "time");
  if constexpr (correct<extents_are_not_valid<Dims>>) {
    if constexpr (Dims::is_computed) detail::remember_formulas<Dims>(g);
    return variable_node<T, dims_t<Dims>>(detail::record_variable(g, name, dtype_of<T>, Dims::spec, Dims::names,
                                                                  {&first, detail::make_first_value<Init>}, kind));
  } else {
    return variable_node<T, dims_t<Dims>>(symbol());
  }
}

/// A variable with the given tensor as its initial value. The parameter is deduced: arguments meant for other
/// overloads, which are not tensors, then do not instantiate the class.
template <Element T, class Dims, class Device>
variable_node<T, dims_t<Dims>> variable(graph& g, std::string_view name, const tensor<T, Dims, Device>& first,
                                        variable_kind kind = variable_kind::trained) {
  if constexpr (Dims::is_computed) detail::remember_formulas<Dims>(g);
  return variable_node<T, dims_t<Dims>>(detail::record_variable(g, name, dtype_of<T>, Dims::spec, Dims::names,
                                                                first.data(), first.elements() * sizeof(T), kind));
}

/// A variable initialized with an expression over tensors or a list of elements.
template <Element T, class Dims, Expression Expr>
  requires(!Expr::symbolic)
variable_node<T, dims_t<Dims>> variable(graph& g, std::string_view name, const Expr& first,
                                        variable_kind kind = variable_kind::trained) {
  using mistake = assignment_mistake<value_t<Expr>, dims_t<Expr>, T, Dims>;
  static_assert(correct<mistake>, "variable: the initial value must have the variable's extents and elements");
  if constexpr (correct<mistake>)
    return variable(g, name, tensor<T, Dims>(first), kind);
  else
    return variable_node<T, dims_t<Dims>>(symbol());
}
/// A variable initialized with these elements in row-major order.
template <Element T, class Dims>
  requires(Dims::rank > 0)
variable_node<T, dims_t<Dims>> variable(graph& g, std::string_view name, std::initializer_list<T> first,
                                        variable_kind kind = variable_kind::trained) {
  return variable(g, name, tensor<T, Dims>(first), kind);
}
/// A variable whose elements all start as the given number. Throws invalid_argument if an integer type cannot represent
/// it.
template <Element T, class Dims = dims<>, class Num>
  requires(detail::Arithmetic<Num> || std::is_same_v<Num, T>)
variable_node<T, dims_t<Dims>> variable(graph& g, std::string_view name, Num first,
                                        variable_kind kind = variable_kind::trained) {
  if constexpr (std::is_same_v<Num, T> && dims_t<Dims>::rank == 0)
    return variable(g, name, tensor<T, dims_t<Dims>>(first), kind);  // exact for integers that double cannot represent
  else
    return variable<T, Dims>(g, name, init::constant{static_cast<double>(first)}, kind);
}
/// A scalar with the type and initial value `first`.
template <class Given = void, Element T>
  requires std::is_void_v<Given>
variable_node<T> variable(graph& g, std::string_view name, T first, variable_kind kind = variable_kind::trained) {
  return variable(g, name, tensor<T>(first), kind);
}

/// A fixed value (tf.constant).
template <Element T, class Dims>
node<T, dims_t<Dims>> constant(graph& g, const tensor<T, Dims>& value) {
  detail::remember_names(g, Dims::spec, Dims::names);
  detail::remember_formulas<Dims>(g);
  return node<T, dims_t<Dims>>(g.record_constant(value.data(), {dtype_of<T>, Dims::spec}, value.extents()));
}
/// A constant scalar (tf.constant).
template <Element T>
node<T> constant(graph& g, T value) {
  return node<T>(g.record_constant(&value, {dtype_of<T>, {}}, {}));
}
/// The value of an expression over tensors, which is computed now (tf.constant).
template <Expression Expr>
  requires(!Expr::symbolic && Expr::operations > 0)
auto constant(graph& g, const Expr& value) {
  return constant(g, eval(value));
}

/// The number of elements in all variables of the graph, including the slots of optimizers.
inline std::size_t parameter_count(const graph& g) {
  std::size_t count = 0;
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (is_operation<variable_op>(g[n].def.op)) {
      shape s = g[n].def.outputs[0].extents;
      for (std::size_t i = 0; i < s.rank; ++i)
        for (const auto& [code, size] : g.fixed_extents())
          if (s[i] == code) s[i] = size;
      count += s.elements();
    }
  return count;
}

}  // namespace weft

WEFT_COLD_END

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/matmul_kernel.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

/// The operands that a matmul transposes.
enum class transpose_of : unsigned char { none = 0, a = 1, b = 2, both = 3 };

namespace detail {

constexpr bool takes(transpose_of which, transpose_of operand) {
  return static_cast<unsigned>(which) & static_cast<unsigned>(operand);
}

/// The last two axes are matrices. The leading axes of both operands are equal, or the second operand is a single
/// matrix.
constexpr bool matmul_fits(const shape& a, const shape& b, transpose_of t) {
  if (a.rank < 2 || b.rank < 2 || (b.rank != a.rank && b.rank != 2)) return false;
  for (std::size_t i = 0; b.rank > 2 && i < a.rank - 2; ++i)
    if (a[i] != b[i]) return false;
  return a[a.rank - (takes(t, transpose_of::a) ? 2 : 1)] == b[b.rank - (takes(t, transpose_of::b) ? 1 : 2)];
}

/// Transposed matrices that are multiplied by a single one are transposed beforehand. Their rows are then consecutive,
/// and all form one product.
constexpr bool transposes_before(std::size_t rank_a, std::size_t rank_b, bool transpose_a) {
  return transpose_a && rank_a > 2 && rank_b == 2;
}

struct matmul_attributes {
  attribute<bool> transpose_a, transpose_b;
};

symbol record_product(const operation&, symbol a, symbol b, const matmul_attributes&);
void matmul_gradient(gradient_context&, const matmul_attributes&);

#if WEFT_DEFINITIONS

WEFT_DECL symbol record_product(const operation& op, symbol a, symbol b, const matmul_attributes& t) {
  check_same_graph("matmul", a.builder(), b);
  const bool ta = t.transpose_a, tb = t.transpose_b;
  const shape &x = a.extents(), &y = b.extents();
  const auto taken = static_cast<transpose_of>((ta ? 1 : 0) | (tb ? 2 : 0));
  if (!matmul_fits(x, y, taken) || a.type() != b.type())
    throw error(error_code::invalid_argument, "matmul",
                {"needs matrices [m, k] and [k, n] of one type, not ", to_string(x), ta ? " transposed" : "", " and ",
                 to_string(y), tb ? " transposed" : ""});
  if (transposes_before(x.rank, y.rank, ta)) {
    sequence<std::int64_t> axes;
    for (std::size_t i = 0; i < x.rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
    axes[x.rank - 2] = axes[x.rank - 1]--;
    return record_product(op, weft::transpose(a, axes), b, {false, tb});
  }
  shape extents = x;
  if (ta) extents[x.rank - 2] = x[x.rank - 1];
  extents[x.rank - 1] = y[y.rank - (tb ? 2 : 1)];
  return record_call(op, {a, b}, {a.type(), extents}, words_of(t));
}

WEFT_DECL void matmul_gradient(gradient_context& g, const matmul_attributes& t) {
  const bool ta = t.transpose_a, tb = t.transpose_b;
  const symbol a = g.input(0), b = g.input(1), up = g.upstream();
  const auto product = [&](symbol x, symbol y, symbol of, bool transpose_x, bool transpose_y) {
    return record_call(*g.node.op, {x, y}, of.info(), words_of(matmul_attributes{transpose_x, transpose_y}));
  };
  if (g.needs_gradient(0)) g.set_gradient(0, ta ? product(b, up, a, tb, true) : product(up, b, a, false, !tb));
  if (g.needs_gradient(1)) g.set_gradient(1, tb ? product(up, a, b, true, ta) : product(a, up, b, !ta, false));
}

#endif

/// Returns the extents and form of a product. Matrices times a single matrix are one product over all rows; so is the
/// gradient of the single matrix, which is summed over all of them and also has no leading axes.
inline matmul_batch product_of(const prepare_context& p, const matmul_attributes& t) {
  const shape &a = p.inputs[0].extents, &b = p.inputs[1].extents, &c = p.outputs[0].extents;
  const bool ta = t.transpose_a, tb = t.transpose_b;
  std::int64_t m = a[a.rank - (ta ? 1 : 2)], k = a[a.rank - (ta ? 2 : 1)], leading = 1;
  const std::int64_t k2 = b[b.rank - (tb ? 1 : 2)], n = b[b.rank - (tb ? 2 : 1)];
  if (k != k2)
    throw error(error_code::invalid_argument, "matmul",
                {"the inner extents of ", to_string(a), " and ", to_string(b), " differ"});
  for (std::size_t i = 0; i + 2 < a.rank; ++i) {
    leading *= a[i];
    if (b.rank > 2 && a[i] != b[i])
      throw error(error_code::invalid_argument, "matmul",
                  {"the leading extents of ", to_string(a), " and ", to_string(b), " differ"});
  }
  if (b.rank == 2) m *= leading, leading = 1;
  if (c.rank == 2) k *= leading, leading = 1;
  const matmul_shape each{static_cast<std::size_t>(m), static_cast<std::size_t>(n), static_cast<std::size_t>(k), ta,
                          tb};
  return {each, static_cast<std::size_t>(leading), static_cast<std::size_t>(c[0])};
}

}  // namespace detail

template <class T>
struct matmul_op {
  static constexpr const char* name = "matmul";
  static constexpr const char* onnx = "matmul()";
  static constexpr operation_id id{"weft.matmul"};
  static constexpr fusion_kind fusion = fusion_kind::product;
  static constexpr bool takes_gradients = true, adds_to_variables = true;
  using attributes = detail::matmul_attributes;

  static kernel* prepare_fused(const prepare_context& p, const attributes& t, const product_fusion& f) {
    return device::make_matmul_kernel<T>(detail::product_of(p, t), p.input_slots[0], p.input_slots[1], f.result,
                                         static_cast<accumulator<T>>(f.factor), f.accumulate ? 1 : 0,
                                         f.epilogue_on_cpu());
  }
  static kernel* prepare(const prepare_context& p, const attributes& t) {
    return prepare_fused(p, t, {p.output_slots[0]});
  }
  static void gradient(gradient_context& g, const attributes& t) { detail::matmul_gradient(g, t); }
  /// True for the gradient of a single factor by which many matrices are multiplied.
  static bool stacks(const node_def& c) {
    const auto t = attributes_of<matmul_op>(c);
    return t.transpose_a && !t.transpose_b && c.outputs[0].extents.rank == 2;
  }
  static double multiply_adds(const shape& left, const shape&, const shape& result) {
    return static_cast<double>(left.elements()) * static_cast<double>(result[result.rank - 1]);
  }
  static std::string attributes_text(const node_def& c) {
    const auto a = attributes_of<matmul_op>(c);
    return str_cat({a.transpose_a ? " a'" : "", a.transpose_b ? " b'" : ""});
  }
};

namespace detail {
WEFT_INSTANTIATE(kernel* prepare_declared<matmul_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_fused_declared<matmul_op<float>>(const prepare_context&, const product_fusion&));
}  // namespace detail

/// The product of symbols with elements of type T, for gradients (tf.matmul). For GPUs, the operation's function must
/// call `gpu::compile_kernels<matmul_op, T>()` and, if transposed matrices are multiplied by a single one, also
/// `gpu::compile_kernels<gpu::moves, T>()`. Throws invalid_argument if the extents do not fit.
template <class T>
symbol matmul(symbol a, symbol b, bool transpose_a = false, bool transpose_b = false) {
  return detail::record_product(operation_of<matmul_op<T>>, a, b, {transpose_a, transpose_b});
}

/// The inner extents of a matmul must be equal, and the leading axes must be equal too, unless the second operand has
/// none.
template <class A, class B, transpose_of Transposed = transpose_of::none>
struct matmul_shapes_differ : mistake<!detail::matmul_fits(A::spec, B::spec, Transposed)> {};

/// The factors must be matrices, with or without leading axes.
template <class Dims>
struct factor_is_not_a_matrix : mistake<(Dims::rank < 2)> {};

/// Matrix products are defined for float, double, half and bfloat16.
template <class T>
struct matmul_undefined_for : mistake<!is_differentiable<T>> {};

/// True if the extents of `matmul(a, b)` fit.
template <class A, class B>
concept Multipliable = !matmul_shapes_differ<A, B>::value;

namespace detail {

/// The axes of a product, among those of both factors: the leading ones of A, then [m, n].
template <std::size_t RankOfA, std::size_t RankOfB, bool TransposeA, bool TransposeB>
struct product_extents {
  static constexpr std::size_t axis(std::size_t i) {
    if (i + 1 == RankOfA) return RankOfA + RankOfB - (TransposeB ? 2 : 1);
    return i + 2 == RankOfA && TransposeA ? i + 1 : i;
  }
};

/// Exchanges the last two axes.
template <class X>
auto transpose_matrices(const X& x) {
  return transpose_by<exchanged<dims_t<X>::rank - 2, dims_t<X>::rank - 1>>(x);
}

}  // namespace detail

/// Multiplies two matrices of one element type, `[m, k]` by `[k, n]`; either can be transposed (tf.matmul). With
/// leading axes, multiplies pairs of matrices: `[batch, heads, m, k]` by `[batch, heads, k, n]` is `[batch, heads, m,
/// n]`. If the second operand is a single matrix `[k, n]`, all matrices are multiplied by it. Products of half and
/// bfloat16 are summed in float and rounded once; so are their gradients. Throws invalid_argument if run-time extents
/// do not fit.
template <transpose_of Transposed = transpose_of::none, Expression A, Expression B>
[[nodiscard]] auto matmul(const A& a, const B& b) {
  using T = value_t<A>;
  using DA = dims_t<A>;
  using DB = dims_t<B>;
  using mistake =
      first_mistake<factor_is_not_a_matrix<DA>, factor_is_not_a_matrix<DB>, matmul_shapes_differ<DA, DB, Transposed>,
                    element_types_differ<T, value_t<B>>, matmul_undefined_for<T>>;
  static_assert(
      correct<mistake>,
      "matmul: the operands must be matrices [m, k] and [k, n] of one floating-point type; convert with cast<T>(x)");
  constexpr bool ta = detail::takes(Transposed, transpose_of::a), tb = detail::takes(Transposed, transpose_of::b);
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, DA>(a, b);
  } else if constexpr (detail::transposes_before(DA::rank, DB::rank, ta)) {
    constexpr transpose_of rest = tb ? transpose_of::b : transpose_of::none;
    return matmul<rest>(detail::transpose_matrices(a), b);
  } else {
    // Spells out the extents of two matrices: nvcc repeats the expression of an extent, and cannot print all of them.
    using two =
        std::type_identity<dims<detail::extent_at<DA, ta ? 1 : 0>::value, detail::extent_at<DB, tb ? 0 : 1>::value>>;
    using axes = detail::product_extents<DA::rank, DB::rank, ta, tb>;
    using many =
        detail::select_extents<detail::joined_dims<DA, DB>, axes, typename detail::make_indices<DA::rank>::type>;
    using D = typename std::conditional_t<DA::rank == 2, two, many>::type;
    const auto x = materialize(a);
    const auto y = materialize(b);
    if constexpr (A::symbolic || B::symbolic) gpu::compile_kernels<matmul_op, T>();
    if constexpr (decltype(x)::symbolic && decltype(y)::symbolic) {
      return detail::make_node<T, D, device_t<A>>(matmul<T>(x.erased(), y.erased(), ta, tb));
    } else {
      const shape extents = detail::selected<axes>(DA::rank, extents_of(x), extents_of(y));
      return call_operation<matmul_op<T>, T, D>(extents, {ta, tb}, x, y);
    }
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/matmul.hpp>
#endif

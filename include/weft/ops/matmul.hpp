#pragma once

#include <weft/device/cpu/matmul_kernel.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

/// Which operands of a matmul are taken transposed.
enum class transpose_of : unsigned char { none = 0, a = 1, b = 2, both = 3 };

namespace detail {

constexpr bool takes(transpose_of which, transpose_of operand) {
  return static_cast<unsigned>(which) & static_cast<unsigned>(operand);
}

constexpr bool matmul_fits(const shape& a, const shape& b, transpose_of t) {
  return a.rank == 2 && b.rank == 2 && a[takes(t, transpose_of::a) ? 0 : 1] == b[takes(t, transpose_of::b) ? 1 : 0];
}

struct matmul_attributes {
  attribute<bool> transpose_a, transpose_b;
};

symbol record_product(const operation&, symbol a, symbol b, const matmul_attributes&);
void matmul_gradient(gradient_context&, const matmul_attributes&);

#if WEFT_BODIES

inline symbol record_matmul(const operation& op, symbol a, symbol b, bool transpose_a, bool transpose_b) {
  const shape extents(a.extents()[transpose_a ? 1 : 0], b.extents()[transpose_b ? 0 : 1]);
  return record_call(op, {a, b}, {a.type(), extents}, words_of(matmul_attributes{transpose_a, transpose_b}));
}

WEFT_DECL symbol record_product(const operation& op, symbol a, symbol b, const matmul_attributes& t) {
  check_same_graph("matmul", a.builder(), b.builder());
  return record_matmul(op, a, b, t.transpose_a, t.transpose_b);
}

WEFT_DECL void matmul_gradient(gradient_context& g, const matmul_attributes& t) {
  const operation& op = *g.c.op;
  const bool ta = t.transpose_a, tb = t.transpose_b;
  const symbol a = g.input(0), b = g.input(1), up = g.upstream();
  if (g.needs_gradient(0))
    g.set_gradient(0, ta ? record_matmul(op, b, up, tb, true) : record_matmul(op, up, b, false, !tb));
  if (g.needs_gradient(1))
    g.set_gradient(1, tb ? record_matmul(op, up, a, true, ta) : record_matmul(op, a, up, !ta, false));
}

#endif

inline matmul_shape product_of(const prepare_context& p, const matmul_attributes& t) {
  const shape &a = p.inputs[0].extents, &b = p.inputs[1].extents;
  const bool ta = t.transpose_a, tb = t.transpose_b;
  const auto m = a[ta ? 1 : 0], k = a[ta ? 0 : 1], k2 = b[tb ? 1 : 0], n = b[tb ? 0 : 1];
  if (k != k2)
    throw error(error_code::invalid_argument, "matmul",
                {"the inner extents of ", to_string(a), " and ", to_string(b), " differ"});
  return {static_cast<std::size_t>(m), static_cast<std::size_t>(n), static_cast<std::size_t>(k), ta, tb};
}

}  // namespace detail

template <class T>
struct matmul_op {
  static constexpr const char* name = "matmul";
  static constexpr fusion_kind part = fusion_kind::product;
  static constexpr bool takes_gradients = true, adds_to_variables = true;
  using attributes = detail::matmul_attributes;

  static kernel* prepare_fused(const prepare_context& p, const attributes& t, const product_fusion& f) {
    return device::make_matmul_kernel<T>(detail::product_of(p, t), p.input_slots[0], p.input_slots[1], f.result,
                                         static_cast<accumulator<T>>(f.factor), f.accumulate ? 1 : 0,
                                         static_cast<device::loop_kernel*>(f.epilogue));
  }
  static kernel* prepare(const prepare_context& p, const attributes& t) {
    return prepare_fused(p, t, {p.output_slots[0]});
  }
  static void gradient(gradient_context& g, const attributes& t) { detail::matmul_gradient(g, t); }
};

namespace detail {
WEFT_INSTANTIATE(kernel* prepare_declared<matmul_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_fused_declared<matmul_op<float>>(const prepare_context&, const product_fusion&));
}  // namespace detail

/// The matrices of a matmul disagree: both have rank 2, and the inner extents are equal.
template <class A, class B, transpose_of Transposed = transpose_of::none>
struct matmul_shapes_differ : mistake<!detail::matmul_fits(A::spec, B::spec, Transposed)> {};

/// The factors are matrices, of rank 2.
template <class Dims>
struct factor_is_not_a_matrix : mistake<Dims::rank != 2> {};

/// Matrix products exist of float, double, half and bfloat16.
template <class T>
struct matmul_undefined_for : mistake<!is_differentiable<T>> {};

/// Whether `matmul(a, b)` compiles.
template <class A, class B>
concept Multipliable = !matmul_shapes_differ<A, B>::value;

/// The product of two matrices of one element type, `[m, k]` by `[k, n]`, either taken transposed (tf.matmul). Products
/// of half and of bfloat16 are summed in float and rounded once; so are their gradients.
template <transpose_of Transposed = transpose_of::none, Expression A, Expression B>
[[nodiscard]] auto matmul(const A& a, const B& b) {
  using T = value_t<A>;
  using DA = dims_t<A>;
  using DB = dims_t<B>;
  using mistake =
      first_mistake<factor_is_not_a_matrix<DA>, factor_is_not_a_matrix<DB>, matmul_shapes_differ<DA, DB, Transposed>,
                    element_types_differ<T, value_t<B>>, matmul_undefined_for<T>>;
  static_assert(correct<mistake>, "matmul: needs matrices [m, k] and [k, n] of one floating-point type: cast<T>(x)");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, DA>(a, b);
  } else {
    constexpr bool ta = detail::takes(Transposed, transpose_of::a), tb = detail::takes(Transposed, transpose_of::b);
    using D = dims<detail::extent_at<DA, ta ? 1 : 0>::value, detail::extent_at<DB, tb ? 0 : 1>::value>;
    const auto x = materialize(a);
    const auto y = materialize(b);
    if constexpr (A::symbolic || B::symbolic) gpu::compile_kernels<matmul_op, T>();
    if constexpr (decltype(x)::symbolic && decltype(y)::symbolic)
      return detail::make_node<T, D, device_t<A>>(
          detail::record_product(operation_of<matmul_op<T>>, x.erased(), y.erased(), {ta, tb}));
    else
      return call_operation<matmul_op<T>, T, D>(shape(extents_of(x)[ta ? 1 : 0], extents_of(y)[tb ? 0 : 1]), {ta, tb},
                                                x, y);
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/matmul.hpp>
#endif

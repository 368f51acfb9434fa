#pragma once

#include <weft/device/cpu/matmul_kernel.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/eager.hpp>

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

symbol record_product(const operation&, symbol a, symbol b, bool transpose_a, bool transpose_b);
void matmul_gradient(gradient_context&);

#if WEFT_BODIES

inline symbol record_matmul(const operation& op, symbol a, symbol b, bool transpose_a, bool transpose_b) {
  node_def c;
  c.op = &op;
  c.inputs = {a.id(), b.id()};
  c.attributes = {transpose_a, transpose_b};
  c.outputs = {{a.type(), shape(a.extents()[transpose_a ? 1 : 0], b.extents()[transpose_b ? 0 : 1])}};
  return a.builder()->record(static_cast<node_def&&>(c));
}

WEFT_DECL symbol record_product(const operation& op, symbol a, symbol b, bool transpose_a, bool transpose_b) {
  check_same_graph("matmul", a.builder(), b.builder());
  return record_matmul(op, a, b, transpose_a, transpose_b);
}

// attributes: transpose_a, transpose_b
WEFT_DECL void matmul_gradient(gradient_context& g) {
  const operation& op = *g.c.op;
  const bool ta = g.c.attributes[0], tb = g.c.attributes[1];
  const symbol a = g.input(0), b = g.input(1), up = g.upstream();
  if (g.needs_gradient(0))
    g.set_gradient(0, ta ? record_matmul(op, b, up, tb, true) : record_matmul(op, up, b, false, !tb));
  if (g.needs_gradient(1))
    g.set_gradient(1, tb ? record_matmul(op, up, a, true, ta) : record_matmul(op, a, up, !ta, false));
}

#endif

inline matmul_shape product_of(const prepare_context& p) {
  const shape &a = p.inputs[0].extents, &b = p.inputs[1].extents;
  const bool ta = p.c.attributes[0], tb = p.c.attributes[1];
  const auto m = a[ta ? 1 : 0], k = a[ta ? 0 : 1], k2 = b[tb ? 1 : 0], n = b[tb ? 0 : 1];
  if (k != k2)
    throw error(error_code::invalid_argument, "matmul",
                {"the inner extents of ", to_string(a), " and ", to_string(b), " differ"});
  return {static_cast<std::size_t>(m), static_cast<std::size_t>(n), static_cast<std::size_t>(k), ta, tb};
}

template <class T>
kernel* prepare_matmul_fused(const prepare_context& p, const product_fusion& f) {
  return device::make_matmul_kernel<T>(product_of(p), p.input_slots[0], p.input_slots[1], f.result,
                                       static_cast<accumulator<T>>(f.factor), f.accumulate ? 1 : 0,
                                       static_cast<device::loop_kernel*>(f.epilogue));
}

template <class T>
kernel* prepare_matmul(const prepare_context& p) {
  return prepare_matmul_fused<T>(p, {p.output_slots[0]});
}

WEFT_INSTANTIATE(kernel* prepare_matmul<float>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_matmul_fused<float>(const prepare_context&, const product_fusion&));

}  // namespace detail

template <class T>
inline constexpr operation matmul_operation = [] {
  return operation{.name = "matmul",
                   .prepare_cpu = detail::prepare_matmul<T>,
                   .gpu = &gpu::preparation_of<detail::prepare_matmul<T>>,
                   .gradient = detail::matmul_gradient,
                   .part = fusion_kind::product,
                   .takes_gradients = true,
                   .adds_to_variables = true,
                   .prepare_fused = detail::prepare_matmul_fused<T>};
}();

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
    const auto x = detail::materialize(a);
    const auto y = detail::materialize(b);
    if constexpr (A::symbolic || B::symbolic) gpu::compile_family<gpu::products, T>();
    if constexpr (decltype(x)::symbolic && decltype(y)::symbolic)
      return detail::make_node<T, D, device_t<A>>(
          detail::record_product(matmul_operation<T>, x.erased(), y.erased(), ta, tb));
    else
      return detail::record_or_run<T, D, device_t<A>>(
          matmul_operation<T>, shape(detail::extents_of(x)[ta ? 1 : 0], detail::extents_of(y)[tb ? 0 : 1]), {ta, tb}, x,
          y);
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/matmul.hpp>
#endif

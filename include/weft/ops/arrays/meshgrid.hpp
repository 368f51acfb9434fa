// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <utility>

#include <weft/ops/arrays/broadcast_to.hpp>

/// Coordinates on a grid. Not part of <weft/weft.hpp>.
namespace weft {

/// The axes of a mesh, named as in NumPy.
enum class mesh_indexing : unsigned char {
  xy,  ///< the first two vectors vary along axes 1 and 0 (default of tf.meshgrid and numpy.meshgrid)
  ij,  ///< vector k varies along axis k (default of torch.meshgrid)
};

/// meshgrid takes 1 to 8 vectors.
template <class... Dims>
struct mesh_of_other_than_vectors
    : mistake<sizeof...(Dims) == 0 || (sizeof...(Dims) > max_rank) || !((Dims::rank == 1) && ...)> {};

/// Tensors and nodes cannot be mixed: `constant(graph, t)` makes a tensor a node.
template <class... Expr>
struct tensors_meet_nodes : mistake<(Expr::symbolic || ...) && !(Expr::symbolic && ...)> {};

namespace detail {

constexpr std::size_t mesh_axis(mesh_indexing how, std::size_t vector, std::size_t count) {
  return how == mesh_indexing::xy && count > 1 && vector < 2 ? 1 - vector : vector;
}

/// A vector along an axis, and extent 1 along all others.
template <std::size_t Along>
struct column {
  static constexpr std::size_t axis(std::size_t i) { return i == Along ? 0 : 1; }
};

template <mesh_indexing How, class Indices, class... X>
struct mesh;
template <mesh_indexing How, std::size_t... Index, class... X>
struct mesh<How, indices<Index...>, X...> {
  static constexpr std::size_t rank = sizeof...(X);
  static constexpr std::size_t axis(std::size_t vector) { return mesh_axis(How, vector, rank); }

  template <std::size_t Axis>
  using vector_along = std::tuple_element_t<axis(Axis), std::tuple<dims_t<X>...>>;
  using type = dims<extent_at<vector_along<Index>, 0>::value...>;

  template <std::size_t Vector, class V>
  static auto coordinates(const V& v, const shape& extents) {
    constexpr std::size_t along = axis(Vector);
    const auto x = under_axes<column<along>, rank>(v);
    return call_operation<broadcast_to_op, value_t<V>, type>(extents, {}, x);
  }
  static auto all(const X&... x) {
    shape extents;
    const std::int64_t sizes[] = {extents_of(x)[0]...};
    for (std::size_t i = 0; i < rank; ++i) extents.push_back(sizes[axis(i)]);
    return std::tuple{coordinates<Index>(x, extents)...};
  }
};

}  // namespace detail

/// Returns the coordinates of the points of a grid from those along each axis, as a tuple: `auto [x, y] = meshgrid(a,
/// b)` of `[n]` and `[m]` yields two `[m, n]`, with `x(i, j) == a(j)` and `y(i, j) == b(i)`. With `mesh_indexing::ij`,
/// `auto [x, y] = meshgrid<mesh_indexing::ij>(a, b)`, both are `[n, m]`. Takes 1 to 8 vectors, all nodes or all
/// tensors.
template <mesh_indexing Indexing = mesh_indexing::xy, Expression... Vector>
[[nodiscard]] auto meshgrid(const Vector&... vectors) {
  using mistake = first_mistake<mesh_of_other_than_vectors<dims_t<Vector>...>, tensors_meet_nodes<Vector...>>;
  static_assert(correct<mistake>, "meshgrid: takes 1 to 8 vectors, all nodes or all tensors: constant(graph, t)");
  if constexpr (correct<mistake>)
    return detail::mesh<Indexing, typename detail::make_indices<sizeof...(Vector)>::type,
                        decltype(materialize(vectors))...>::all(materialize(vectors)...);
  else
    return std::tuple{detail::same_after_mistake(vectors)...};
}

WEFT_OTHER_CALLS(meshgrid);  // the order of axes is a template argument: meshgrid<mesh_indexing::ij>(x, y)

}  // namespace weft

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/ops/eager.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/queue/stores.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/tensor.hpp>

/// The components of a queue's element: tensors, or numbers instead of scalar tensors.
namespace weft {

/// A component of a queue is a tensor or the element type of a scalar: fifo_queue<tensor<float, dims<784>>, int>.
template <class X>
struct component_is_not_a_tensor : mistake<!Element<X>> {};
template <class T, class Dims, class Device>
struct component_is_not_a_tensor<tensor<T, Dims, Device>> : mistake<false> {};

/// A queue takes one value for each of its components.
template <std::size_t Given, std::size_t Components>
struct number_of_components_differs : mistake<Given != Components> {};

/// An enqueued value must be a tensor, a tensor_view, an expression or, for a scalar, a number.
template <class X>
struct enqueued_value_is_not_a_tensor : mistake<true> {};

/// The first axis of a batch counts its elements; the other extents must equal the component's.
template <class Batch, class Component>
struct batch_differs_from_elements : mistake<true> {};
template <auto First, auto... Rest, auto... Component>
struct batch_differs_from_elements<dims<First, Rest...>, dims<Component...>>
    : mistake<!detail::assignable(dims<Rest...>::spec, dims<Component...>::spec)> {};

/// Elements with different extents can form a batch only in a padding_fifo_queue.
template <class... Components>
struct batch_needs_known_extents : mistake<true> {};

namespace detail {

template <class C>
struct component {
  using value_type = C;  // the type that is stored and dequeued
  using element_type = C;
  using dims_type = dims<>;
};
template <class T, class Dims>
struct component<tensor<T, Dims>> {
  using value_type = tensor<T, Dims>;
  using element_type = T;
  using dims_type = Dims;
};
template <class T>
struct component<tensor<T, dims<>>> : component<T> {};

template <class C>
using component_value = typename component<C>::value_type;
template <class C>
using component_type = typename component<C>::element_type;
template <class C>
using component_dims = typename component<C>::dims_type;

/// The extents of a component's batch.
template <auto First, class Dims>
struct batched;
template <auto First, auto... Rest>
struct batched<First, dims<Rest...>> {
  using type = dims<First, Rest...>;
};
template <auto First, class C>
using batch_dims = typename batched<First, component_dims<C>>::type;

template <class X>
concept HasElements = requires(const X& x) {
  typename X::value_type;
  typename X::dims_type;
  x.data();
  x.extents();
};

template <class X>
inline constexpr bool is_component_number = std::is_arithmetic_v<X> || is_storage_type<X>;

/// The mistake in a value for a component, if any.
template <class C, class X>
constexpr auto find_enqueue_mistake() {
  using T = component_type<C>;
  if constexpr (is_component_number<X>)
    return first_mistake<
        assigned_extents_differ<dims<>, component_dims<C>>,
        element_types_differ<
            std::conditional_t<std::is_integral_v<X> || std::is_floating_point_v<T> || is_storage_type<T>, T, X>, T>>{};
  else if constexpr (Expression<X>)
    return std::conditional_t<X::symbolic, value_needs_a_session<dims_t<X>>,
                              assignment_mistake<value_t<X>, dims_t<X>, T, component_dims<C>>>{};
  else if constexpr (HasElements<X>)
    return assignment_mistake<typename X::value_type, typename X::dims_type, T, component_dims<C>>{};
  else
    return enqueued_value_is_not_a_tensor<X>{};
}
template <class C, class X>
using enqueue_mistake = decltype(find_enqueue_mistake<C, X>());

template <class C, class X>
constexpr auto find_batch_mistake() {
  if constexpr (HasElements<X>)
    return first_mistake<batch_differs_from_elements<typename X::dims_type, component_dims<C>>,
                         element_types_differ<typename X::value_type, component_type<C>>>{};
  else
    return enqueued_value_is_not_a_tensor<X>{};
}
template <class C, class X>
using batch_mistake = decltype(find_batch_mistake<C, X>());

/// Converts a value to its stored form. Tensors share their storage.
template <class C, class X>
component_value<C> to_component(const X& x) {
  using T = component_type<C>;
  using D = component_dims<C>;
  if constexpr (is_component_number<X>)
    return as_element<T>(x);
  else if constexpr (D::rank == 0 && Expression<X>)
    return static_cast<T>(tensor<T>(x));
  else if constexpr (D::rank == 0 && HasElements<X>)
    return *x.data();
  else if constexpr (Expression<X> && HasElements<X> && !is_view<X>)
    return tensor<T, D>(x.extents(), x);
  else
    return component_value<C>(x);
}

/// Returns row i of a batch in its stored form.
template <class C>
component_value<C> row_of(const component_type<C>* rows, const shape& extents, std::size_t i) {
  if constexpr (component_dims<C>::rank == 0) {
    return rows[i];
  } else {
    component_value<C> row(extents, uninitialized{});
    const std::size_t elements = row.elements();
    __builtin_memcpy(static_cast<void*>(row.data()), rows + i * elements, elements * sizeof *rows);
    return row;
  }
}

template <class C>
shape extents_of_component(const component_value<C>& c) {
  if constexpr (component_dims<C>::rank == 0)
    return {};
  else
    return c.extents();
}
inline shape with_first(std::int64_t first, const shape& rest) {
  shape s(first);
  for (std::size_t i = 0; i < rest.rank; ++i) s.push_back(rest[i]);
  return s;
}
inline shape without_first(const shape& all) {
  shape s;
  for (std::size_t i = 1; i < all.rank; ++i) s.push_back(all[i]);
  return s;
}

/// Copies an element to the beginning of a larger one along each axis. Both must have at least one axis and one
/// element.
inline void copy_padded(std::byte* to, const shape& larger, const std::byte* from, const shape& own,
                        std::size_t bytes) {
  const std::size_t last = own.rank - 1, run = static_cast<std::size_t>(own[last]) * bytes;
  const std::size_t runs = own.elements() / static_cast<std::size_t>(own[last]);
  for (std::size_t r = 0; r < runs; ++r, from += run) {
    std::size_t left = r, offset = 0, stride = static_cast<std::size_t>(larger[last]);
    for (std::size_t a = last; a-- > 0; stride *= static_cast<std::size_t>(larger[a])) {
      offset += left % static_cast<std::size_t>(own[a]) * stride;
      left /= static_cast<std::size_t>(own[a]);
    }
    __builtin_memcpy(to + offset * bytes, from, run);
  }
}

/// Writes component `Index` of `count` elements to one array. Each gets the extents `each`, and is padded with 0.
template <class C, std::size_t Index, class Elements>
void write_batch(const Elements& elements, std::size_t count, const shape& each, std::byte* to) {
  using T = component_type<C>;
  const std::size_t bytes = each.elements() * sizeof(T);
  for (std::size_t i = 0; i < count; ++i, to += bytes) {
    const component_value<C>& c = std::get<Index>(elements[i]);
    if constexpr (component_dims<C>::rank == 0) {
      __builtin_memcpy(to, &c, sizeof(T));
    } else {
      if (component_dims<C>::is_static || c.extents() == each) {
        __builtin_memcpy(to, c.data(), bytes);
        continue;
      }
      __builtin_memset(to, 0, bytes);
      if (c.elements() > 0) copy_padded(to, each, reinterpret_cast<const std::byte*>(c.data()), c.extents(), sizeof(T));
    }
  }
}

/// Returns the smallest extents that can hold component `Index` of all elements.
template <class C, std::size_t Index, class Elements>
shape largest_extents(const Elements& elements, std::size_t count) {
  shape each = component_dims<C>::spec;
  if (component_dims<C>::is_static) return each;
  for (std::size_t a = 0; a < each.rank; ++a)
    if (each[a] < 0) each[a] = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const shape own = extents_of_component<C>(std::get<Index>(elements[i]));
    for (std::size_t a = 0; a < each.rank; ++a) each[a] = own[a] > each[a] ? own[a] : each[a];
  }
  return each;
}

/// Returns "float[784], int32[]", with the names of dynamic extents.
template <class... C>
std::string components_text() {
  std::string text;
  ((text += text.empty() ? "" : ", ", text += name(dtype_of<component_type<C>>),
    text += to_string(component_dims<C>::spec, component_dims<C>::names)),
   ...);
  return text;
}

}  // namespace detail
}  // namespace weft

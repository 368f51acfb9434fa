// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include <weft/tensor/array_elements.hpp>
#include <weft/tensor/array_rows.hpp>
#include <weft/tensor/check_extents.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/viewed_values.hpp>

namespace weft {

template <Element T, class Dims, class Device>
class tensor;  // tensor/tensor.hpp. No default arguments: clang 14 crashes on them in a precompiled header.

/// A view must not be moved by algorithms that move elements into temporaries, such as std::sort: a moved view has no
/// elements of its own, so rows would be lost.
template <class View>
struct view_is_moved : mistake<true> {};

/// A view of elements in other memory, for use in expressions and as a fed value. The memory must outlive the view and
/// every expression that contains it; no other part of Weft keeps a view after a call. As with std::span, a const view
/// of non-const elements can write them; tensor_view<const T, ...> only reads. Assignment to a writable view writes its
/// elements; assignment to a read-only view changes the viewed elements.
template <class T, class Dims>
class tensor_view : public detail::tensor_number<detail::view_base<T>, std::remove_const_t<T>, Dims> {
  static_assert(
      correct<extents_are_not_valid<Dims>>,
      "tensor_view<T, dims<...>>: needs at most 8 integers, none negative; dyn<\"name\"> is an extent known at run "
      "time");
  using base = detail::tensor_number<detail::view_base<T>, std::remove_const_t<T>, Dims>;
  using base::data_, base::shape_;

 public:
  using weft_expression = void;
  using value_type = std::remove_const_t<T>;
  using dims_type = Dims;
  using device_type = cpu;
  static constexpr std::size_t operations = 0;
  static constexpr bool symbolic = false;

  /// Throws invalid_argument if the extents do not match `Dims`.
  tensor_view(T* data, const shape& extents) : base(data, extents) {
    detail::check_fits("tensor_view", Dims::spec, Dims::names, extents);
  }
  tensor_view(T* data)
    requires Dims::is_static
      : base(data, Dims::spec) {}
  tensor_view(T* data, const shape& extents, detail::extents_are_checked) : base(data, extents) {}

  tensor_view(const tensor<value_type, Dims, cpu>& t)
    requires std::is_const_v<T>
      : base(t.data(), t.extents()) {}
  tensor_view(tensor<value_type, Dims, cpu>& t) : base(t.data(), t.extents()) {}
  tensor_view(const tensor<value_type, Dims, cpu>&&) : base(nullptr, Dims::spec) {
    static_assert(correct<view_of_a_temporary<std::enable_if_t<Dims::rank <= max_rank, tensor<value_type, Dims, cpu>>>>,
                  "tensor_view: the tensor is destroyed before the view is used: give it a name");
  }

  /// Converts a view to a read-only view or to other extents. Throws invalid_argument if these do not match `Dims`.
  template <class U, class D>
    requires((std::is_same_v<U, T> || std::is_same_v<const U, T>) &&
             !(std::is_same_v<U, T> && std::is_same_v<D, Dims>) && correct<assigned_extents_differ<D, Dims>>)
  tensor_view(const tensor_view<U, D>& v) : base(v.data(), v.extents()) {
    if constexpr (!std::is_same_v<D, Dims>) detail::check_fits("tensor_view", Dims::spec, Dims::names, v.extents());
  }

  /// Views all elements of a vector, an array, a span or a row-major matrix: any named object with data() and size(),
  /// or with rows() and cols(). Throws invalid_argument if the number of elements does not match the extents, or if
  /// they are not contiguous.
  template <class X>
    requires(!std::is_pointer_v<std::remove_cvref_t<X>> && !std::is_same_v<std::remove_cvref_t<X>, tensor_view>)
  explicit tensor_view(X&& x) : base(nullptr, Dims::spec) {
    using mistake = detail::view_mistake<X, T, Dims>;
    static_assert(correct<mistake>,
                  "tensor_view: needs a pointer and shape(...), or a named tensor, vector, span or row-major matrix "
                  "of such elements");
    if constexpr (correct<mistake>) {
      shape_ = detail::viewed_extents<Dims>(x);
      detail::check_fits("tensor_view", Dims::spec, Dims::names, shape_);
      data_ = std::data(x);
    }
  }
  template <class X>
    requires(std::is_class_v<std::remove_cvref_t<X>>)
  tensor_view(X&& x, const shape& extents) : tensor_view(static_cast<T*>(nullptr), extents) {
    using mistake = detail::view_mistake<X, T, Dims, true>;
    static_assert(correct<mistake>,
                  "tensor_view: needs a pointer and shape(...), or a named vector or span of such elements");
    if constexpr (correct<mistake>) {
      if (std::size(x) != extents.elements()) detail::refuse_count("tensor_view", std::size(x), extents);
      data_ = std::data(x);
    }
  }

  tensor_view(const tensor_view&) = default;
  tensor_view& operator=(const tensor_view&) & = default;
  tensor_view& operator=(tensor_view&& from) &
      requires(!std::is_const_v<T>) {
        static_assert(correct<view_is_moved<tensor_view>>,
                      "tensor_view: cannot be assigned from a moved view, as std::sort does, since a view owns no "
                      "elements: sort indices, then gather the rows");
        return *this = from;
      }

      /// Swaps the elements, because assignment writes them. Throws invalid_argument if the extents differ.
      friend void swap(tensor_view a, tensor_view b)
        requires(!std::is_const_v<T>)
  {
    detail::check_same_extents("swap", b.extents(), a.extents());
    for (T *x = a.begin(), *y = b.begin(); x != a.end(); ++x, ++y) {
      const T kept = *x;
      *x = *y;
      *y = kept;
    }
  }

  /// Writes the elements of a view, a tensor or an expression with the same extents, in one pass.
  template <Expression Expr>
  const tensor_view& operator=(const Expr& e) const& {
    using mistake = std::conditional_t<std::is_const_v<T>, elements_are_read_only<tensor_view>,
                                       detail::tensor_mistake<Expr, value_type, Dims>>;
    static_assert(correct<mistake>, "tensor_view: assign a value of its extents and elements, which must not be const");
    if constexpr (correct<mistake>) {
      if constexpr (Expr::operations == 0 && std::is_same_v<typename Expr::device_type, cpu>)
        this->assign_elements(e.data(), e.extents());
      else
        evaluate(e, *this);
    }
    return *this;
  }
  template <Expression Expr>  // as good a match as the assignment of a view to which e converts
    requires(!std::is_const_v<T>)
  tensor_view& operator=(const Expr& e) & {
    static_cast<const tensor_view&>(*this) = e;
    return *this;
  }
  template <class X>
    requires(std::is_const_v<T> && !std::is_same_v<std::remove_cvref_t<X>, tensor_view> &&
             std::is_convertible_v<X, tensor_view>)
  tensor_view& operator=(X&& x) & {
    return *this = tensor_view(static_cast<X&&>(x));
  }

  /// Returns row `i` along the first axis: a view or, for a vector, the element. With WEFT_CHECKED, throws out_of_range
  /// if there is no such row; otherwise, the behaviour is undefined.
  template <class Index>
    requires detail::is_index<Index>
  decltype(auto) operator[](Index i) const {
    static_assert(correct<scalar_has_no_rows<Dims>>, "operator[]: a scalar has no rows; x() is its element");
    return detail::row_at<Dims>(data_ + detail::row_offset<Dims>(shape_, i), shape_);
  }

  /// Returns an element. With WEFT_CHECKED, throws out_of_range if it does not exist; otherwise, the behaviour is
  /// undefined.
  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(correct<indices_do_not_fit<Dims, Index...>>,
                  "tensor_view: x(i, j, ...) needs one integer index per axis");
    static_assert(correct<index_out_of_range<Dims, Index...>>,
                  "tensor_view: each index must be less than the extent of its axis");
    return data_[detail::offset(shape_, index...)];
  }
};

template <class T, class Dims>
  requires(!Dims::is_canonical)
class tensor_view<T, Dims> : public tensor_view<T, dims_t<Dims>> {
  using canonical_view = tensor_view<T, dims_t<Dims>>;

 public:
  using canonical_view::canonical_view;
  tensor_view(const canonical_view& v) : canonical_view(v) {}
  template <class X>
    requires(!std::is_const_v<T>)
  const tensor_view& operator=(const X& x) const& {
    canonical_view::operator=(x);
    return *this;
  }
  template <class X>
  tensor_view& operator=(X&& x) & {
    canonical_view::operator=(static_cast<X&&>(x));
    return *this;
  }
};

namespace detail {

template <class X>
inline constexpr bool is_view = false;
template <class T, class Dims>
inline constexpr bool is_view<tensor_view<T, Dims>> = true;

// The extents of a view that specifies none.
struct no_dims : dims<> {
  using dims_type = no_dims;
};

}  // namespace detail

/// A view requires a type: tensor_view<const float, dims<dyn<"batch">, 784>>(p, shape(100, 784)).
template <class T>
tensor_view(T*, const shape&) -> tensor_view<T, detail::no_dims>;

template <class T, class Dims>
tensor_view(tensor<T, Dims, cpu>&) -> tensor_view<T, Dims>;
template <class T, class Dims>
tensor_view(const tensor<T, Dims, cpu>&) -> tensor_view<const T, Dims>;

}  // namespace weft

/// A view does not own its elements: iterators remain valid without it, and a std::span can be created from a temporary
/// view.
template <class T, class Dims>
inline constexpr bool std::ranges::enable_borrowed_range<weft::tensor_view<T, Dims>> = true;

namespace std {

/// The generic std::swap would copy only the view, which then refers to elements that the assignment overwrites.
template <class T, class D>
  requires(!is_const_v<T>)
void swap(weft::tensor_view<T, D>& a, weft::tensor_view<T, D>& b) {
  swap(weft::tensor_view<T, D>(a), weft::tensor_view<T, D>(b));
}

}  // namespace std

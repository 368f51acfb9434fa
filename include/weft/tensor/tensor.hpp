// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include <weft/config.hpp>
#include <weft/error.hpp>
#include <weft/tensor/array_elements.hpp>
#include <weft/tensor/array_rows.hpp>
#include <weft/tensor/array_values.hpp>
#include <weft/tensor/check_extents.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/storage.hpp>
#include <weft/tensor/tensor_view.hpp>

namespace weft {

/// Tag for a tensor whose elements are not initialized: the caller must write them all.
struct uninitialized {};

/// Tag for a tensor that shares the first elements of another.
struct first_elements {};

/// Only a tensor or an expression can be assigned to a tensor.
template <class X>
struct tensor_is_not_assigned : mistake<true> {};

/// Tensors are in host memory. For values of a graph, device scopes and the session determine the device.
template <class Device>
struct tensor_is_not_on_the_host : mistake<!std::is_same_v<Device, cpu>> {};

namespace detail {

/// Access for layers that move values without knowing their types (data/element.hpp).
struct tensor_storage;

}  // namespace detail

/// Contiguous elements in row-major order, with value semantics: copies share storage until one of them is written. A
/// scalar converts to its element. A tensor is a contiguous range of all elements; `t[i]` is a row.
template <Element T, class Dims = dims<>, class Device = cpu>
class tensor : public detail::tensor_number<detail::tensor_elements<T>, T, Dims> {
  using base = detail::tensor_number<detail::tensor_elements<T>, T, Dims>;
  using base::bytes_, base::raw, base::shape_;
  static_assert(
      correct<extents_are_not_valid<Dims>>,
      "tensor<T, dims<...>>: needs at most 8 integers, none negative; dyn<\"name\"> is an extent known at run "
      "time");
  static_assert(correct<tensor_is_not_on_the_host<Device>>,
                "tensor: a tensor is in host memory; a session places a graph's values on devices");

 public:
  using weft_expression = void;
  using value_type = T;
  using dims_type = Dims;
  using device_type = Device;
  static constexpr std::size_t operations = 0;
  static constexpr bool symbolic = false;

  /// Creates zeros. Dynamic extents are initially 0.
  tensor()
    requires Dims::is_static
      : tensor(Dims::spec) {}
  tensor()
    requires(!Dims::is_static)
      : tensor(least_extents()) {}

  /// Creates zeros with the given extents. Throws invalid_argument if they do not match `Dims`, and resource_exhausted
  /// if there is not enough memory.
  explicit tensor(const shape& extents) : tensor(extents, uninitialized{}) {
    __builtin_memset(static_cast<void*>(raw()), 0, this->elements() * sizeof(T));
  }

  /// Creates zeros with this allocator, which the tensor also uses for later allocations.
  template <Allocator A>
  tensor(const shape& extents, A) : tensor(extents, uninitialized{}, memory_resource_of<A>) {
    __builtin_memset(static_cast<void*>(raw()), 0, this->elements() * sizeof(T));
  }

  /// Creates a tensor from values in row-major order. Throws invalid_argument if their number does not match the
  /// extents.
  tensor(std::initializer_list<T> values)
    requires(Dims::rank > 0)
      : tensor(Dims::spec, values) {
    static_assert(correct<values_need_extents<Dims>>,
                  "tensor: pass extents known at run time before the values: tensor<...> t{shape(...), {values}}");
  }
  tensor(const shape& extents, std::initializer_list<T> values) : tensor(extents, uninitialized{}) {
    copy_values(values);
  }
  tensor(T value)
    requires(Dims::rank == 0)
      : tensor(shape{}, uninitialized{}) {
    raw()[0] = value;
  }

  /// For a tensor, view or expression x, `w{x}` is the same as `w(x)`. Without this overload, the compiler would
  /// convert x to T and report that it is not a number.
  template <Expression X>
    requires(Dims::rank > 0 && X::dims_type::rank > 0)
  tensor(std::initializer_list<X> one) : base(shape()) {
    static_assert(correct<detail::tensor_mistake<X, T, Dims>>,
                  "tensor: the expression must have the tensor's extents and elements; a graph's value needs a "
                  "session: session.eval(x)");
    if (one.size() != 1) detail::refuse_operands(one.size());
    if constexpr (__is_base_of(tensor, X))
      base::operator=(*one.begin());
    else
      assign(*one.begin());
  }

  /// Creates a tensor from nested braces, `{{1, 2, 3}, {4, 5, 6}}`, for up to 4 axes. The compiler compares the lengths
  /// with the extents; dynamic extents are those of the braces.
  template <std::size_t... Rows>
    requires(Dims::rank == 2 && sizeof...(Rows) > 0)
  tensor(const T (&... rows)[Rows]) : tensor(detail::extents_in_braces<Rows...>(), uninitialized{}) {
    static_assert(correct<rows_do_not_fit<Dims, Rows...>>, "tensor: the rows in braces must match its extents");
    if constexpr (correct<rows_do_not_fit<Dims, Rows...>>) copy_rows(&rows[0]...);
  }
  template <std::size_t Columns, std::size_t... Rows>
    requires(Dims::rank == 3 && sizeof...(Rows) > 0)
  tensor(const T (&... parts)[Rows][Columns]) : tensor(detail::extents_in_braces<Rows...>(Columns), uninitialized{}) {
    static_assert(correct<rows_do_not_fit<Dims, Rows...>>, "tensor: the matrices in braces must match its extents");
    if constexpr (correct<rows_do_not_fit<Dims, Rows...>>) copy_rows(&parts[0][0]...);
  }
  template <std::size_t Columns, std::size_t Depth, std::size_t... Rows>
    requires(Dims::rank == 4 && sizeof...(Rows) > 0)
  tensor(const T (&... parts)[Rows][Columns][Depth])
      : tensor(detail::extents_in_braces<Rows...>(Columns, Depth), uninitialized{}) {
    static_assert(correct<rows_do_not_fit<Dims, Rows...>>, "tensor: the parts in braces must match its extents");
    if constexpr (correct<rows_do_not_fit<Dims, Rows...>>) copy_rows(&parts[0][0][0]...);
  }

  /// Creates a tensor from a range of known size: a vector, an array, a span, a list, a view of `<ranges>`. The values
  /// are in row-major order, or in ranges nested to the depth of the tensor's axes. Dynamic extents are those of nested
  /// ranges, or that of the only axis. Throws invalid_argument if the number of values does not match the extents, or
  /// if rows differ in length.
  template <class X>
    requires(Dims::rank > 0 && !__is_base_of(tensor, std::remove_cvref_t<X>) &&
             (detail::SizedRange<X> || detail::Foreign<std::remove_cvref_t<X>>))
  explicit tensor(X&& values) : tensor(extents_of_range(values), uninitialized{}) {
    using mistake = detail::values_mistake<std::remove_cvref_t<X>, T, Dims>;
    static_assert(correct<mistake>,
                  "tensor: needs values in braces, shape(...) for zeros, a range with a value for each element, nested "
                  "ranges, or tensor_view<T, dims<...>>(p)");
    if constexpr (correct<mistake>) {
      std::int64_t indices[Dims::rank]{};
      if constexpr (detail::nested_range<std::remove_cvref_t<X>>::depth == Dims::rank)
        detail::copy_ranges<0>(values, shape_, indices, raw());
      else
        copy_values(values);
    }
  }

  /// Creates a tensor from a range of known size in row-major order. Throws invalid_argument if the number of values
  /// does not match the extents.
  template <class X>
    requires(detail::SizedRange<X> && detail::becomes_element<typename detail::nested_range<X>::value_type, T>)
  tensor(const shape& extents, X&& values) : tensor(extents, uninitialized{}) {
    static_assert(
        correct<std::conditional_t<detail::nested_range<X>::depth == 1, mistake<false>, nesting_differs<Dims>>>,
        "tensor: the values after the extents must be one range, in row-major order");
    if constexpr (detail::nested_range<X>::depth == 1) copy_values(values);
  }

  /// Evaluates the expression in one pass.
  template <Expression Expr>
    requires(!__is_base_of(tensor, Expr))
  tensor(const Expr& e) : base(shape()) {
    static_assert(correct<detail::tensor_mistake<Expr, T, Dims>>,
                  "tensor: the expression must have the tensor's extents and elements; a graph's value needs a "
                  "session: session.eval(x)");
    assign(e);
  }
  template <Expression Expr>
    requires(!__is_base_of(tensor, Expr))
  tensor& operator=(const Expr& e) {
    static_assert(correct<detail::tensor_mistake<Expr, T, Dims>>,
                  "tensor: the expression must have the tensor's extents and elements; a graph's value needs a "
                  "session: session.eval(x)");
    assign(e);
    return *this;
  }

  tensor(const shape& extents, uninitialized, const memory_resource& source = memory_resource_of<>) : base(extents) {
    detail::check_fits("tensor", Dims::spec, Dims::names, extents);
    bytes_ = detail::storage_of("tensor", shape_, sizeof(T), source);
  }

  /// Creates a tensor with the elements of another and different extents. The two share storage until one is written.
  /// Throws invalid_argument if the number of elements differs.
  template <class D>
  tensor(const shape& extents, const tensor<T, D, Device>& elements) : base(extents, elements.bytes_) {
    detail::check_fits("tensor", Dims::spec, Dims::names, extents);
    if (elements.elements() != shape_.elements())
      throw error(error_code::invalid_argument, "tensor",
                  {"extents ", to_string(extents), " and ", to_string(elements.extents()),
                   " differ in their number of elements"});
  }

  /// Creates a tensor with the first elements of another and different extents. Shares, and thus keeps, the whole
  /// storage. Throws invalid_argument if there are too few elements.
  template <class D>
  tensor(const shape& extents, const tensor<T, D, Device>& elements, first_elements) : base(extents, elements.bytes_) {
    detail::check_fits("tensor", Dims::spec, Dims::names, extents);
    if (elements.elements() < shape_.elements())
      throw error(error_code::invalid_argument, "tensor",
                  {"extents ", to_string(extents), " have more elements than ", to_string(elements.extents())});
  }

  /// Copies the elements of a view. Throws invalid_argument if its extents do not match `Dims`.
  template <class U, class D>
    requires std::is_same_v<std::remove_const_t<U>, T>
  tensor(const tensor_view<U, D>& elements) : tensor(elements.extents(), uninitialized{}) {
    static_assert(correct<assigned_extents_differ<D, Dims>>, "tensor: the view must have the tensor's extents");
    if (elements.data()) __builtin_memcpy(static_cast<void*>(raw()), elements.data(), elements.elements() * sizeof(T));
  }

  // Constructors that report common mistakes.
  template <class = void>
  explicit tensor(...) = delete;  // tensor<T, dims<2, 3>>{1, 2, 3, 4, 5, 6}, or {shape(2, 3)} for zeros
  template <class Char>
    requires(std::is_same_v<Char, char>)
  tensor(std::initializer_list<const Char*>) : base(shape()) {
    static_assert(correct<tensor_is_not_made_of<const Char*>>, "tensor: elements must be numbers, not text: {1, 2, 3}");
  }
  tensor(detail::values_in_braces, detail::values_in_braces, detail::values_in_braces = {},
         detail::values_in_braces = {})
    requires(Dims::rank > 0)
      : base(shape()) {
    static_assert(
        correct<nesting_differs<Dims>>,
        "tensor: values in braces must be one list in row-major order, or nested like the extents: {{1, 2}, {3, 4}}");
  }
  template <class X>
    requires(!Expression<X> && !std::is_convertible_v<const X&, tensor>)
  tensor& operator=(const X&) {
    static_assert(correct<tensor_is_not_assigned<X>>,
                  "tensor: assign a tensor or an expression; x.fill(v) writes one number");
    return *this;
  }

  tensor(const tensor&) = default;
  tensor& operator=(const tensor&) = default;
  /// Leaves the source without elements and with extents of 0, until it is assigned.
  tensor(tensor&&) noexcept = default;
  tensor& operator=(tensor&&) noexcept = default;
  ~tensor() = default;

  /// Returns row `i` along the first axis: a view that writes to the tensor, `a[i] = b[j]`, `a[i][j] = 3`; for a
  /// vector, the element. The view remains valid as long as a pointer from `data()`. A row of a temporary is a separate
  /// tensor. With WEFT_CHECKED, throws out_of_range if there is no such row; otherwise, the behaviour is undefined.
  template <class Index>
    requires detail::is_index<Index>
  decltype(auto) operator[](Index i) & {
    static_assert(correct<scalar_has_no_rows<Dims>>, "operator[]: a scalar has no rows; x() is its element");
    const std::size_t at = detail::row_offset<Dims>(shape_, i);  // throws before the storage is copied
    return detail::row_at<Dims>(this->data() + at, shape_);
  }
  template <class Index>
    requires detail::is_index<Index>
  decltype(auto) operator[](Index i) const& {
    static_assert(correct<scalar_has_no_rows<Dims>>, "operator[]: a scalar has no rows; x() is its element");
    return detail::row_at<Dims>(this->data() + detail::row_offset<Dims>(shape_, i), shape_);
  }
  template <class Index>
    requires detail::is_index<Index>
  auto operator[](Index i) const&& {
    if constexpr (Dims::rank > 1)
      return tensor<T, without_axes<Dims, 1>, Device>((*this)[i]);
    else
      return (*this)[i];
  }

  /// Returns an element. With WEFT_CHECKED, throws out_of_range if it does not exist; otherwise, the behaviour is
  /// undefined.
  template <class... Index>
  T operator()(Index... index) const {
    static_assert(correct<indices_do_not_fit<Dims, Index...>>, "tensor: x(i, j, ...) needs one integer index per axis");
    static_assert(correct<index_out_of_range<Dims, Index...>>,
                  "tensor: each index must be less than the extent of its axis");
    return this->data()[detail::offset(shape_, index...)];
  }
  /// For immediate writing: as with `data()`, a reference that is kept while the tensor is copied or used in an
  /// expression writes to the shared storage.
  template <class... Index>
  T& operator()(Index... index) {
    static_assert(correct<indices_do_not_fit<Dims, Index...>>, "tensor: x(i, j, ...) needs one integer index per axis");
    static_assert(correct<index_out_of_range<Dims, Index...>>,
                  "tensor: each index must be less than the extent of its axis");
    const std::size_t at = detail::offset(shape_, index...);  // throws before the storage is copied
    return this->data()[at];
  }

 private:
  template <Element U, class D, class Dev>
  friend class tensor;
  friend struct detail::tensor_storage;

  tensor(const shape& extents, storage bytes) : base(extents, static_cast<storage&&>(bytes)) {}

  static shape least_extents() {
    shape s = Dims::spec;
    for (std::size_t i = 0; i < s.rank; ++i)
      if (s[i] < 0) s[i] = 0;
    return s;
  }

  template <class X>
  static shape extents_of_range(X& values) {
    using range = std::remove_cv_t<X>;
    shape s = least_extents();
    if constexpr (correct<detail::values_mistake<range, T, Dims>>)
      if constexpr (detail::nested_range<range>::depth == Dims::rank) detail::read_extents<0>(values, s);
    return s;
  }

  template <class X>
  void copy_values(X& values) {
    if (std::size(values) != this->elements()) detail::refuse_count("tensor", std::size(values), shape_);
    T* to = raw();
    for (auto&& v : values) *to++ = static_cast<T>(v);
  }

  template <class... Row>
  void copy_rows(const Row*... rows) {
    const std::size_t bytes = sizeof(T) * this->elements() / sizeof...(Row);
    std::byte* to = bytes_.data();
    ((__builtin_memcpy(to, rows, bytes), to += bytes), ...);
  }

  /// `evaluate` is found by argument-dependent lookup in the layer that contains the kernels.
  template <class Expr>
  void assign(const Expr& e) {
    if constexpr (!correct<detail::tensor_mistake<Expr, T, Dims>>) {
    } else if constexpr (detail::is_view<Expr>) {
      detail::check_fits("tensor", Dims::spec, Dims::names, e.extents());
      this->assign_elements(e.data(), e.extents());
    } else {
      evaluate(e, *this);
    }
  }
};

/// A tensor with non-canonical dims, such as `dims<std::size_t{8}>`: derived from the tensor of `dims<8>`.
template <Element T, class Dims, class Device>
  requires(!Dims::is_canonical)
class tensor<T, Dims, Device> : public tensor<T, dims_t<Dims>, Device> {
  using canonical_tensor = tensor<T, dims_t<Dims>, Device>;

 public:
  using canonical_tensor::canonical_tensor;
  tensor() = default;
  tensor(const canonical_tensor& t) : canonical_tensor(t) {}
  template <class X>
    requires(!__is_base_of(canonical_tensor, X))
  tensor& operator=(const X& x) {
    canonical_tensor::operator=(x);
    return *this;
  }
};

namespace detail {

/// Creates a tensor whose type is named directly. nvcc keeps all the ways in which it found a type and traverses them.
/// If results were named through expressions, which name their operands several times, this would multiply with each
/// layer.
template <class T, class Dims, class Device, class... Arguments>
auto make_tensor(const Arguments&... a) {
  return tensor<typename element<T>::value_type, typename Dims::dims_type, typename Device::device_type>(a...);
}

}  // namespace detail

namespace detail {

// The extents of a tensor without template arguments.
struct untyped : dims<> {
  using dims_type = untyped;
};

}  // namespace detail

template <Element T, class Device>
class tensor<T, detail::untyped, Device> {
 public:
  template <class = void>
  tensor(...) = delete;  // a tensor needs its type and extents: tensor<float, dims<2, 3>>
};
template <class = void>
tensor(...) -> tensor<float, detail::untyped>;
template <class T>
tensor(std::initializer_list<T>) -> tensor<float, detail::untyped>;

template <class T, class Dims>
tensor(const tensor_view<T, Dims>&) -> tensor<std::remove_const_t<T>, Dims>;

}  // namespace weft

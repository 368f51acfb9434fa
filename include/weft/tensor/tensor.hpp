#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include <weft/config.hpp>
#include <weft/error.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/storage.hpp>

namespace weft {

WEFT_COLD_BEGIN

/// "[3, 784]", with the names of dynamic extents where `names` has them.
inline std::string to_string(const shape& s, const char* const* names = nullptr) {
  std::string text;
  for (std::size_t i = 0; i < s.rank; ++i) {
    const piece extent = names && names[i] ? piece(names[i]) : s[i] < 0 ? piece("?") : piece(s[i]);
    append(text, {i ? ", " : "[", extent});
  }
  return str_cat({s.rank ? "" : "[", text, "]"});
}

namespace detail {

/// Throws invalid_argument unless `given` fits `spec`; equal dynamic extents must be equal. Throws resource_exhausted
/// if there cannot be so many elements.
void check_fits(const char* what, const shape& spec, const char* const* names, const shape& given);

/// The number of bytes that so many elements of `element` bytes take. Throws resource_exhausted if no address space
/// could hold them.
std::size_t checked_bytes(const char* what, const shape& extents, std::size_t element);

/// Memory for them. Throws resource_exhausted, naming the extents, if there is none.
storage storage_of(const char* what, const shape& extents, std::size_t element,
                   const memory_resource& source = memory_resource_of<>);

/// Throws out_of_range unless there is an element of these indices, one for each axis.
void check_indices(const shape& extents, const std::int64_t* indices);

/// Throws invalid_argument: `given` values for other extents.
[[noreturn]] void refuse_count(const char* what, std::size_t given, const shape& extents);

/// Throws invalid_argument: so many tensors in braces.
[[noreturn]] void refuse_operands(std::size_t given);

/// Throws invalid_argument: the range at `indices[0]`, ..., `indices[axis - 1]` of nested ranges has another length
/// than the first along that axis.
[[noreturn]] void refuse_ragged(const std::int64_t* indices, std::size_t axis, std::size_t given, std::int64_t first);

/// Throws invalid_argument unless the extents are equal.
void check_same_extents(const char* what, const shape& from, const shape& to);

/// The extents of a row.
shape row_extents(const shape&);

/// Throws invalid_argument unless the elements of a matrix follow one another. `inner` and `outer`: from one element of
/// a row to the next, and from one row to the next.
void check_strides(const shape& matrix, std::int64_t inner, std::int64_t outer);

#if WEFT_DEFINITIONS

[[noreturn]] inline void shape_mismatch(const char* what, const shape& declared, const char* const* names,
                                        const shape& given) {
  throw error(error_code::invalid_argument, what,
              {"the extents ", to_string(given), " do not fit the declared ", to_string(declared, names)});
}

WEFT_DECL void check_fits(const char* what, const shape& spec, const char* const* names, const shape& given) {
  for (std::size_t i = 0; i < given.rank; ++i)
    if (given[i] < 0) throw error(error_code::invalid_argument, what, {"an extent is at least 0, not ", given[i]});
  bool fits = spec.rank == given.rank;
  for (std::size_t i = 0; fits && i < spec.rank; ++i) {
    if (spec[i] >= 0) fits = spec[i] == given[i];
    for (std::size_t j = 0; fits && j < i; ++j)
      if (spec[i] < 0 && spec[i] == spec[j]) fits = given[i] == given[j];
  }
  if (!fits) shape_mismatch(what, spec, names, given);
  checked_bytes(what, given, 1);
}

WEFT_DECL std::size_t checked_bytes(const char* what, const shape& extents, std::size_t element) {
  std::size_t bytes = element;
  bool overflows = false;
  for (std::size_t i = 0; i < extents.rank; ++i) {
    const auto extent = static_cast<std::size_t>(extents[i]);
    if (extent == 0) return 0;
    overflows = __builtin_mul_overflow(bytes, extent, &bytes) || overflows;
  }
  if (overflows || bytes > ~std::size_t{0} / 2)
    throw error(error_code::resource_exhausted, what,
                {"the extents ", to_string(extents), " are more than any memory holds"});
  return bytes;
}

WEFT_DECL storage storage_of(const char* what, const shape& extents, std::size_t element,
                             const memory_resource& source) {
  const std::size_t bytes = checked_bytes(what, extents, element);
  try {
    return storage(bytes, source);
  } catch (const error& e) {  // which does not know the extents
    if (e.code() != error_code::resource_exhausted) throw error(e.code(), what, e.sentence());
    throw error(error_code::resource_exhausted, what,
                {"no memory for the extents ", to_string(extents), ", ", bytes, " bytes"});
  }
}

WEFT_DECL void refuse_count(const char* what, std::size_t given, const shape& extents) {
  throw error(error_code::invalid_argument, what, {given, " values given for extents ", to_string(extents)});
}

WEFT_DECL void refuse_operands(std::size_t given) {
  throw error(error_code::invalid_argument, "tensor", {given, " tensors in braces: a tensor is a copy of one"});
}

WEFT_DECL void refuse_ragged(const std::int64_t* indices, std::size_t axis, std::size_t given, std::int64_t first) {
  std::string row;
  for (std::size_t i = 0; i < axis; ++i) append(row, {i ? ", " : "", indices[i]});
  throw error(error_code::invalid_argument, "tensor",
              {"rows have one length, but row ", row, " has ", given, " values and the first row has ", first});
}

WEFT_DECL void check_same_extents(const char* what, const shape& from, const shape& to) {
  if (from == to) return;
  throw error(error_code::invalid_argument, what,
              {"the value has the extents ", to_string(from), ", and the elements written have ", to_string(to)});
}

WEFT_DECL void check_strides(const shape& matrix, std::int64_t inner, std::int64_t outer) {
  if ((inner == 1 || matrix[1] <= 1) && (outer == matrix[1] || matrix[0] <= 1)) return;
  throw error(error_code::invalid_argument, "tensor_view",
              {"a matrix of ", to_string(matrix), " is viewed where its elements follow one another, but they are ",
               inner, " apart and its rows ", outer, ": copy it first"});
}

WEFT_DECL shape row_extents(const shape& all) {
  shape row;
  for (std::size_t i = 1; i < all.rank; ++i) row.push_back(all[i]);
  return row;
}

WEFT_DECL void check_indices(const shape& extents, const std::int64_t* indices) {
  for (std::size_t axis = 0; axis < extents.rank; ++axis) {
    if (indices[axis] >= 0 && indices[axis] < extents[axis]) continue;
    std::string given;
    for (std::size_t i = 0; i < extents.rank; ++i) append(given, {i ? ", " : "(", indices[i]});
    throw error(error_code::out_of_range, "element",
                {"an index is at least 0 and less than its extent: ", given, ") of the extents ", to_string(extents),
                 ", where axis ", axis, " has ", extents[axis], ": extents() says how many there are"});
  }
}

#endif

}  // namespace detail

WEFT_COLD_END

namespace detail {

template <class X>
inline constexpr bool is_index = std::is_convertible_v<X, std::size_t> || std::is_enum_v<X>;

/// Where an element lies, in row-major order.
template <class... Index>
std::size_t offset(const shape& extents, Index... index) {
  std::size_t at = 0, axis = 0;
  if constexpr ((is_index<Index> && ...)) {  // after a mistake they are not
#if WEFT_CHECKED
    const std::int64_t indices[] = {static_cast<std::int64_t>(index)..., 0};
    check_indices(extents, indices);
#endif
    ((at = at * static_cast<std::size_t>(extents[axis++]) + static_cast<std::size_t>(index)), ...);
  }
  return at;
}

/// Whether an index is constant, a std::integral_constant, and beyond an extent that is constant too.
template <class Index>
constexpr bool is_beyond(std::int64_t extent) {
  if constexpr (requires { std::bool_constant<(Index::value < 0)>(); })
    return Index::value < 0 || (extent >= 0 && static_cast<std::int64_t>(Index::value) >= extent);
  else
    return false;
}
template <class Dims, class... Index>
constexpr bool any_is_beyond() {
  std::size_t axis = 0;
  return (is_beyond<Index>(Dims::spec[axis++]) || ... || false);
}

}  // namespace detail

/// An index that is a constant, as `std::integral_constant<int, 5>()` is, is negative or not less than its extent.
template <class Dims, class... Index>
struct index_out_of_range : mistake<detail::any_is_beyond<Dims, Index...>()> {};

template <class T, class Dims>
class tensor_view;

namespace detail {

template <class X>
inline constexpr bool is_view = false;
template <class T, class Dims>
inline constexpr bool is_view<tensor_view<T, Dims>> = true;

/// Braces, as a worse match than an array, which std::initializer_list is not.
struct values_in_braces {
  constexpr values_in_braces(braces = {}) {}
};

/// A view is to be made of extents that are known to fit.
struct extents_are_checked {};

template <std::size_t... Rows, class... Inner>
shape extents_in_braces(Inner... inner) {
  constexpr std::size_t lengths[] = {Rows...};
  return shape(sizeof...(Rows), lengths[0], inner...);
}

}  // namespace detail

/// A tensor is to be made without writing its elements: the caller writes them all.
struct uninitialized {};

/// A tensor is to be made of the first elements of another, as many as it has.
struct first_elements {};

namespace detail {

/// A number, or what has elements elsewhere: a vector, an array, a span, a pointer, a matrix of another library.
template <class X>
concept Foreign = (!Expression<X>) &&
                  (std::is_arithmetic_v<X> || std::is_pointer_v<X> || requires(const X& x) { x.data(), x.size(); });

/// What a range-based for loop walks and whose size is known: a vector, a list, an array, a span, a view of <ranges>.
template <class X>
concept SizedRange = (!Expression<std::remove_cvref_t<X>>) && requires(X& x) {
  std::begin(x);
  std::end(x);
  std::size(x);
};

/// The element of nested ranges, and how deep they are nested.
template <class X>
struct nested_range {
  using value_type = X;
  static constexpr std::size_t depth = 0;
};
template <SizedRange X>
struct nested_range<X> {
  using next = nested_range<std::iter_value_t<decltype(std::begin(std::declval<X&>()))>>;
  using value_type = typename next::value_type;
  static constexpr std::size_t depth = next::depth + 1;
};

/// Whether a value may become an element: a fraction does not become an integer, nor a text numbers.
template <class X, class T>
inline constexpr bool becomes_element =
    std::is_same_v<X, T> || (std::is_arithmetic_v<X> && !std::is_same_v<X, char> && std::is_constructible_v<T, X> &&
                             !(std::is_floating_point_v<X> && std::is_integral_v<T>));

/// How many elements an array holds, as far as its type says: -1 elsewhere.
template <class X>
inline constexpr std::int64_t fixed_size = -1;
template <class X, std::size_t Rows>
inline constexpr std::int64_t fixed_size<X[Rows]> = Rows;
template <class X>
  requires requires { std::bool_constant<(std::tuple_size<X>::value > 0)>(); }
inline constexpr std::int64_t fixed_size<X> = std::tuple_size<X>::value;

/// Extents of nested ranges: the first range along each axis says it. `extents` has those of an empty one.
template <std::size_t Axis, class X>
void read_extents(X& values, shape& extents) {
  extents[Axis] = static_cast<std::int64_t>(std::size(values));
  if constexpr (nested_range<X>::depth > 1) {
    for (auto&& v : values) {
      read_extents<Axis + 1>(v, extents);
      break;
    }
  }
}

/// Copies nested ranges, which throws where one has another length than the first.
template <std::size_t Axis, class T, class X>
T* copy_ranges(X& values, const shape& extents, std::int64_t* indices, T* to) {
  if (std::size(values) != static_cast<std::size_t>(extents[Axis]))
    refuse_ragged(indices, Axis, std::size(values), extents[Axis]);
  indices[Axis] = 0;
  for (auto&& v : values) {
    if constexpr (nested_range<X>::depth > 1) {
      to = copy_ranges<Axis + 1>(v, extents, indices, to);
      ++indices[Axis];
    } else {
      *to++ = static_cast<T>(v);
    }
  }
  return to;
}

template <class Dims, std::size_t... Lengths>
constexpr bool rows_fit() {
  constexpr std::size_t lengths[] = {Lengths...};
  const auto fits = [](std::size_t given, std::int64_t extent) {
    return extent < 0 || given == static_cast<std::size_t>(extent);
  };
  bool fit = fits(sizeof...(Lengths), Dims::spec[0]);
  for (const std::size_t length : lengths) fit = fit && length == lengths[0] && fits(length, Dims::spec[1]);
  return fit;
}

}  // namespace detail

/// A tensor is made of values in braces, of its extents, `shape(...)`, of a range of values, of a tensor_view or of an
/// expression.
template <class X>
struct tensor_is_not_made_of : mistake<true> {};

/// Values in braces fill a tensor of extents known to the compiler, row after row; others are said first.
template <class Dims>
struct values_need_extents : mistake<!Dims::is_static> {};

/// Values in braces are one list, row after row, or nested as the extents are.
template <class Dims>
struct nesting_differs : mistake<true> {};

/// Rows in braces have other lengths than the extents say, or are more or fewer. `Lengths` are those of the rows.
template <class Dims, std::size_t... Lengths>
struct rows_do_not_fit : mistake<!detail::rows_fit<Dims, Lengths...>()> {};

/// An array has more or fewer elements than the extents say.
template <class Dims, std::int64_t Given>
struct number_of_values_differs
    : mistake<Given >= 0 && Dims::is_static && Given != static_cast<std::int64_t>(Dims::spec.elements())> {};

/// A scalar has no axis that brackets could index.
template <class Dims>
struct scalar_has_no_rows : mistake<Dims::rank == 0> {};

/// A view of a temporary would outlive its elements.
template <class X>
struct view_of_a_temporary : mistake<true> {};

/// Elements of a const value are written, or viewed to be written.
template <class X>
struct elements_are_read_only : mistake<true> {};

/// A matrix of another library stores its columns one after another, and a view its rows.
template <class X>
struct matrix_is_column_major : mistake<true> {};

/// A tensor is assigned a tensor or an expression.
template <class X>
struct tensor_is_not_assigned : mistake<true> {};

/// An element has one index for each axis, an integer.
template <class Dims, class... Index>
struct indices_do_not_fit : mistake<sizeof...(Index) != Dims::rank || !(detail::is_index<Index> && ...)> {};

/// Tensors lie in the host's memory; a graph's values lie where its device scopes and the session say.
template <class Device>
struct tensor_is_not_on_the_host : mistake<!std::is_same_v<Device, cpu>> {};

namespace detail {

/// For the layers that move values without knowing their types (data/element.hpp).
struct tensor_storage;

template <class Expr, class T, class Dims>
using tensor_mistake = std::conditional_t<Expr::symbolic, value_needs_a_session<dims_t<Expr>>,
                                          assignment_mistake<value_t<Expr>, dims_t<Expr>, T, Dims>>;

}  // namespace detail

namespace detail {

template <class X, class T, class Dims>
constexpr auto find_values_mistake() {
  using values = nested_range<X>;
  if constexpr (!SizedRange<X>)
    return tensor_is_not_made_of<X>{};
  else if constexpr (!becomes_element<typename values::value_type, T>)
    return element_types_differ<typename values::value_type, T>{};
  else if constexpr (values::depth == Dims::rank)
    return number_of_values_differs<Dims, Dims::rank == 1 ? fixed_size<X> : -1>{};
  else if constexpr (values::depth != 1)
    return nesting_differs<Dims>{};
  else
    return first_mistake<values_need_extents<Dims>, number_of_values_differs<Dims, fixed_size<X>>>{};
}

/// The mistake in a range that a tensor is made of, if there is one.
template <class X, class T, class Dims>
using values_mistake = decltype(find_values_mistake<X, T, Dims>());

/// Which row `i` is, in elements.
template <class Dims, class Index>
std::size_t row_offset(const shape& extents, Index i) {
  if constexpr (Dims::rank > 0) {
    static_assert(correct<index_out_of_range<Dims, Index>>, "operator[]: an index is not less than its extent");
#if WEFT_CHECKED
    const auto index = static_cast<std::int64_t>(i);
    if (index < 0 || index >= extents[0]) check_indices(shape(extents[0]), &index);
#endif
    std::size_t elements = 1;
    for (std::size_t axis = 1; axis < Dims::rank; ++axis) elements *= static_cast<std::size_t>(extents[axis]);
    return static_cast<std::size_t>(i) * elements;
  } else {
    return 0;
  }
}

/// A row is a view or, of a vector, its element.
template <class Dims, class T>
decltype(auto) row_at(T* first, const shape& extents) {
  if constexpr (Dims::rank > 1)
    return tensor_view<T, without_axes<Dims, 1>>(first, row_extents(extents), extents_are_checked{});
  else
    return *first;
}

/// The extents of tensors and views, and the member types of a contiguous range.
template <class T>
class array_extents {
 public:
  using value_type = std::remove_const_t<T>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using pointer = T*;
  using const_pointer = const T*;
  using iterator = T*;
  using const_iterator = const T*;

  const shape& extents() const { return shape_; }
  std::int64_t extent(std::size_t axis) const { return shape_[axis]; }
  std::size_t elements() const { return shape_.elements(); }
  /// The number of elements, of all axes.
  std::size_t size() const { return shape_.elements(); }
  bool empty() const { return shape_.elements() == 0; }

 protected:
  array_extents(const shape& extents) : shape_(extents) {}

  shape shape_;
};

/// What tensors of one element type have in common, whatever their extents: a contiguous range of all elements, in
/// row-major order.
template <class T>
class tensor_elements : public array_extents<T> {
 public:
  using array_extents<T>::elements, array_extents<T>::size;

  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  /// For writing: leaves the storage that others share to them first. The pointer writes to this tensor alone until the
  /// tensor is copied or used in an expression, which share what it points to; ask again after that. The same holds for
  /// iterators, rows and spans.
  T* data() {
    detach();
    return raw();
  }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T* cbegin() const { return data(); }
  const T* cend() const { return data() + size(); }
  T* begin() { return data(); }
  T* end() { return data() + size(); }

  /// Writes one value to all elements.
  void fill(T value) {
    T* const first = data();
    for (std::size_t i = 0, n = size(); i < n; ++i) first[i] = value;
  }

  /// Whether writing elements of these extents needs no other storage than what this tensor alone holds.
  bool can_hold(const shape& extents) const { return bytes_.data() && bytes_.unique() && shape_ == extents; }

 protected:
  using array_extents<T>::shape_;

  tensor_elements(const shape& extents) : array_extents<T>(extents) {}
  tensor_elements(const shape& extents, storage bytes)
      : array_extents<T>(extents), bytes_(static_cast<storage&&>(bytes)) {}

  T* raw() { return reinterpret_cast<T*>(bytes_.data()); }

  void detach() {
    if (bytes_.unique()) return;
    storage mine = storage_of("tensor", shape_, sizeof(T), bytes_.source());
    __builtin_memcpy(mine.data(), bytes_.data(), elements() * sizeof(T));
    bytes_ = static_cast<storage&&>(mine);
  }

  /// Copies elements that may be its own.
  void assign_elements(const T* from, const shape& extents) {
    storage mine = can_hold(extents) ? bytes_ : storage_of("tensor", extents, sizeof(T), bytes_.source());
    if (from) __builtin_memmove(mine.data(), from, extents.elements() * sizeof(T));
    shape_ = extents;
    bytes_ = static_cast<storage&&>(mine);
  }

  storage bytes_;
};

/// A tensor or a view as a number: that of a scalar is its element.
template <class Elements, class T, class Dims>
struct tensor_number : Elements {
  using Elements::Elements;
  template <class Num>
    requires Arithmetic<Num>
  constexpr explicit(!std::is_same_v<Num, T>) operator Num() const {
    static_assert(correct<value_is_not_one_number<Dims>>,
                  "not one number, as x(i, ...), sum(x), mean(x) are: cast<T>(x), weft::exp(x) take tensors, not "
                  "std::exp");
    return Num();
  }
  template <class Container>
    requires requires { typename Container::allocator_type; }
  operator Container() const = delete;  // std::vector<T>(t.begin(), t.end())
};
template <class Elements, class T>
struct tensor_number<Elements, T, dims<>> : Elements {
  using Elements::Elements;
  operator T() const { return this->data()[0]; }
};

}  // namespace detail

/// Contiguous elements in row-major order, with value semantics: copies share storage until one of them is written. A
/// scalar converts to its element. A tensor is a contiguous range of all its elements; `t[i]` is a row.
template <Element T, class Dims = dims<>, class Device = cpu>
class tensor : public detail::tensor_number<detail::tensor_elements<T>, T, Dims> {
  using base = detail::tensor_number<detail::tensor_elements<T>, T, Dims>;
  using base::bytes_, base::raw, base::shape_;
  static_assert(correct<extents_are_not_valid<Dims>>,
                "tensor<T, dims<...>>: at most 8 integers, none negative; dyn<\"name\"> is an extent known at run "
                "time");
  static_assert(correct<tensor_is_not_on_the_host<Device>>, "tensor: a session places a graph's values on devices");

 public:
  using weft_expression = void;
  using value_type = T;
  using dims_type = Dims;
  using device_type = Device;
  static constexpr std::size_t operations = 0;
  static constexpr bool symbolic = false;

  /// Zeros; a dynamic extent starts as 0.
  tensor()
    requires Dims::is_static
      : tensor(Dims::spec) {}
  tensor()
    requires(!Dims::is_static)
      : tensor(least_extents()) {}

  /// Zeros of the given extents. Throws invalid_argument if they do not fit `Dims`, resource_exhausted if memory does
  /// not hold them.
  explicit tensor(const shape& extents) : tensor(extents, uninitialized{}) {
    __builtin_memset(static_cast<void*>(raw()), 0, this->elements() * sizeof(T));
  }

  /// Zeros in memory of this allocator, as are the tensor's elements from then on.
  template <Allocator A>
  tensor(const shape& extents, A) : tensor(extents, uninitialized{}, memory_resource_of<A>) {
    __builtin_memset(static_cast<void*>(raw()), 0, this->elements() * sizeof(T));
  }

  /// Row-major values. Throws invalid_argument if there are not as many as the extents say.
  tensor(std::initializer_list<T> values)
    requires(Dims::rank > 0)
      : tensor(Dims::spec, values) {
    static_assert(correct<values_need_extents<Dims>>,
                  "tensor: extents known at run time are given before the values: tensor<...> t{shape(...), {values}}");
  }
  tensor(const shape& extents, std::initializer_list<T> values) : tensor(extents, uninitialized{}) {
    copy_values(values);
  }
  tensor(T value)
    requires(Dims::rank == 0)
      : tensor(shape{}, uninitialized{}) {
    raw()[0] = value;
  }

  /// A tensor, a view or an expression in braces, `w{x}`, is `w(x)`: x converts to T, but to be told that it is no
  /// number.
  template <Expression X>
    requires(Dims::rank > 0 && X::dims_type::rank > 0)
  tensor(std::initializer_list<X> one) : base(shape()) {
    static_assert(correct<detail::tensor_mistake<X, T, Dims>>,
                  "tensor: the expression has other extents or elements, or needs a session: session.eval(x)");
    if (one.size() != 1) detail::refuse_operands(one.size());
    if constexpr (__is_base_of(tensor, X))
      base::operator=(*one.begin());
    else
      assign(*one.begin());
  }

  /// Rows in braces, `{{1, 2, 3}, {4, 5, 6}}`, nested as deep as the tensor has axes, which are 4 at most. The compiler
  /// compares their lengths with the extents. A dynamic extent is that of the braces.
  template <std::size_t... Rows>
    requires(Dims::rank == 2 && sizeof...(Rows) > 0)
  tensor(const T (&... rows)[Rows]) : tensor(detail::extents_in_braces<Rows...>(), uninitialized{}) {
    static_assert(correct<rows_do_not_fit<Dims, Rows...>>, "tensor: the rows in braces are not those of its extents");
    if constexpr (correct<rows_do_not_fit<Dims, Rows...>>) copy_rows(&rows[0]...);
  }
  template <std::size_t Columns, std::size_t... Rows>
    requires(Dims::rank == 3 && sizeof...(Rows) > 0)
  tensor(const T (&... parts)[Rows][Columns]) : tensor(detail::extents_in_braces<Rows...>(Columns), uninitialized{}) {
    static_assert(correct<rows_do_not_fit<Dims, Rows...>>,
                  "tensor: the matrices in braces are not those of its extents");
    if constexpr (correct<rows_do_not_fit<Dims, Rows...>>) copy_rows(&parts[0][0]...);
  }
  template <std::size_t Columns, std::size_t Depth, std::size_t... Rows>
    requires(Dims::rank == 4 && sizeof...(Rows) > 0)
  tensor(const T (&... parts)[Rows][Columns][Depth])
      : tensor(detail::extents_in_braces<Rows...>(Columns, Depth), uninitialized{}) {
    static_assert(correct<rows_do_not_fit<Dims, Rows...>>, "tensor: the parts in braces are not those of its extents");
    if constexpr (correct<rows_do_not_fit<Dims, Rows...>>) copy_rows(&parts[0][0][0]...);
  }

  /// The values of a range of known size: a vector, an array, a span, a list, a view of `<ranges>`. They are in
  /// row-major order, or in ranges of ranges nested as deep as the tensor has axes. Dynamic extents are those of nested
  /// ranges, or of the only axis. Throws invalid_argument if the number of values is not that of the extents, or rows
  /// differ in length.
  template <class X>
    requires(Dims::rank > 0 && !__is_base_of(tensor, std::remove_cvref_t<X>) &&
             (detail::SizedRange<X> || detail::Foreign<std::remove_cvref_t<X>>))
  explicit tensor(X&& values) : tensor(extents_of_range(values), uninitialized{}) {
    using mistake = detail::values_mistake<std::remove_cvref_t<X>, T, Dims>;
    static_assert(correct<mistake>,
                  "tensor: made of values in braces, shape(...) for zeros, a range of as many values, nested ones, or "
                  "tensor_view<T, dims<...>>(p)");
    if constexpr (correct<mistake>) {
      std::int64_t indices[Dims::rank]{};
      if constexpr (detail::nested_range<std::remove_cvref_t<X>>::depth == Dims::rank)
        detail::copy_ranges<0>(values, shape_, indices, raw());
      else
        copy_values(values);
    }
  }

  /// The values of a range of known size, in row-major order. Throws invalid_argument if they are not as many as the
  /// extents say.
  template <class X>
    requires(detail::SizedRange<X> && detail::becomes_element<typename detail::nested_range<X>::value_type, T>)
  tensor(const shape& extents, X&& values) : tensor(extents, uninitialized{}) {
    static_assert(
        correct<std::conditional_t<detail::nested_range<X>::depth == 1, mistake<false>, nesting_differs<Dims>>>,
        "tensor: values that follow the extents are one range, in row-major order");
    if constexpr (detail::nested_range<X>::depth == 1) copy_values(values);
  }

  /// Evaluates the expression in one pass.
  template <Expression Expr>
    requires(!__is_base_of(tensor, Expr))
  tensor(const Expr& e) : base(shape()) {
    static_assert(correct<detail::tensor_mistake<Expr, T, Dims>>,
                  "tensor: the expression has other extents or elements, or needs a session: session.eval(x)");
    assign(e);
  }
  template <Expression Expr>
    requires(!__is_base_of(tensor, Expr))
  tensor& operator=(const Expr& e) {
    static_assert(correct<detail::tensor_mistake<Expr, T, Dims>>,
                  "tensor: the expression has other extents or elements, or needs a session: session.eval(x)");
    assign(e);
    return *this;
  }

  tensor(const shape& extents, uninitialized, const memory_resource& source = memory_resource_of<>) : base(extents) {
    detail::check_fits("tensor", Dims::spec, Dims::names, extents);
    bytes_ = detail::storage_of("tensor", shape_, sizeof(T), source);
  }

  /// The elements of another tensor under other extents, shared with it until one of the two is written.
  template <class D>
  tensor(const shape& extents, const tensor<T, D, Device>& elements) : base(extents, elements.bytes_) {
    detail::check_fits("tensor", Dims::spec, Dims::names, extents);
    if (elements.elements() != shape_.elements())
      throw error(error_code::invalid_argument, "tensor",
                  {"extents ", to_string(extents), " do not hold the elements of ", to_string(elements.extents())});
  }

  /// The first elements of another tensor under other extents, shared in the same way. Their memory is that of all.
  template <class D>
  tensor(const shape& extents, const tensor<T, D, Device>& elements, first_elements) : base(extents, elements.bytes_) {
    detail::check_fits("tensor", Dims::spec, Dims::names, extents);
    if (elements.elements() < shape_.elements())
      throw error(error_code::invalid_argument, "tensor",
                  {"extents ", to_string(extents), " hold more elements than ", to_string(elements.extents())});
  }

  /// A copy of the elements that a view looks at. Throws invalid_argument if its extents do not fit `Dims`.
  template <class U, class D>
    requires std::is_same_v<std::remove_const_t<U>, T>
  tensor(const tensor_view<U, D>& elements) : tensor(elements.extents(), uninitialized{}) {
    static_assert(correct<assigned_extents_differ<D, Dims>>, "tensor: the view has other extents");
    if (elements.data()) __builtin_memcpy(static_cast<void*>(raw()), elements.data(), elements.elements() * sizeof(T));
  }

  // Constructors that others write, and that are not there.
  template <class = void>
  explicit tensor(...) = delete;  // tensor<T, dims<2, 3>>{1, 2, 3, 4, 5, 6}, or {shape(2, 3)} for zeros
  template <class Char>
    requires(std::is_same_v<Char, char>)
  tensor(std::initializer_list<const Char*>) : base(shape()) {
    static_assert(correct<tensor_is_not_made_of<const Char*>>, "tensor: elements are numbers, not text: {1, 2, 3}");
  }
  tensor(detail::values_in_braces, detail::values_in_braces, detail::values_in_braces = {},
         detail::values_in_braces = {})
    requires(Dims::rank > 0)
      : base(shape()) {
    static_assert(
        correct<nesting_differs<Dims>>,
        "tensor: values in braces are one list, row after row, or nested as the extents are: {{1, 2}, {3, 4}}");
  }
  template <class X>
    requires(!Expression<X> && !std::is_convertible_v<const X&, tensor>)
  tensor& operator=(const X&) {
    static_assert(correct<tensor_is_not_assigned<X>>,
                  "tensor: assign a tensor or an expression; x.fill(v) writes one number");
    return *this;
  }

  // No moves: a tensor always has its elements, also when another one was made of it by std::move.
  tensor(const tensor&) = default;
  tensor& operator=(const tensor&) = default;

  /// Row `i` along the first axis: a view through which it is written, `a[i] = b[j]`, `a[i][j] = 3`; of a vector, its
  /// element. It looks at the tensor's elements as a pointer of `data()` does. A row of a temporary is a tensor of its
  /// own. Throws out_of_range, where WEFT_CHECKED, if there is no such row; without it, that is undefined.
  template <class Index>
    requires detail::is_index<Index>
  decltype(auto) operator[](Index i) & {
    static_assert(correct<scalar_has_no_rows<Dims>>, "operator[]: a scalar's element is x()");
    const std::size_t at = detail::row_offset<Dims>(shape_, i);  // throws before storage is left
    return detail::row_at<Dims>(this->data() + at, shape_);
  }
  template <class Index>
    requires detail::is_index<Index>
  decltype(auto) operator[](Index i) const& {
    static_assert(correct<scalar_has_no_rows<Dims>>, "operator[]: a scalar's element is x()");
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

  /// Throws out_of_range, where WEFT_CHECKED, if there is no such element; without it, that is undefined.
  template <class... Index>
  T operator()(Index... index) const {
    static_assert(correct<indices_do_not_fit<Dims, Index...>>, "tensor: an element has one integer for each axis");
    static_assert(correct<index_out_of_range<Dims, Index...>>, "tensor: an index is not less than its extent");
    return this->data()[detail::offset(shape_, index...)];
  }
  /// For writing, at once: as with `data()`, a reference that is kept while the tensor is copied or used in an
  /// expression writes to what they share.
  template <class... Index>
  T& operator()(Index... index) {
    static_assert(correct<indices_do_not_fit<Dims, Index...>>, "tensor: an element has one integer for each axis");
    static_assert(correct<index_out_of_range<Dims, Index...>>, "tensor: an index is not less than its extent");
    const std::size_t at = detail::offset(shape_, index...);  // throws before storage is left
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

  /// Found by argument-dependent lookup in the layer that has the kernels.
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

/// A tensor of extents in another form than the canonical one, `dims<std::size_t{8}>`: a tensor of `dims<8>`.
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

/// A tensor whose types are asked for their own names. nvcc keeps with a type the ways by which it was found, and walks
/// through all of them: found through expressions, which name their operands several times, a result's would be many
/// times those of the layer before.
template <class T, class Dims, class Device, class... Arguments>
auto make_tensor(const Arguments&... a) {
  return tensor<typename element<T>::value_type, typename Dims::dims_type, typename Device::device_type>(a...);
}

}  // namespace detail

namespace detail {

// The extents of a view that says none.
struct no_dims : dims<> {
  using dims_type = no_dims;
};

}  // namespace detail

/// A view is made of a pointer, with the extents where the compiler does not know them, or of what stores its elements
/// contiguously.
template <class X>
struct view_is_not_made_of : mistake<true> {};

namespace detail {

/// A matrix of another library, that says how it is stored, as those of Eigen do.
template <class X>
concept Matrix = requires(X& x) {
  x.rows();
  x.cols();
  x.data();
  std::bool_constant<static_cast<bool>(std::remove_cv_t<X>::IsRowMajor)>();
};

/// Whether a matrix has one row or one column, which makes no order of them.
template <class X>
constexpr bool is_row_major() {
  if constexpr (requires { std::bool_constant<static_cast<bool>(X::IsVectorAtCompileTime)>(); })
    return static_cast<bool>(X::IsRowMajor) || static_cast<bool>(X::IsVectorAtCompileTime);
  else
    return static_cast<bool>(X::IsRowMajor);
}

template <class X, class Dims>
constexpr auto find_matrix_mistake() {
  if constexpr (!is_row_major<X>())
    return matrix_is_column_major<X>{};
  else if constexpr (Dims::rank == 2)
    return assigned_extents_differ<dims<dyn<"rows">, dyn<"columns">>, Dims>{};
  else
    return mistake<false>{};
}

/// X is what a forwarding reference deduces.
template <class X, class T, class Dims, bool WithExtents>
constexpr auto find_view_mistake() {
  using R = std::remove_reference_t<X>;
  using V = std::remove_cv_t<R>;
  if constexpr (requires(R& x) { std::data(x); }) {
    using Given = std::remove_pointer_t<decltype(std::data(std::declval<R&>()))>;
    if constexpr (!std::is_same_v<std::remove_const_t<Given>, std::remove_const_t<T>>)
      return element_types_differ<std::remove_const_t<Given>, std::remove_const_t<T>>{};
    else if constexpr (std::is_const_v<Given> && !std::is_const_v<T>)
      return elements_are_read_only<R>{};
    else if constexpr (!std::is_reference_v<X> && !std::ranges::enable_borrowed_range<V>)
      return view_of_a_temporary<V>{};
    else if constexpr (WithExtents)
      return mistake<false>{};
    else if constexpr (Expression<V>)
      return assigned_extents_differ<dims_t<V>, Dims>{};
    else if constexpr (Matrix<R>)
      return find_matrix_mistake<V, Dims>();
    else if constexpr (requires(R& x) { std::size(x); } && (Dims::is_static || Dims::rank == 1))
      return number_of_values_differs<Dims, fixed_size<V>>{};
    else
      return view_is_not_made_of<V>{};
  } else {
    return view_is_not_made_of<V>{};
  }
}
template <class X, class T, class Dims, bool WithExtents = false>
using view_mistake = decltype(find_view_mistake<X, T, Dims, WithExtents>());

/// The extents of a view of all elements of `x`.
template <class Dims, class X>
shape viewed_extents(X& x) {
  if constexpr (Expression<X>) {
    return x.extents();
  } else if constexpr (Matrix<X> && Dims::rank == 2) {
    const auto rows = static_cast<std::int64_t>(x.rows()), columns = static_cast<std::int64_t>(x.cols());
    if constexpr (requires { x.innerStride(), x.outerStride(); }) {
      const std::int64_t inner = x.innerStride(), outer = x.outerStride();
      const bool one_column = !std::remove_cv_t<X>::IsRowMajor && columns == 1;
      check_strides(shape(rows, columns), inner, one_column ? inner : outer);
    }
    return shape(rows, columns);
  } else {
    const auto size = static_cast<std::int64_t>(std::size(x));
    if constexpr (requires { x.innerStride(); }) check_strides(shape(size, 1), 1, x.innerStride());
    shape s = Dims::spec;
    if constexpr (Dims::rank == 1) s[0] = size;
    if (size != static_cast<std::int64_t>(s.elements())) refuse_count("tensor_view", std::size(x), s);
    return s;
  }
}

/// A view whose elements are read: assignment makes it look elsewhere, as that of std::span does.
template <class T>
class view_elements : public array_extents<T> {
 public:
  using element_type = T;

  view_elements(T* data, const shape& extents) : array_extents<T>(extents), data_(data) {}

  T* data() const { return data_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + this->size(); }
  const T* cbegin() const { return data_; }
  const T* cend() const { return data_ + this->size(); }

 protected:
  T* data_;
};

/// A view through which elements are written: by assignment too.
template <class T>
class writable_elements : public view_elements<T> {
 public:
  using view_elements<T>::view_elements;
  writable_elements(const writable_elements&) = default;
  writable_elements& operator=(const writable_elements& from) {
    assign_elements(from.data(), from.extents());
    return *this;
  }

  /// Writes one value to all elements.
  void fill(T value) const {
    for (T* p = this->begin(); p != this->end(); ++p) *p = value;
  }

 protected:
  void assign_elements(const T* from, const shape& extents) const {
    check_same_extents("tensor_view", extents, this->shape_);
    if (from) __builtin_memmove(this->data_, from, this->elements() * sizeof(T));
  }
};

template <class T>
using view_base = typename choose<std::is_const_v<T>>::template type<view_elements<T>, writable_elements<T>>;

}  // namespace detail

/// Elements that live elsewhere: an operand of expressions, and of steps that it is fed to. The viewed memory must
/// outlive the view and every expression in which it stands; nothing else in Weft keeps one past the call it is given
/// to. As with std::span, a const view of elements that are not const writes them; tensor_view<const T, ...> reads
/// only. Assignment to a view writes its elements; a view that reads only is made to look elsewhere.
template <class T, class Dims>
class tensor_view : public detail::tensor_number<detail::view_base<T>, std::remove_const_t<T>, Dims> {
  static_assert(correct<extents_are_not_valid<Dims>>,
                "tensor_view<T, dims<...>>: at most 8 integers, none negative; dyn<\"name\"> is an extent known at run "
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

  /// Throws invalid_argument if the extents do not fit `Dims`.
  tensor_view(T* data, const shape& extents) : base(data, extents) {
    detail::check_fits("tensor_view", Dims::spec, Dims::names, extents);
  }
  tensor_view(T* data)
    requires Dims::is_static
      : base(data, Dims::spec) {}
  tensor_view(T* data, const shape& extents, detail::extents_are_checked) : base(data, extents) {}

  tensor_view(const tensor<value_type, Dims>& t)
    requires std::is_const_v<T>
      : base(t.data(), t.extents()) {}
  tensor_view(tensor<value_type, Dims>& t) : base(t.data(), t.extents()) {}
  tensor_view(const tensor<value_type, Dims>&&) : base(nullptr, Dims::spec) {
    static_assert(correct<view_of_a_temporary<std::enable_if_t<Dims::rank <= max_rank, tensor<value_type, Dims>>>>,
                  "tensor_view: the tensor ends before the view: give it a name");
  }

  /// Another view of the elements, read only or under extents that fit `Dims`; throws invalid_argument where these do
  /// not.
  template <class U, class D>
    requires((std::is_same_v<U, T> || std::is_same_v<const U, T>) &&
             !(std::is_same_v<U, T> && std::is_same_v<D, Dims>) && correct<assigned_extents_differ<D, Dims>>)
  tensor_view(const tensor_view<U, D>& v) : base(v.data(), v.extents()) {
    if constexpr (!std::is_same_v<D, Dims>) detail::check_fits("tensor_view", Dims::spec, Dims::names, v.extents());
  }

  /// All elements of a vector, an array, a span or a matrix whose rows are contiguous: of what has data() and size(),
  /// or rows() and cols(), and is not a temporary. Throws invalid_argument if they are not as many as the extents say,
  /// or not contiguous.
  template <class X>
    requires(!std::is_pointer_v<std::remove_cvref_t<X>> && !std::is_same_v<std::remove_cvref_t<X>, tensor_view>)
  explicit tensor_view(X&& x) : base(nullptr, Dims::spec) {
    using mistake = detail::view_mistake<X, T, Dims>;
    static_assert(
        correct<mistake>,
        "tensor_view: made of a pointer and shape(...), or of a named tensor, vector, span or row-major matrix "
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
                  "tensor_view: made of a pointer and shape(...), or of a named vector or span of such elements");
    if constexpr (correct<mistake>) {
      if (std::size(x) != extents.elements()) detail::refuse_count("tensor_view", std::size(x), extents);
      data_ = std::data(x);
    }
  }

  tensor_view(const tensor_view&) = default;
  tensor_view& operator=(const tensor_view&) & = default;

  /// Exchanges the elements, as assignment writes them. Throws invalid_argument if the extents differ.
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

  /// Writes the elements: those of a view, a tensor or an expression of the same extents, in one pass.
  template <Expression Expr>
  const tensor_view& operator=(const Expr& e) const& {
    using mistake = std::conditional_t<std::is_const_v<T>, elements_are_read_only<tensor_view>,
                                       detail::tensor_mistake<Expr, value_type, Dims>>;
    static_assert(correct<mistake>,
                  "tensor_view: assigned what has its extents and elements, where these are not const");
    if constexpr (correct<mistake>) {
      if constexpr (Expr::operations == 0 && std::is_same_v<typename Expr::device_type, cpu>)
        this->assign_elements(e.data(), e.extents());
      else
        evaluate(e, *this);
    }
    return *this;
  }
  template <Expression Expr>  // as good a match as the assignment of a view that e converts to
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

  /// Row `i` along the first axis: a view or, of a vector, its element. Throws out_of_range, where WEFT_CHECKED, if
  /// there is no such row; without it, that is undefined.
  template <class Index>
    requires detail::is_index<Index>
  decltype(auto) operator[](Index i) const {
    static_assert(correct<scalar_has_no_rows<Dims>>, "operator[]: a scalar's element is x()");
    return detail::row_at<Dims>(data_ + detail::row_offset<Dims>(shape_, i), shape_);
  }

  /// Throws out_of_range, where WEFT_CHECKED, if there is no such element; without it, that is undefined.
  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(correct<indices_do_not_fit<Dims, Index...>>, "tensor_view: an element has one integer for each axis");
    static_assert(correct<index_out_of_range<Dims, Index...>>, "tensor_view: an index is not less than its extent");
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

// The extents of a tensor that says neither a type nor extents.
struct untyped : dims<> {
  using dims_type = untyped;
};

}  // namespace detail

template <Element T, class Device>
class tensor<T, detail::untyped, Device> {
 public:
  template <class = void>
  tensor(...) = delete;  // a tensor says its type and its extents: tensor<float, dims<2, 3>>
};
template <class = void>
tensor(...) -> tensor<float, detail::untyped>;
template <class T>
tensor(std::initializer_list<T>) -> tensor<float, detail::untyped>;

/// A view is of a type: tensor_view<const float, dims<dyn<"batch">, 784>>(p, shape(100, 784)).
template <class T>
tensor_view(T*, const shape&) -> tensor_view<T, detail::no_dims>;

template <class T, class Dims>
tensor_view(tensor<T, Dims>&) -> tensor_view<T, Dims>;
template <class T, class Dims>
tensor_view(const tensor<T, Dims>&) -> tensor_view<const T, Dims>;

template <class T, class Dims>
tensor(const tensor_view<T, Dims>&) -> tensor<std::remove_const_t<T>, Dims>;

}  // namespace weft

/// A view does not own its elements: iterators outlive it, and a std::span may be made of a temporary one.
template <class T, class Dims>
inline constexpr bool std::ranges::enable_borrowed_range<weft::tensor_view<T, Dims>> = true;

namespace std {

/// std::swap copies one view, which then looks at the elements that the other is assigned to.
template <class T, class D>
  requires(!is_const_v<T>)
void swap(weft::tensor_view<T, D>& a, weft::tensor_view<T, D>& b) {
  swap(weft::tensor_view<T, D>(a), weft::tensor_view<T, D>(b));
}

}  // namespace std

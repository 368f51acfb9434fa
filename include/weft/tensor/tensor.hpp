#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

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

/// A tensor is to be made without writing its elements: the caller writes them all.
struct uninitialized {};

/// A tensor is to be made of the first elements of another, as many as it has.
struct first_elements {};

namespace detail {

/// A number, or what has elements elsewhere: a vector, an array, a span, a pointer, a matrix of another library.
template <class X>
concept Foreign = (!Expression<X>) &&
                  (std::is_arithmetic_v<X> || std::is_pointer_v<X> || requires(const X& x) { x.data(), x.size(); });

}  // namespace detail

/// A tensor is made of values in braces, of its extents, `shape(...)`, of a tensor_view or of an expression.
template <class X>
struct tensor_is_not_made_of : mistake<true> {};

/// Values in braces fill a tensor of extents known to the compiler, row after row; others are said first.
template <class Dims>
struct values_need_extents : mistake<!Dims::is_static> {};

/// Values are written in one list, row after row.
template <class Dims>
struct values_are_nested : mistake<true> {};

/// A tensor is assigned a tensor or an expression.
template <class X>
struct tensor_is_not_assigned : mistake<true> {};

/// An element has one index for each axis, an integer.
template <class Dims, class... Index>
struct indices_do_not_fit
    : mistake<sizeof...(Index) != Dims::rank || !(detail::is_index<Index> && ...)> {};

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

/// A tensor as a number: that of a scalar is its element.
template <class Tensor, class T, class Dims>
struct tensor_number {
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
template <class Tensor, class T>
struct tensor_number<Tensor, T, dims<>> {
  operator T() const { return static_cast<const Tensor&>(*this).data()[0]; }
};

}  // namespace detail

/// Contiguous elements in row-major order, with value semantics: copies share storage until one of them is written. A
/// scalar converts to its element.
template <Element T, class Dims = dims<>, class Device = cpu>
class tensor : public detail::tensor_number<tensor<T, Dims, Device>, T, Dims> {
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
  tensor() requires Dims::is_static : tensor(Dims::spec) {}
  tensor() requires(!Dims::is_static) : tensor(empty()) {}

  /// Zeros of the given extents. Throws invalid_argument if they do not fit `Dims`, resource_exhausted if memory does
  /// not hold them.
  explicit tensor(const shape& extents) : tensor(extents, uninitialized{}) {
    __builtin_memset(static_cast<void*>(raw()), 0, elements() * sizeof(T));
  }

  /// Zeros in memory of this allocator, as are the tensor's elements from then on.
  template <Allocator A>
  tensor(const shape& extents, A) : tensor(extents, uninitialized{}, memory_resource_of<A>) {
    __builtin_memset(static_cast<void*>(raw()), 0, elements() * sizeof(T));
  }

  /// Row-major values. Throws invalid_argument if there are not as many as the extents say.
  tensor(std::initializer_list<T> values) requires(Dims::rank > 0) : tensor(Dims::spec, values) {
    static_assert(correct<values_need_extents<Dims>>,
                  "tensor: extents known at run time are given before the values: tensor<...> t{shape(...), {values}}");
  }
  tensor(const shape& extents, std::initializer_list<T> values) : tensor(extents, uninitialized{}) {
    if (values.size() != elements())
      throw error(error_code::invalid_argument, "tensor",
                  {values.size(), " values given for extents ", to_string(shape_)});
    std::size_t i = 0;
    for (const T& v : values) raw()[i++] = v;
  }
  tensor(T value) requires(Dims::rank == 0) : tensor(shape{}, uninitialized{}) { raw()[0] = value; }

  /// Evaluates the expression in one pass.
  template <Expression Expr>
    requires(!__is_base_of(tensor, Expr))
  tensor(const Expr& e) {
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

  tensor(const shape& extents, uninitialized, const memory_resource& source = memory_resource_of<>) : shape_(extents) {
    detail::check_fits("tensor", Dims::spec, Dims::names, extents);
    bytes_ = detail::storage_of("tensor", shape_, sizeof(T), source);
  }

  /// The elements of another tensor under other extents, shared with it until one of the two is written.
  template <class D>
  tensor(const shape& extents, const tensor<T, D, Device>& elements) : shape_(extents), bytes_(elements.bytes_) {
    detail::check_fits("tensor", Dims::spec, Dims::names, extents);
    if (elements.elements() != shape_.elements())
      throw error(error_code::invalid_argument, "tensor",
                  {"extents ", to_string(extents), " do not hold the elements of ", to_string(elements.extents())});
  }

  /// The first elements of another tensor under other extents, shared in the same way. Their memory is that of all.
  template <class D>
  tensor(const shape& extents, const tensor<T, D, Device>& elements, first_elements)
      : shape_(extents), bytes_(elements.bytes_) {
    detail::check_fits("tensor", Dims::spec, Dims::names, extents);
    if (elements.elements() < shape_.elements())
      throw error(error_code::invalid_argument, "tensor",
                  {"extents ", to_string(extents), " hold more elements than ", to_string(elements.extents())});
  }

  /// A copy of the elements that a view looks at. Throws invalid_argument if its extents do not fit `Dims`.
  template <class U, class D>
  requires std::is_same_v<std::remove_const_t<U>, T>
  explicit tensor(const tensor_view<U, D>& elements) : tensor(elements.extents(), uninitialized{}) {
    static_assert(correct<assigned_extents_differ<D, Dims>>, "tensor: the view has other extents");
    if (elements.data()) __builtin_memcpy(static_cast<void*>(raw()), elements.data(), elements.elements() * sizeof(T));
  }

  // Constructors that others write, and that are not there.
  template <class = void>
  explicit tensor(...) = delete;  // tensor<T, dims<2, 3>>{1, 2, 3, 4, 5, 6}, or {shape(2, 3)} for zeros
  template <detail::Foreign X>
    requires(Dims::rank > 0)
  explicit tensor(const X&) {
    static_assert(correct<tensor_is_not_made_of<X>>,
                  "tensor: write values in braces, shape(...) for zeros, or tensor_view<T, dims<...>>(p, shape(...))");
  }
  template <class Char>
  requires(std::is_same_v<Char, char>) tensor(std::initializer_list<const Char*>) {
    static_assert(correct<tensor_is_not_made_of<const Char*>>, "tensor: elements are numbers, not text: {1, 2, 3}");
  }
  tensor(detail::braces, detail::braces, detail::braces = {}, detail::braces = {}) requires(Dims::rank > 1) {
    static_assert(correct<values_are_nested<Dims>>, "tensor: values stand in one list, row after row: {1, 2, 3, 4}");
  }
  template <class X>
    requires(!Expression<X> && !std::is_convertible_v<const X&, tensor>)
  tensor& operator=(const X&) {
    static_assert(correct<tensor_is_not_assigned<X>>,
                  "tensor: assign a tensor or an expression; std::fill_n(x.data(), x.elements(), v) fills it");
    return *this;
  }

  // No moves: a tensor always has its elements, also when another one was made of it by std::move.
  tensor(const tensor&) = default;
  tensor& operator=(const tensor&) = default;

  const shape& extents() const { return shape_; }
  std::int64_t extent(std::size_t axis) const { return shape_[axis]; }
  std::size_t elements() const { return shape_.elements(); }

  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  /// For writing: leaves the storage that others share to them first. The pointer writes to this tensor alone until the
  /// tensor is copied or used in an expression, which share what it points to; ask again after that.
  T* data() {
    detach();
    return raw();
  }
  const T* begin() const { return data(); }
  const T* end() const { return data() + elements(); }

  /// Throws out_of_range, where WEFT_CHECKED, if there is no such element; without it, that is undefined.
  template <class... Index>
  T operator()(Index... index) const {
    static_assert(correct<indices_do_not_fit<Dims, Index...>>, "tensor: an element has one integer for each axis");
    static_assert(correct<index_out_of_range<Dims, Index...>>, "tensor: an index is not less than its extent");
    return data()[detail::offset(shape_, index...)];
  }
  /// For writing, at once: as with `data()`, a reference that is kept while the tensor is copied or used in an
  /// expression writes to what they share.
  template <class... Index>
  T& operator()(Index... index) {
    static_assert(correct<indices_do_not_fit<Dims, Index...>>, "tensor: an element has one integer for each axis");
    static_assert(correct<index_out_of_range<Dims, Index...>>, "tensor: an index is not less than its extent");
    const std::size_t at = detail::offset(shape_, index...);  // throws before storage is left
    return data()[at];
  }

  /// Whether writing elements of these extents needs no other storage than what this tensor alone holds.
  bool can_hold(const shape& extents) const { return bytes_.data() && bytes_.unique() && shape_ == extents; }

 private:
  template <Element U, class D, class Dev>
  friend class tensor;
  friend struct detail::tensor_storage;

  tensor(const shape& extents, storage bytes) : shape_(extents), bytes_(static_cast<storage&&>(bytes)) {}

  static shape empty() {
    shape s = Dims::spec;
    for (std::size_t i = 0; i < s.rank; ++i)
      if (s[i] < 0) s[i] = 0;
    return s;
  }

  T* raw() { return reinterpret_cast<T*>(bytes_.data()); }

  void detach() {
    if (bytes_.unique()) return;
    storage mine = detail::storage_of("tensor", shape_, sizeof(T), bytes_.source());
    __builtin_memcpy(mine.data(), bytes_.data(), elements() * sizeof(T));
    bytes_ = static_cast<storage&&>(mine);
  }

  /// Found by argument-dependent lookup in the layer that has the kernels.
  template <class Expr>
  void assign(const Expr& e) {
    if constexpr (correct<detail::tensor_mistake<Expr, T, Dims>>) evaluate(e, *this);
  }

  shape shape_;
  storage bytes_;
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

/// A view is made of a pointer, with the extents where they are not known to the compiler, or of a tensor.
template <class X>
struct view_is_not_made_of : mistake<true> {};

/// Elements that live elsewhere, to be fed to a step or read. The viewed memory must outlive the view; nothing in Weft
/// keeps one past the call it is given to.
template <class T, class Dims>
class tensor_view {
  static_assert(correct<extents_are_not_valid<Dims>>,
                "tensor_view<T, dims<...>>: at most 8 integers, none negative; dyn<\"name\"> is an extent known at run "
                "time");

 public:
  using value_type = std::remove_const_t<T>;
  using dims_type = Dims;

  tensor_view(T* data, const shape& extents) : data_(data), shape_(extents) {
    detail::check_fits("tensor_view", Dims::spec, Dims::names, extents);
  }
  tensor_view(T* data) requires Dims::is_static : data_(data), shape_(Dims::spec) {}
  tensor_view(const tensor<value_type, Dims>& t) requires std::is_const_v<T> : data_(t.data()), shape_(t.extents()) {}
  tensor_view(tensor<value_type, Dims>& t) : data_(t.data()), shape_(t.extents()) {}
  template <detail::Foreign X>
    requires(!std::is_pointer_v<X>)
  explicit tensor_view(const X&) : tensor_view(nullptr, shape()) {
    static_assert(correct<view_is_not_made_of<X>>, "tensor_view: it is made of a pointer and shape(...)");
  }

  T* data() const { return data_; }
  const shape& extents() const { return shape_; }
  std::size_t elements() const { return shape_.elements(); }
  T* begin() const { return data_; }
  T* end() const { return data_ + elements(); }

  /// Throws out_of_range, where WEFT_CHECKED, if there is no such element; without it, that is undefined.
  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(correct<indices_do_not_fit<Dims, Index...>>, "tensor_view: an element has one integer for each axis");
    static_assert(correct<index_out_of_range<Dims, Index...>>, "tensor_view: an index is not less than its extent");
    return data_[detail::offset(shape_, index...)];
  }

 private:
  T* data_;
  shape shape_;
};

template <class T, class Dims>
  requires(!Dims::is_canonical)
class tensor_view<T, Dims> : public tensor_view<T, dims_t<Dims>> {
  using canonical_view = tensor_view<T, dims_t<Dims>>;

 public:
  using canonical_view::canonical_view;
  tensor_view(const canonical_view& v) : canonical_view(v) {}
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
tensor(const tensor_view<T, Dims>&) -> tensor<std::remove_const_t<T>, Dims>;

}  // namespace weft

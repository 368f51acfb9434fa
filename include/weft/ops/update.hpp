#pragma once

#include <type_traits>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/loop.hpp>
#include <weft/device/exact.hpp>
#include <weft/device/kernel.hpp>
#include <weft/ops/elementwise.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/state.hpp>

/// An optimizer's formula (train/optimizers.hpp; docs/how-to/optimizers.md) becomes the loop that a CPU and a parameter
/// server run, and the operation. ops/gpu/update.hpp makes a GPU's kernels of it.
namespace weft {

/// A hyperparameter is one number.
template <class Dims>
struct hyperparameter_is_not_scalar : mistake<Dims::rank != 0> {};

/// In an optimizer's formula hyperparameters and constants meet each other, before one is of the type that it is
/// rounded to.
template <class T>
struct number_has_no_type : mistake<true> {};

namespace detail {

struct untyped_number {
  template <class T>
  constexpr operator exact<T>() const {
    static_assert(correct<number_has_no_type<T>>, "hyperparameters and constants alone: V(1) - beta, V(2) * beta");
    return exact<T>(0);
  }
};

}  // namespace detail

/// A hyperparameter is a number, not text.
template <class X>
struct hyperparameter_is_not_a_number : mistake<true> {};

/// A number that governs an optimizer: known when the graph is written or, of a scalar of the graph, in each step.
class hyperparameter {
 public:
  WEFT_HOST_DEVICE constexpr hyperparameter(double number) : value_(number) {}
  /// Converts the value of a scalar to double where its element type is another.
  template <Expression Expr>
  hyperparameter(const Expr& scalar) {
    using mistake = first_mistake<value_not_in_a_graph<Expr>, hyperparameter_is_not_scalar<dims_t<Expr>>>;
    static_assert(correct<mistake>, "an optimizer's hyperparameter is a number, or a scalar of the graph");
    if constexpr (correct<mistake>) value_ = let(cast<double>(scalar)).erased();
  }

  template <std::size_t Count>
  constexpr hyperparameter(const char (&)[Count]) {
    static_assert(correct<hyperparameter_is_not_a_number<char[Count]>>,
                  "an optimizer's hyperparameter is a number, or a scalar of the graph");
  }

  constexpr bool is_number() const { return value_.is_number(); }
  constexpr double number() const { return value_.number(); }
  symbol node() const { return value_; }

  // In a formula it always is a number.
  WEFT_HOST_DEVICE constexpr explicit operator double() const { return value_.number(); }
  WEFT_HOST_DEVICE constexpr explicit operator float() const { return static_cast<float>(value_.number()); }
  template <class T>
  WEFT_HOST_DEVICE WEFT_INLINE operator exact<T>() const {
    return exact<T>(static_cast<T>(*this));
  }
#define WEFT_UNTYPED(name) \
  friend constexpr detail::untyped_number name(const hyperparameter&, const hyperparameter&) { return {}; }
  WEFT_UNTYPED(operator+)
  WEFT_UNTYPED(operator-)
  WEFT_UNTYPED(operator*)
  WEFT_UNTYPED(operator/)
#undef WEFT_UNTYPED

 private:
  symbol value_;
};

/// An optimizer's formula uses a function that processors, compilers and GPUs do not round alike.
template <class T>
struct function_not_exact : mistake<true> {};

// The functions that a formula may use are friends of `exact`. Other functions of elementwise operations are refused,
// as `exp(x)` and as `math::exp(x)`.
namespace detail {
template <class T>
exact<T> refuse_function(exact<T> x) {
  static_assert(correct<function_not_exact<T>>,
                "an optimizer's formula is made of + - * /, sqrt(x), abs(x), max(x, y), min(x, y) and comparisons: all "
                "processors round these alike");
  return x;
}
}  // namespace detail
#define WEFT_REFUSED(name, operands)          \
  template <class T, class... More>           \
  exact<T> name(exact<T> x, const More&...) { \
    return refuse_function(x);                \
  }
namespace detail::refused {
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_REFUSED, WEFT_REFUSED)
}
#undef WEFT_REFUSED
#define WEFT_FUNCTION(name, operands) using weft::detail::refused::name;
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_FUNCTION, WEFT_FUNCTION)
namespace math {
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_FUNCTION, WEFT_NO_ROW)
}
#undef WEFT_FUNCTION

/// The state that an optimizer remembers between steps, in a variable of its own: a number beside each element of the
/// variable that it trains, or one for all of them.
struct slot {
  const char* name;
  hyperparameter first = 0;  ///< its value before the first step
  bool scalar = false;

  constexpr slot(const char* slot_name, hyperparameter first_value = 0) : name(slot_name), first(first_value) {}
};
/// A slot of one number for all elements of the variable.
constexpr slot scalar_slot(const char* name, hyperparameter first = 0) {
  slot s(name, first);
  s.scalar = true;
  return s;
}

/// The slots of an optimizer, which its `slots()` returns: `return slot_list{slot("m"), slot("v")};`
template <std::size_t Count>
struct slot_list {
  slot all[Count];
};
template <class... Slot>
slot_list(Slot...) -> slot_list<sizeof...(Slot)>;

/// The result of an optimizer's `norms`: for each the value at one element.
template <class V, std::size_t Count>
struct norm_list {
  V all[Count];
};
template <class V, class... More>
norm_list(V, More...) -> norm_list<V, 1 + sizeof...(More)>;

namespace detail {

inline constexpr std::size_t max_slots = 8, max_hyperparameters = 16;

template <class Member>
inline constexpr bool is_member_type =
    std::is_same_v<Member, hyperparameter> || std::is_same_v<Member, bool> || std::is_same_v<Member, float> ||
    std::is_same_v<Member, double> || ((std::is_integral_v<Member> || std::is_enum_v<Member>) && sizeof(Member) <= 4);

/// A member of an optimizer, of its value as a double, which is exact.
struct member_value {
  double number;
  template <class Member>
    requires(is_member_type<Member>)
  WEFT_HOST_DEVICE constexpr operator Member() const {
    return static_cast<Member>(number);
  }
};
/// Becomes a hyperparameter and nothing else.
struct hyperparameter_probe {
  constexpr operator hyperparameter() const { return 0; }
};
struct any_member {
  template <class Member>
  constexpr operator Member() const;
};
template <class Optimizer, class Member, std::size_t... Index>
constexpr bool takes_members(indices<Index...>) {
  return requires { Optimizer{(static_cast<void>(Index), Member{})...}; };
}
template <class Optimizer, class Member, std::size_t Count>
inline constexpr bool is_made_of = takes_members<Optimizer, Member>(typename make_indices<Count>::type());

template <class Optimizer, std::size_t Count>
constexpr std::size_t count_members_down() {
  if constexpr (Count == 0 || is_made_of<Optimizer, member_value, Count>)
    return Count;
  else
    return count_members_down<Optimizer, Count - 1>();
}
template <class Optimizer>
constexpr std::size_t count_members() {
  constexpr std::size_t most = sizeof(Optimizer) / sizeof(hyperparameter);
  if constexpr (std::is_empty_v<Optimizer>)
    return 0;
  else if constexpr (most > 0 && sizeof(Optimizer) == most * sizeof(hyperparameter) &&
                     is_made_of<Optimizer, hyperparameter_probe, most>)
    return most;
  else
    return count_members_down<Optimizer, max_hyperparameters>();
}
template <class Optimizer>
inline constexpr std::size_t members_of = count_members<Optimizer>();

template <std::size_t Count>
constexpr std::size_t count_slots(const slot_list<Count>&) {
  return Count;
}
template <class Optimizer>
constexpr std::size_t count_slots() {
  if constexpr (requires { Optimizer{}.slots(); })
    return count_slots(Optimizer{}.slots());
  else
    return 0;
}
/// One bit for each slot: whether it is a scalar.
template <class Optimizer>
constexpr std::uint32_t find_scalars() {
  std::uint32_t mask = 0;
  if constexpr (count_slots<Optimizer>() != 0)
    for (std::size_t k = 0; k < count_slots<Optimizer>(); ++k)
      mask |= std::uint32_t{Optimizer{}.slots().all[k].scalar} << k;
  return mask;
}

template <class Optimizer>
inline constexpr std::size_t slots_of = count_slots<Optimizer>();
template <class Optimizer>
inline constexpr std::uint32_t scalars_of = find_scalars<Optimizer>();
template <class Optimizer, std::size_t Slot>
inline constexpr bool is_scalar = (scalars_of<Optimizer> & (1u << Slot)) != 0;
/// How many of the slots before this one are scalars, or lie beside each element.
constexpr std::size_t scalars_before(std::uint32_t scalars, std::size_t slot) {
  return static_cast<std::size_t>(__builtin_popcount(scalars & ((1u << slot) - 1)));
}
constexpr std::size_t arrays_before(std::uint32_t scalars, std::size_t slot) {
  return slot - scalars_before(scalars, slot);
}

template <class Optimizer>
using parameter_indices = typename make_indices<members_of<Optimizer>>::type;
template <class Optimizer>
using slot_indices = typename make_indices<slots_of<Optimizer>>::type;

template <class Optimizer>
constexpr bool has_right_members() {
  return std::is_empty_v<Optimizer> || (std::is_trivially_copyable_v<Optimizer> && members_of<Optimizer> != 0 &&
                                        !is_made_of<Optimizer, any_member, members_of<Optimizer> + 1>);
}

/// A slot as `update` takes it: a scalar is for all elements, and not written.
template <class Optimizer, std::size_t Slot, class V>
WEFT_HOST_DEVICE WEFT_INLINE auto& as_operand(V& x) {
  if constexpr (is_scalar<Optimizer, Slot>)
    return static_cast<const V&>(x);
  else
    return x;
}

// In traits and not in `requires`: nvcc 13 ends with an internal error at packs of operands there.
template <class Optimizer, std::size_t Slot>
std::conditional_t<is_scalar<Optimizer, Slot>, const exact<float>&, exact<float>&> operand_of();
template <std::size_t>
exact<float>& scalar_operand();

template <std::size_t Count>
struct norm_count {
  static constexpr std::size_t value = Count;
};
template <class V, std::size_t Count>
norm_count<Count> count_norms(const norm_list<V, Count>&);
template <class Optimizer, std::size_t... Slot>
constexpr auto find_norms(indices<Slot...>, const Optimizer* o, const exact<float>* x)
    -> decltype(count_norms(o->norms(*x, x[Slot]..., *x)).value) {
  return decltype(count_norms(o->norms(*x, x[Slot]..., *x)))::value;
}
template <class Optimizer>
constexpr std::size_t find_norms(...) {
  return 0;
}
template <class Optimizer>
inline constexpr std::size_t norms_of = find_norms<Optimizer>(slot_indices<Optimizer>(), nullptr, nullptr);
template <class Optimizer>
using norm_indices = typename make_indices<norms_of<Optimizer>>::type;
/// The numbers of a step that are no slots: the members and, behind them, the norms.
template <class Optimizer>
inline constexpr std::size_t hyperparameters_of = members_of<Optimizer> + norms_of<Optimizer>;

template <class Optimizer, std::size_t... Slot, std::size_t... Norm>
constexpr auto has_update(indices<Slot...>, indices<Norm...>, const Optimizer* o, exact<float>* x,
                          const exact<float>* gradient)
    -> decltype(o->update(*x, operand_of<Optimizer, Slot>()..., *gradient, gradient[Norm]...), true) {
  return true;
}
template <class Optimizer>
constexpr bool has_update(...) {
  return false;
}
template <class Optimizer>
constexpr bool has_name() {
  if constexpr (requires { Optimizer::name; })
    return std::is_convertible_v<decltype(Optimizer::name), const char*>;
  else
    return false;
}
template <class Optimizer, std::size_t... Scalar>
constexpr auto has_advance(indices<Scalar...>, const Optimizer* o)
    -> decltype(o->advance(scalar_operand<Scalar>()...), true) {
  return true;
}
template <class Optimizer>
constexpr bool has_advance(...) {
  return false;
}
template <class Optimizer>
inline constexpr std::size_t scalar_count = scalars_before(scalars_of<Optimizer>, slots_of<Optimizer>);
template <class Optimizer>
using scalar_indices = typename make_indices<scalar_count<Optimizer>>::type;

}  // namespace detail

/// An optimizer's members are its hyperparameters, each of type `hyperparameter`, or numbers, bools and enumerations.
template <class Optimizer>
struct optimizer_members_are_not_hyperparameters : mistake<!detail::has_right_members<Optimizer>()> {};

template <class Optimizer>
struct optimizer_has_no_name : mistake<!detail::has_name<Optimizer>()> {};

template <class Optimizer>
struct optimizer_is_too_large : mistake<(detail::slots_of<Optimizer> > detail::max_slots) ||
                                        (detail::hyperparameters_of<Optimizer> > detail::max_hyperparameters)> {};

/// It is called with the variable, the slots in the order in which slots() has them, scalars among them as `const V&`
/// or `V`, the gradient, and the norms, if any, in the same way.
template <class Optimizer>
struct optimizer_has_no_fitting_update
    : mistake<!detail::has_update<Optimizer>(detail::slot_indices<Optimizer>(), detail::norm_indices<Optimizer>(),
                                             nullptr, nullptr, nullptr)> {};

/// Its scalar slots are brought to a step's values by `advance`, which is called with them once, before any element.
template <class Optimizer>
struct optimizer_has_no_fitting_advance
    : mistake<detail::scalar_count<Optimizer> != 0 &&
              !detail::has_advance<Optimizer>(detail::scalar_indices<Optimizer>(), nullptr)> {};

/// The mistake in an optimizer, if there is one.
template <class Optimizer>
using optimizer_mistake =
    first_mistake<optimizer_members_are_not_hyperparameters<Optimizer>, optimizer_is_too_large<Optimizer>,
                  optimizer_has_no_name<Optimizer>, optimizer_has_no_fitting_update<Optimizer>,
                  optimizer_has_no_fitting_advance<Optimizer>>;

namespace detail {

/// Uses the formula, so that what is wrong in it is said of the call that names the optimizer.
template <class Optimizer, class V, std::size_t... Slot, std::size_t... Scalar, std::size_t... Norm>
auto use_formula(const Optimizer& o, V* x, indices<Slot...>, indices<Scalar...>, indices<Norm...>) {
  if constexpr (sizeof...(Scalar) != 0) o.advance(x[Scalar]...);
  o.update(*x, as_operand<Optimizer, Slot>(x[Slot])..., *x, x[Norm]...);
}

// The numbers of a step: the hyperparameters, then the scalar slots, all as the bits of doubles.

template <class Optimizer, std::size_t... Index>
WEFT_HOST_DEVICE WEFT_INLINE constexpr Optimizer optimizer_of(const member_value* members, indices<Index...>) {
  static_cast<void>(members);
  if constexpr (requires { typename Optimizer::extended; }) {  // one with another in it (train/decay.hpp)
    using inner = typename Optimizer::extended;
    return Optimizer{optimizer_of<inner>(members, parameter_indices<inner>()), members[sizeof...(Index) - 1]};
  } else {
    return Optimizer{members[Index]...};
  }
}
template <class Optimizer, std::size_t... Index>
WEFT_INLINE Optimizer optimizer_of(const std::uint64_t* numbers, indices<Index...> all) {
  static_cast<void>(numbers);
  const member_value members[] = {{literal_value<double>(numbers[Index])}..., {0.0}};
  return optimizer_of<Optimizer>(members, all);
}

template <class Optimizer, std::size_t Slot, class T>
WEFT_INLINE void load_slot(exact<T>& x, exact<T> scalar, const T* array, std::size_t i) {
  if constexpr (is_scalar<Optimizer, Slot>)
    x = scalar;
  else
    x = exact<T>(array[i]);
}
template <class Optimizer, std::size_t Slot, class T>
WEFT_INLINE void store_slot(exact<T> x, T* array, std::size_t i) {
  if constexpr (!is_scalar<Optimizer, Slot>) array[i] = x.value();
}

/// in: the gradient, last. out: the variable and the slots that are no scalars; with `Copies` where to write the
/// variable's new values once more.
template <class Optimizer, class T, bool Copies, std::size_t... Slot, std::size_t... Norm>
WEFT_INLINE void update_elements(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* numbers,
                                 indices<Slot...>, indices<Norm...>) {
  using V = exact<T>;
  constexpr std::size_t slots = sizeof...(Slot), arrays = 1 + arrays_before(scalars_of<Optimizer>, slots);
  [[maybe_unused]] constexpr std::size_t parameters = hyperparameters_of<Optimizer>;
  const Optimizer optimizer = optimizer_of<Optimizer>(numbers, parameter_indices<Optimizer>());
  const T* const gradient = static_cast<const T*>(in[arrays]);
  T* const variable = static_cast<T*>(out[0]);
  [[maybe_unused]] T* const copy = static_cast<T*>(Copies ? out[arrays] : nullptr);
  [[maybe_unused]] T* const array[slots + 1] = {
      static_cast<T*>(is_scalar<Optimizer, Slot> ? nullptr : out[1 + arrays_before(scalars_of<Optimizer>, Slot)])...,
      nullptr};
  [[maybe_unused]] const V scalar[slots + 1] = {
      V(is_scalar<Optimizer, Slot>
            ? literal_value<double>(numbers[parameters + scalars_before(scalars_of<Optimizer>, Slot)])
            : 0.0)...,
      V(0)};
  [[maybe_unused]] const V norm[] = {V(literal_value<double>(numbers[members_of<Optimizer> + Norm]))..., V(0)};
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) {
    V x(variable[i]), s[slots + 1];
    const V upstream(gradient[i]);
    (load_slot<Optimizer, Slot>(s[Slot], scalar[Slot], array[Slot], i), ...);
    optimizer.update(x, as_operand<Optimizer, Slot>(s[Slot])..., upstream, norm[Norm]...);
    (store_slot<Optimizer, Slot>(s[Slot], array[Slot], i), ...);
    variable[i] = x.value();
    if constexpr (Copies) copy[i] = x.value();
  }
}
template <class Optimizer, class T, bool Copies>
void update_block(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* numbers) {
  update_elements<Optimizer, T, Copies>(in, out, n, numbers, slot_indices<Optimizer>(), norm_indices<Optimizer>());
}

template <class Optimizer, class T, std::size_t... Scalar>
WEFT_INLINE void advance_scalars(std::uint64_t* numbers, indices<Scalar...>) {
  using V = exact<T>;
  const Optimizer optimizer = optimizer_of<Optimizer>(numbers, parameter_indices<Optimizer>());
  std::uint64_t* const at = numbers + hyperparameters_of<Optimizer>;
  V scalar[] = {V(literal_value<double>(at[Scalar]))...};
  optimizer.advance(scalar[Scalar]...);
  ((at[Scalar] = literal_bits(static_cast<double>(scalar[Scalar].value()))), ...);
}
template <class Optimizer, class T>
WEFT_UNFUSED()
void advance_numbers(std::uint64_t* numbers) {
  if constexpr (scalar_count<Optimizer> != 0) advance_scalars<Optimizer, T>(numbers, scalar_indices<Optimizer>());
}

/// Makes a step's numbers of those of the step before, for elements of type T.
using advance_function = void (*)(std::uint64_t* numbers);
inline constexpr std::size_t max_numbers = max_hyperparameters + max_slots;

}  // namespace detail

/// The parts of an optimizer, beside its loops for one element type.
struct update_layout {
  const char* name;
  std::size_t hyperparameters, slots;
  std::uint32_t scalars;  ///< one bit for each slot
  std::size_t norms = 0;  ///< the last of the hyperparameters: values of the graph

  constexpr std::size_t arrays() const { return detail::arrays_before(scalars, slots); }
  constexpr bool is_scalar(std::size_t slot) const { return (scalars >> slot) & 1; }
};

/// The attributes of an update.
struct update_attributes {
  attribute<std::uint32_t> computed;  ///< one bit for each hyperparameter that is a value of the graph
  attribute<std::size_t> row_lists;   ///< how many lists of rows a gradient is; 0 for a whole one
  /// Its gradient has been summed by others, and is fed: all rows in one list, whose indices are -1 for a row that has
  /// none. Such an update stands beside one of the same variable by rows; no step runs it otherwise.
  attribute<bool> summed;
};

/// An update of a graph, its operands by name.
///
/// Inputs: the variable, its slots, the hyperparameters that are values of the graph, then the gradient. Literals: the
/// other hyperparameters, in their places. An update by rows has lists in the gradient's place: rows, and their
/// indices; no index is there twice, and -1 is none.
class update_view {
 public:
  explicit update_view(const node_def& update)
      : def_(update), layout_(*update.op->update), attributes_(attributes_of<any_update>(update)) {}

  // Which input each is.
  static constexpr std::size_t variable_input() { return 0; }
  static constexpr std::size_t slot_input(std::size_t slot) { return 1 + slot; }
  std::size_t hyperparameter_input(std::size_t k) const {
    return 1 + layout_.slots + static_cast<std::size_t>(__builtin_popcount(attributes_.computed & ((1u << k) - 1)));
  }
  std::size_t gradient_input() const { return def_.inputs.size() - (row_lists() ? 2 * row_lists() : 1); }
  std::size_t rows_input(std::size_t list) const { return gradient_input() + 2 * list; }
  std::size_t row_indices_input(std::size_t list) const { return rows_input(list) + 1; }

  value variable() const { return def_.inputs[variable_input()]; }
  /// All of it; of rows, those of the first list.
  value gradient() const { return def_.inputs[gradient_input()]; }
  /// One that is computed.
  value hyperparameter(std::size_t k) const { return def_.inputs[hyperparameter_input(k)]; }
  value rows(std::size_t list) const { return def_.inputs[rows_input(list)]; }
  value row_indices(std::size_t list) const { return def_.inputs[row_indices_input(list)]; }

  const update_layout& layout() const { return layout_; }
  bool is_computed(std::size_t hyperparameter) const { return (attributes_.computed >> hyperparameter) & 1; }
  bool computes_hyperparameters() const { return attributes_.computed != 0; }
  std::size_t row_lists() const { return attributes_.row_lists; }
  bool is_summed() const { return attributes_.summed; }
  /// A hyperparameter that is a number.
  double number(std::size_t hyperparameter) const {
    return detail::literal_value<double>(def_.literals[hyperparameter]);
  }
  /// The rate of gradient descent (fusion_kind::descent): its first hyperparameter is the factor of the gradient.
  double descent_rate() const { return number(0); }

  std::string attributes_text() const {
    if (row_lists() == 0) return {};
    return is_summed() ? std::string(" of summed rows") : str_cat({" of ", row_lists(), " lists of rows"});
  }

 private:
  struct any_update {
    using attributes = update_attributes;
  };

  const node_def& def_;
  const update_layout& layout_;
  update_attributes attributes_;
};

namespace detail {

template <class Optimizer>
inline constexpr update_layout layout_of{Optimizer::name, hyperparameters_of<Optimizer>, slots_of<Optimizer>,
                                         scalars_of<Optimizer>, norms_of<Optimizer>};

WEFT_COLD_BEGIN

kernel* prepare_update(const prepare_context&, const update_layout&, device::block_function, advance_function);
/// Throws invalid_argument unless the operands of an update fit.
void check_update(const prepare_context&, const update_layout&);

#if WEFT_DEFINITIONS

WEFT_DECL void check_update(const prepare_context& p, const update_layout& of) {
  for (std::size_t k = 0; k < of.slots; ++k)
    if (!of.is_scalar(k)) check_assigned(p, update_view::slot_input(k));
  const update_view u(p.c);
  if (u.row_lists() == 0) return check_assigned(p, u.gradient_input());
  const axis_rows rows(p.inputs[u.variable_input()].extents, 0);
  for (std::size_t k = 0; k < u.row_lists(); ++k) {
    const shape &x = p.inputs[u.rows_input(k)].extents, &n = p.inputs[u.row_indices_input(k)].extents;
    if (x.elements() != n.elements() * rows.inner)
      throw error(error_code::invalid_argument, p.c.op->name,
                  {"rows of extents ", to_string(x), " with indices of ", to_string(n), " do not fit a variable of ",
                   to_string(p.inputs[0].extents)});
  }
}

/// The numbers of each step.
class step_numbers {
 public:
  step_numbers(const prepare_context& p, const update_layout& of, advance_function advance)
      : layout_(of), advance_(advance), type_(p.inputs[0].type), numbers_(p.c.literals) {
    for (std::size_t k = 0; k < of.slots; ++k)
      if (of.is_scalar(k)) scalars_.push_back(p.input_slots[update_view::slot_input(k)]);
    const update_view u(p.c);
    for (std::size_t k = 0; k < of.hyperparameters; ++k)
      if (u.is_computed(k)) computed_[k] = p.input_slots[u.hyperparameter_input(k)], any_computed_ |= 1u << k;
  }

  /// Brings the scalar slots to their values of the step, too.
  void find(const kernel_context& f, std::uint64_t* numbers) const {
    for (std::size_t k = 0; k < layout_.hyperparameters; ++k) numbers[k] = numbers_[k];
    for (std::size_t k = 0; any_computed_ >> k; ++k)
      if ((any_computed_ >> k) & 1) __builtin_memcpy(numbers + k, f.buffers[computed_[k]], sizeof(double));
    std::uint64_t* const scalars = numbers + layout_.hyperparameters;
    for (std::size_t k = 0; k < scalars_.size(); ++k) scalars[k] = literal_bits(scalar(f.buffers[scalars_[k]]));
    if (!scalars_.empty()) advance_(numbers);
    for (std::size_t k = 0; k < scalars_.size(); ++k)
      set_scalar(f.buffers[scalars_[k]], literal_value<double>(scalars[k]));
  }
  std::string describe() const { return str_cat({layout_.name, " ", name(type_)}); }

 private:
  double scalar(const std::byte* at) const {
    return type_ == dtype::float64 ? *reinterpret_cast<const double*>(at)
                                   : static_cast<double>(*reinterpret_cast<const float*>(at));
  }
  void set_scalar(std::byte* at, double x) const {
    if (type_ == dtype::float64)
      *reinterpret_cast<double*>(at) = x;
    else
      *reinterpret_cast<float*>(at) = static_cast<float>(x);
  }

  const update_layout& layout_;
  advance_function advance_;
  dtype type_;
  sequence<std::uint64_t> numbers_;
  sequence<std::uint32_t> scalars_;
  std::uint32_t computed_[max_hyperparameters], any_computed_ = 0;  // where they are; one bit for each that is
};

/// Where the variable is, then the slots that are no scalars.
inline sequence<std::uint32_t> updated_arrays(const prepare_context& p, const update_layout& of) {
  sequence<std::uint32_t> arrays{p.input_slots[update_view::variable_input()]};
  for (std::size_t k = 0; k < of.slots; ++k)
    if (!of.is_scalar(k)) arrays.push_back(p.input_slots[update_view::slot_input(k)]);
  return arrays;
}

/// One optimizer's updates of one variable or of several, as one loop over the elements of all of them: what a variable
/// costs beside its elements is little, and threads share the elements evenly.
class update_kernel final : public kernel {
 public:
  update_kernel(const prepare_context& p, const update_layout& of, device::block_function block,
                advance_function advance)
      : block_(block), arrays_(of.arrays() + 1), size_(size_of(p.inputs[0].type)) {
    for (std::size_t k = 0; k <= p.beside_count; ++k) {
      const prepare_context& one = k < p.beside_count ? p.beside[k] : p;
      check_update(one, of);
      all_.push_back({step_numbers(one, of, advance), updated_arrays(one, of),
                      one.input_slots[update_view(one.c).gradient_input()], one.inputs[0].extents.elements(), work_});
      work_ += all_.back().elements + call;
    }
    if (all_.size() > 1) numbers_.assign(all_.size() * max_numbers, 0);
    const std::size_t wanted = work_ / chunk_elements;
    chunks_ = wanted < 2 ? 1 : wanted < max_chunks ? wanted : max_chunks;
  }

  void run(const kernel_context& f) override {
    std::uint64_t own[max_numbers] = {};
    std::uint64_t* const numbers = all_.size() > 1 ? numbers_.data() : own;
    for (std::size_t k = 0; k < all_.size(); ++k) all_[k].numbers.find(f, numbers + k * max_numbers);
    if (chunks_ == 1) return run_part(f, numbers, 0, work_);
    f.threads->parallel_for(
        chunks_, [&](std::size_t c) { run_part(f, numbers, work_ * c / chunks_, work_ * (c + 1) / chunks_); });
  }
  std::size_t memory_bytes() const override { return all_.memory_bytes() + numbers_.memory_bytes(); }
  std::string describe() const override {
    return all_.size() == 1 ? all_[0].numbers.describe()
                            : str_cat({all_[0].numbers.describe(), ", ", all_.size(), " variables"});
  }

 private:
  /// A chunk's elements; and to how many the call for a variable comes.
  static constexpr std::size_t chunk_elements = 32768, max_chunks = 256, call = 64;
  static constexpr std::size_t cache_line = 64;

  struct updated {
    step_numbers numbers;
    sequence<std::uint32_t> arrays;
    std::uint32_t gradient;
    std::size_t elements, before;  // those of the variables before it, and their calls
  };

  /// Updates what lies in [begin, end) when the elements of all variables are laid out one after another, a call behind
  /// each.
  void run_part(const kernel_context& f, const std::uint64_t* numbers, std::size_t begin, std::size_t end) const {
    std::size_t k = 0;
    for (std::size_t above = all_.size(); above - k > 1;) {
      const std::size_t middle = k + (above - k) / 2;
      (all_[middle].before <= begin ? k : above) = middle;
    }
    for (; k < all_.size() && end > all_[k].before; ++k) {  // nvcc takes `before <` for a template
      const updated& of = all_[k];
      const std::size_t from = cut(of, begin), to = cut(of, end);
      if (from >= to) continue;
      const void* in[max_slots + 2];
      void* out[max_slots + 1];
      for (std::size_t a = 0; a < arrays_; ++a) in[a] = out[a] = f.buffers[of.arrays[a]] + from * size_;
      in[arrays_] = f.buffers[of.gradient] + from * size_;
      block_(in, out, to - from, numbers + k * max_numbers);
    }
  }
  /// No two chunks share a line.
  static std::size_t cut(const updated& of, std::size_t at) {
    if (at <= of.before) return 0;
    const std::size_t element = at - of.before;
    return element >= of.elements ? of.elements : element / cache_line * cache_line;
  }

  device::block_function block_;
  std::size_t arrays_, size_, work_ = 0, chunks_ = 1;  // arrays that are written; of an element, in bytes
  sequence<updated> all_;
  sequence<std::uint64_t> numbers_;  // a step's
};

/// The loop of `update_kernel`, over one row after the other. Each is there once, so threads may share them.
class row_update_kernel final : public kernel {
 public:
  row_update_kernel(const prepare_context& p, const update_layout& of, device::block_function block,
                    advance_function advance)
      : numbers_(p, of, advance),
        arrays_(updated_arrays(p, of)),
        block_(block),
        axis_(p.inputs[0].extents, 0),
        row_bytes_(axis_.inner * size_of(p.inputs[0].type)) {
    check_update(p, of);
    std::size_t count = 0;
    const update_view u(p.c);
    for (std::size_t k = 0; k < u.row_lists(); ++k) {
      const std::size_t indices = u.row_indices_input(k);
      lists_.push_back({p.input_slots[u.rows_input(k)], p.input_slots[indices], count,
                        count + p.inputs[indices].extents.elements()});
      count = lists_.back().end;
    }
    chunks_ = device::chunks(count, count * axis_.inner * arrays_.size(), 65536);
  }

  void run(const kernel_context& f) override {
    std::uint64_t numbers[max_numbers] = {};
    numbers_.find(f, numbers);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (const list& l : lists_)
        for (std::size_t k = l.begin > begin ? l.begin : begin; k < l.end && k < end; ++k)
          update(f, numbers, reinterpret_cast<const std::int64_t*>(f.buffers[l.indices])[k - l.begin],
                 f.buffers[l.rows] + (k - l.begin) * row_bytes_);
    });
  }
  std::string describe() const override {
    return str_cat({numbers_.describe(), ", at most ", chunks_.items, " of ", axis_.extent, " rows"});
  }

 private:
  struct list {
    std::uint32_t rows, indices;  // slots
    std::size_t begin, end;       // among all
  };

  void update(const kernel_context& f, const std::uint64_t* numbers, std::int64_t row, const std::byte* gradient) {
    if (row < 0) return;
    if (row >= static_cast<std::int64_t>(axis_.extent))
      throw error(error_code::out_of_range, "minimize",
                  {"a gradient is of row ", row, ", and there are ", axis_.extent, " rows"});
    const void* in[max_slots + 2] = {};
    void* out[max_slots + 2];
    for (std::size_t k = 0; k < arrays_.size(); ++k)
      out[k] = f.buffers[arrays_[k]] + static_cast<std::size_t>(row) * row_bytes_;
    in[arrays_.size()] = gradient;
    block_(in, out, axis_.inner, numbers);
  }

  step_numbers numbers_;
  sequence<std::uint32_t> arrays_;
  sequence<list> lists_;
  device::block_function block_;
  axis_rows axis_;
  std::size_t row_bytes_;
  device::chunks chunks_;
};

WEFT_DECL kernel* prepare_update(const prepare_context& p, const update_layout& of, device::block_function block,
                                 advance_function advance) {
  if (update_view(p.c).row_lists() > 0) return new row_update_kernel(p, of, block, advance);
  return new update_kernel(p, of, block, advance);
}

#endif

WEFT_COLD_END

}  // namespace detail

/// Operands: as `update_view` has them.
template <class Optimizer, class T>
struct update_op {
  static constexpr const char* name = Optimizer::name;
  static constexpr const update_layout* update = &detail::layout_of<Optimizer>;
  using attributes = update_attributes;
  static constexpr bool writes = true;
  static constexpr fusion_kind part = [] {
    if constexpr (requires { Optimizer::part; })
      return Optimizer::part;
    else
      return fusion_kind::none;
  }();

  static kernel* prepare(const prepare_context& p, const attributes&) {
    return detail::prepare_update(p, detail::layout_of<Optimizer>,
                                  detail::unfused<detail::update_block<Optimizer, T, false>>(),
                                  detail::advance_numbers<Optimizer, T>);
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand <= detail::slots_of<Optimizer> ? operand_use::update : operand_use::read;
  }
  static std::string attributes_text(const node_def& c) { return update_view(c).attributes_text(); }
};

namespace detail {

/// Whether a row of a variable that has no gradient is left as it is, its slots too: the optimizer says so.
template <class Optimizer>
inline constexpr bool updates_by_rows = [] {
  if constexpr (requires { Optimizer::by_rows; })
    return Optimizer::by_rows && norms_of<Optimizer> == 0;
  else
    return false;
}();

}  // namespace detail

/// The operations that update variables by an optimizer, one for each element type.
template <class Optimizer>
struct update_ops {
  template <class T>
  using of = update_op<Optimizer, T>;
};

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/update.hpp>
#endif

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <tuple>

#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/elementwise/functions.hpp>

/// Compositions of layers. Each part is a layer, a model, a pointer to one, or any function of a node, such as a lambda
/// or nn::relu.
namespace weft::nn {

/// A part must be a function of the preceding value, not a number, a text, or a function of two values.
template <class Part, class X>
struct part_cannot_be_called : mistake<true> {};

namespace detail {

/// Calls a part, with the mode if the call has one and the part takes one.
template <class Part, class X>
auto call_part(const Part& part, const X& x) {
  if constexpr (std::is_pointer_v<Part>)
    return (*part)(x);
  else
    return part(x);
}
template <class Part, class X>
auto call_part(const Part& part, const X& x, mode how) {
  if constexpr (std::is_pointer_v<Part>)
    return call_part(*part, x, how);
  else if constexpr (requires { part(x, how); })
    return part(x, how);
  else
    return part(x);
}

template <std::size_t Index, class Parts, class X, class... Mode>
auto call_from(const Parts& parts, const X& x, Mode... how) {
  if constexpr (Index == std::tuple_size_v<Parts>)
    return x;
  else
    return call_from<Index + 1>(parts, call_part(std::get<Index>(parts), x, how...), how...);
}

/// Returns true for a layer that requires a mode, and for a model that can only be called with a mode.
template <class Part, class X>
constexpr bool part_needs_mode() {
  if constexpr (std::is_pointer_v<Part>)
    return part_needs_mode<std::remove_cv_t<std::remove_pointer_t<Part>>, X>();
  else if constexpr (requires { Part::needs_mode; })
    return Part::needs_mode;
  else
    return !requires(const Part& part, const X& x) { part(x); } &&
           requires(const Part& part, const X& x) { part(x, mode::inference); };
}

template <class Part, class X>
constexpr auto find_operand_mistake() {
  if constexpr (Expression<X> && requires { typename Part::template operand_mistake<X>; })
    return first_mistake<mistake<false>, typename Part::template operand_mistake<X>>();
  else
    return mistake<false>();
}
/// The mistake in a layer's operand, if the layer defines `operand_mistake`.
template <class Part, class X>
using operand_mistake_of = decltype(find_operand_mistake<Part, X>());

/// Returns the mistake in a call of a part with a value of type X. Layers define their mistakes, so that the error
/// appears at the composition that calls them.
template <class Part, class X, class... Mode>
constexpr auto find_part_mistake() {
  if constexpr (std::is_pointer_v<Part>)
    return find_part_mistake<std::remove_cv_t<std::remove_pointer_t<Part>>, X, Mode...>();
  else if constexpr (Expression<X> && requires { typename Part::template mistake_of_parts<X, Mode...>; })
    return typename Part::template mistake_of_parts<X, Mode...>();
  else if constexpr (!correct<operand_mistake_of<Part, X>>)
    return operand_mistake_of<Part, X>();
  else if constexpr (sizeof...(Mode) == 0 && part_needs_mode<Part, X>())
    return mode_is_missing<Part>();
  else if constexpr (requires(const Part& part, const X& x) { part(x, Mode()...); })
    return mistake<false>();
  else if constexpr (requires(const Part& part, const X& x) { part(x); })
    return mistake<false>();
  else
    return part_cannot_be_called<Part, X>();
}

/// A value in a chain of parts, and the first mistake so far.
template <class X, class Mistake, class... Mode>
struct chained {
  using value_type = X;
  using mistake_type = Mistake;
};
template <class Part>
struct part_type {};
template <class X, class Mistake, class... Mode, class Part>
constexpr auto operator>>(chained<X, Mistake, Mode...>, part_type<Part>) {
  if constexpr (!correct<Mistake>) {
    return chained<X, Mistake, Mode...>();
  } else {
    using found = decltype(find_part_mistake<Part, X, Mode...>());
    if constexpr (!correct<found>)
      return chained<X, found, Mode...>();
    else
      return chained<decltype(call_part(std::declval<const Part&>(), std::declval<const X&>(), Mode()...)), Mistake,
                     Mode...>();
  }
}

template <class Whole, class X, class... Mode>
struct chain_of;
template <template <class...> class Whole, class... Parts, class X, class... Mode>
struct chain_of<Whole<Parts...>, X, Mode...> {
  using type = decltype((chained<X, mistake<false>, Mode...>() >> ... >> part_type<Parts>()));
};
/// The value after a tuple of parts, called in sequence with a value of type X.
template <class Parts, class X, class... Mode>
using chain_type = typename chain_of<Parts, X, Mode...>::type;

template <class Mistake>
inline constexpr bool is_missing_mode = false;
template <class Part>
inline constexpr bool is_missing_mode<mode_is_missing<Part>> = true;
/// The mistake if it is a missing mode, else none.
template <class Mistake>
using mode_mistake = std::conditional_t<is_missing_mode<Mistake>, Mistake, mistake<false>>;
/// The mistake if it is not a missing mode, else none.
template <class Mistake>
using fit_mistake = std::conditional_t<is_missing_mode<Mistake>, mistake<false>, Mistake>;

template <class T>
concept ModeArgument = std::is_same_v<T, mode>;

/// True if a part is or contains a layer that requires a mode.
template <class Part>
constexpr bool says_mode_is_needed() {
  if constexpr (requires { Part::needs_mode; })
    return Part::needs_mode;
  else
    return false;
}

/// Always true. Instantiates has_no_layers for the parts before a std::tuple of them exists: after the tuple has tested
/// whether a lambda is assignable, g++ 12 reports the lambda as not trivially copyable.
template <class... Parts>
inline constexpr bool parts_are_examined = ((has_no_layers<Parts> || true) && ...);

template <class... Parts>
void visit_parts(const std::string& path, const std::tuple<Parts...>& parts, layer_visitor& v) {
  std::size_t i = 0;
  std::apply([&](const auto&... part) { (visit_any(path_of(path, i++), part, v), ...); }, parts);
}

}  // namespace detail

/// A residual's branch must have the extents and elements of its operand.
template <class Branch, class X>
struct branch_changes_extents : mistake<!std::is_same_v<Branch, X>> {};

namespace detail {

template <class Branch, class X>
constexpr auto find_branch_mistake() {
  if constexpr (Expression<Branch>)
    return first_mistake<element_types_differ<value_t<Branch>, value_t<X>>,
                         branch_changes_extents<dims_t<Branch>, dims_t<X>>>();
  else
    return branch_changes_extents<Branch, X>();
}

}  // namespace detail

/// The mistake in the branch of a residual, if there is one.
template <class Branch, class X>
using branch_mistake = decltype(detail::find_branch_mistake<Branch, X>());

/// Calls parts in sequence (tf.keras.Sequential, torch.nn.Sequential): `sequential(dense<100>{}, nn::relu,
/// dense<10>{})`. Parts are named by their indices: "net/0/weights". A call without a mode compiles if no part requires
/// one.
template <class... Parts>
class sequential {
  static_assert(detail::parts_are_examined<Parts...>);

 public:
  sequential() = default;
  explicit sequential(Parts... parts)
    requires(sizeof...(Parts) > 0)
      : parts_(std::move(parts)...) {}

  /// The mistake in a call, if there is one.
  template <class X, class... Mode>
  using mistake_of_parts = typename detail::chain_type<std::tuple<Parts...>, X, Mode...>::mistake_type;

  template <Expression X, detail::ModeArgument... Mode>
    requires(sizeof...(Mode) < 2)
  auto operator()(const X& x, Mode... how) const {
    using mistaken = mistake_of_parts<X, Mode...>;
    static_assert(correct<detail::mode_mistake<mistaken>>,
                  "sequential: a part of the block requires a mode: net(x, nn::mode::training or inference)");
    static_assert(correct<detail::fit_mistake<mistaken>>,
                  "sequential: each part must be callable with the result of the part before it");
    if constexpr (correct<mistaken>)
      return let(detail::call_from<0>(parts_, x, how...));
    else
      return let(x);
  }
  auto operator()(...) const WEFT_DELETED;  // one node, and a mode if a part needs one: net(x, nn::mode::training)

  /// Returns part i.
  template <std::size_t Index>
  const auto& get() const {
    return std::get<Index>(parts_);
  }
  void visit(const std::string& path, layer_visitor& v) const { detail::visit_parts(path, parts_, v); }
  using layer_parts = std::tuple<Parts...>;
  static constexpr bool needs_mode = (detail::says_mode_is_needed<Parts>() || ...);

 private:
  layer_parts parts_;
};

/// Computes x + parts(x); the branch must keep the extents (He et al., CVPR 2016).
template <class... Parts>
class residual {
  static_assert(detail::parts_are_examined<Parts...>);

 public:
  residual() = default;
  explicit residual(Parts... parts)
    requires(sizeof...(Parts) > 0)
      : parts_(std::move(parts)...) {}

  /// The mistake in a call, if there is one.
  template <class X, class... Mode>
  using mistake_of_parts =
      first_mistake<typename detail::chain_type<std::tuple<Parts...>, X, Mode...>::mistake_type,
                    branch_mistake<typename detail::chain_type<std::tuple<Parts...>, X, Mode...>::value_type, X>>;

  template <Expression X, detail::ModeArgument... Mode>
    requires(sizeof...(Mode) < 2)
  auto operator()(const X& e, Mode... how) const {
    const auto x = let(e);
    using operand = std::remove_const_t<decltype(x)>;
    using branch = detail::chain_type<std::tuple<Parts...>, operand, Mode...>;
    using chain_mistake = typename branch::mistake_type;
    static_assert(correct<detail::mode_mistake<chain_mistake>>,
                  "residual: a part of the block requires a mode: block(x, nn::mode::training or inference)");
    static_assert(correct<detail::fit_mistake<chain_mistake>>,
                  "residual: each part must be callable with the result of the part before it");
    if constexpr (correct<chain_mistake>) {
      using mistaken = branch_mistake<typename branch::value_type, operand>;
      static_assert(correct<mistaken>, "residual: the branch must keep the extents of its operand");
      if constexpr (correct<mistaken>)
        return let(x + detail::call_from<0>(parts_, x, how...));
      else
        return x;
    } else {
      return x;
    }
  }
  auto operator()(...) const WEFT_DELETED;  // one node, and a mode if a part needs one: block(x, nn::mode::training)

  void visit(const std::string& path, layer_visitor& v) const { detail::visit_parts(path, parts_, v); }
  using layer_parts = std::tuple<Parts...>;
  static constexpr bool needs_mode = (detail::says_mode_is_needed<Parts>() || ...);

 private:
  layer_parts parts_;
};

/// Concatenates the results of all parts along the last axis: a block of Inception (Szegedy et al., CVPR 2015).
template <class... Parts>
class parallel {
  static_assert(detail::parts_are_examined<Parts...>);

 public:
  parallel() = default;
  explicit parallel(Parts... parts)
    requires(sizeof...(Parts) > 0)
      : parts_(std::move(parts)...) {}

  /// The mistake in a call, if there is one.
  template <class X, class... Mode>
  using mistake_of_parts = first_mistake<mistake<false>, decltype(detail::find_part_mistake<Parts, X, Mode...>())...>;

  template <Expression X, detail::ModeArgument... Mode>
    requires(sizeof...(Mode) < 2)
  auto operator()(const X& e, Mode... how) const {
    const auto x = let(e);
    using mistaken = mistake_of_parts<std::remove_const_t<decltype(x)>, Mode...>;
    static_assert(correct<detail::mode_mistake<mistaken>>,
                  "parallel: a part of the block requires a mode: block(x, nn::mode::training or inference)");
    static_assert(correct<detail::fit_mistake<mistaken>>, "parallel: each part must be callable with the operand");
    if constexpr (correct<mistaken>)
      return concat_parts(x, how...);
    else
      return x;
  }
  auto operator()(...) const WEFT_DELETED;  // one node, and a mode if a part needs one: block(x, nn::mode::training)

  void visit(const std::string& path, layer_visitor& v) const { detail::visit_parts(path, parts_, v); }
  using layer_parts = std::tuple<Parts...>;
  static constexpr bool needs_mode = (detail::says_mode_is_needed<Parts>() || ...);

 private:
  template <class X, class... Mode>
  auto concat_parts(const X& x, Mode... how) const {
    // Braces evaluate from left to right.
    const auto results =
        std::apply([&](const auto&... part) { return std::tuple{let(detail::call_part(part, x, how...))...}; }, parts_);
    return std::apply([](const auto&... result) { return concat<-1>(result...); }, results);
  }

  layer_parts parts_;
};

}  // namespace weft::nn

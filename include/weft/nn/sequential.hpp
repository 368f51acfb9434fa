#pragma once

#include <cstddef>
#include <tuple>

#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/concat.hpp>
#include <weft/ops/elementwise.hpp>

/// Layers of layers. Each part is a layer, a model, a pointer to one, or any function of a node: a lambda, or nn::relu.
namespace weft::nn {
namespace detail {

/// Passes the mode, if the call has one, to parts that take one.
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

/// Returns true for a layer that says so, and for a model that can be called with a mode only.
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
/// The first part of a chain that needs a mode.
template <std::size_t Index, class Parts, class X>
constexpr auto find_missing_mode() {
  if constexpr (Index == std::tuple_size_v<Parts>) {
    return mistake<false>();
  } else {
    using part = std::tuple_element_t<Index, Parts>;
    if constexpr (part_needs_mode<part, X>())
      return mode_is_missing<part>();
    else
      return find_missing_mode<Index + 1, Parts,
                               decltype(call_part(std::declval<const part&>(), std::declval<const X&>()))>();
  }
}
template <class Parts, class X>
using chain_mistake = decltype(find_missing_mode<0, Parts, X>());

/// True if a part is a layer that needs a mode, or holds one.
template <class Part>
constexpr bool says_mode_is_needed() {
  if constexpr (requires { Part::needs_mode; })
    return Part::needs_mode;
  else
    return false;
}

/// True. Asks whether parts hold layers before a std::tuple of them exists: once that has asked whether a lambda can be
/// assigned, g++ 12 reports the lambda as not trivially copyable.
template <class... Parts>
inline constexpr bool parts_are_examined = ((has_no_layers<Parts> || true) && ...);

template <class... Parts>
void visit_parts(const std::string& path, const std::tuple<Parts...>& parts, layer_visitor& v) {
  std::size_t i = 0;
  std::apply([&](const auto&... part) { (visit_any(path_of(path, i++), part, v), ...); }, parts);
}

}  // namespace detail

/// A residual's branch has other extents, or other elements, than its operand.
template <class Branch, class X>
struct branch_changes_extents : mistake<!std::is_same_v<Branch, X>> {};

/// The mistake in the branch of a residual, if there is one.
template <class Branch, class X>
using branch_mistake =
    first_mistake<element_types_differ<value_t<Branch>, value_t<X>>, branch_changes_extents<dims_t<Branch>, dims_t<X>>>;

namespace detail {

template <bool Correct, class X, class Branch>
auto add_branch(const X& x, const Branch& y) {
  if constexpr (Correct)
    return let(x + y);
  else
    return x;
}

}  // namespace detail

/// One part after the other (tf.keras.Sequential, torch.nn.Sequential): `sequential(dense<100>{}, nn::relu,
/// dense<10>{})`. Part i is called i: "net/0/weights". A call without a mode compiles if no part needs one.
template <class... Parts>
class sequential {
  static_assert(detail::parts_are_examined<Parts...>);

 public:
  sequential() = default;
  explicit sequential(Parts... parts)
    requires(sizeof...(Parts) > 0)
      : parts_(std::move(parts)...) {}

  template <Expression X>
  auto operator()(const X& x, mode how) const {
    return let(detail::call_from<0>(parts_, x, how));
  }
  template <Expression X>
  auto operator()(const X& x) const {
    using mistaken = detail::chain_mistake<layer_parts, X>;
    static_assert(correct<mistaken>, "sequential: a part needs a mode: net(x, nn::mode::training or inference)");
    if constexpr (correct<mistaken>)
      return let(detail::call_from<0>(parts_, x));
    else
      return (*this)(x, mode::inference);
  }

  /// Part i.
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

/// x + parts(x), of branches that keep the extents (He et al., CVPR 2016).
template <class... Parts>
class residual {
  static_assert(detail::parts_are_examined<Parts...>);

 public:
  residual() = default;
  explicit residual(Parts... parts)
    requires(sizeof...(Parts) > 0)
      : parts_(std::move(parts)...) {}

  template <Expression X>
  auto operator()(const X& e, mode how) const {
    const auto x = let(e);
    const auto y = let(detail::call_from<0>(parts_, x, how));
    using mistaken = branch_mistake<decltype(y), decltype(x)>;
    static_assert(correct<mistaken>, "residual: the branch must keep the extents of its operand");
    return detail::add_branch<correct<mistaken>>(x, y);
  }
  template <Expression X>
  auto operator()(const X& e) const {
    const auto x = let(e);
    using missing = detail::chain_mistake<layer_parts, std::remove_const_t<decltype(x)>>;
    static_assert(correct<missing>, "residual: a part needs a mode: block(x, nn::mode::training or inference)");
    if constexpr (correct<missing>) {
      const auto y = let(detail::call_from<0>(parts_, x));
      using mistaken = branch_mistake<decltype(y), decltype(x)>;
      static_assert(correct<mistaken>, "residual: the branch must keep the extents of its operand");
      return detail::add_branch<correct<mistaken>>(x, y);
    } else {
      return (*this)(x, mode::inference);
    }
  }

  void visit(const std::string& path, layer_visitor& v) const { detail::visit_parts(path, parts_, v); }
  using layer_parts = std::tuple<Parts...>;
  static constexpr bool needs_mode = (detail::says_mode_is_needed<Parts>() || ...);

 private:
  layer_parts parts_;
};

/// The results of all parts side by side along the last axis: a block of Inception (Szegedy et al., CVPR 2015).
template <class... Parts>
class parallel {
  static_assert(detail::parts_are_examined<Parts...>);

 public:
  parallel() = default;
  explicit parallel(Parts... parts)
    requires(sizeof...(Parts) > 0)
      : parts_(std::move(parts)...) {}

  template <Expression X>
  auto operator()(const X& x, mode how) const {
    return concat_parts(let(x), how);
  }
  template <Expression X>
  auto operator()(const X& e) const {
    using x = decltype(let(e));
    using mistaken = first_mistake<mistake<false>, std::conditional_t<detail::part_needs_mode<Parts, x>(),
                                                                      mode_is_missing<Parts>, mistake<false>>...>;
    static_assert(correct<mistaken>, "parallel: a part needs a mode: block(x, nn::mode::training or inference)");
    if constexpr (correct<mistaken>)
      return concat_parts(let(e));
    else
      return concat_parts(let(e), mode::inference);
  }

  void visit(const std::string& path, layer_visitor& v) const { detail::visit_parts(path, parts_, v); }
  using layer_parts = std::tuple<Parts...>;
  static constexpr bool needs_mode = (detail::says_mode_is_needed<Parts>() || ...);

 private:
  template <class X, class... Mode>
  auto concat_parts(const X& x, Mode... how) const {
    // A list in braces: its elements are computed in order.
    const auto results =
        std::apply([&](const auto&... part) { return std::tuple{let(detail::call_part(part, x, how...))...}; }, parts_);
    return std::apply([](const auto&... result) { return concat<-1>(result...); }, results);
  }

  layer_parts parts_;
};

}  // namespace weft::nn

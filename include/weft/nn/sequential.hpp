#pragma once

#include <cstddef>
#include <tuple>

#include <weft/nn/layer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/concat.hpp>
#include <weft/ops/elementwise.hpp>

/// Layers of layers. Each part is a layer, a model, or any function of a node: a lambda, or nn::relu.
namespace weft::nn {
namespace detail {

/// Passes the mode to parts that take one.
template <class Part, class X>
auto call_part(const Part& part, const X& x, mode how) {
  if constexpr (requires { part(x, how); })
    return part(x, how);
  else
    return part(x);
}

template <std::size_t Index, class Parts, class X>
auto call_from(const Parts& parts, const X& x, mode how) {
  if constexpr (Index == std::tuple_size_v<Parts>)
    return x;
  else
    return call_from<Index + 1>(parts, call_part(std::get<Index>(parts), x, how), how);
}

template <class... Parts>
void visit_parts(const std::string& path, const std::tuple<Parts...>& parts, layer_visitor& v) {
  std::size_t i = 0;
  std::apply([&](const auto&... part) { (visit_any(path_of(path, i++), part, v), ...); }, parts);
}

}  // namespace detail

/// A residual's branch has other extents, or other elements, than its operand.
template <class Branch, class X>
struct branch_changes_extents : mistake<!std::is_same_v<Branch, X>> {};

/// One part after the other (tf.keras.Sequential, torch.nn.Sequential): `sequential(dense<100>{}, nn::relu,
/// dense<10>{})`. Part i is called i: "net/0/weights".
template <class... Parts>
class sequential {
 public:
  sequential() = default;
  explicit sequential(Parts... parts)
    requires(sizeof...(Parts) > 0)
      : parts_(std::move(parts)...) {}

  template <Expression X>
  auto operator()(const X& x, mode how = mode::inference) const {
    return let(detail::call_from<0>(parts_, x, how));
  }

  /// Part i.
  template <std::size_t Index>
  const auto& get() const {
    return std::get<Index>(parts_);
  }
  void visit(const std::string& path, layer_visitor& v) const { detail::visit_parts(path, parts_, v); }

 private:
  std::tuple<Parts...> parts_;
};

/// x + parts(x), of branches that keep the extents (He et al., CVPR 2016).
template <class... Parts>
class residual {
 public:
  residual() = default;
  explicit residual(Parts... parts)
    requires(sizeof...(Parts) > 0)
      : parts_(std::move(parts)...) {}

  template <Expression X>
  auto operator()(const X& e, mode how = mode::inference) const {
    const auto x = let(e);
    const auto y = let(detail::call_from<0>(parts_, x, how));
    using mistaken = first_mistake<element_types_differ<value_t<decltype(y)>, value_t<X>>,
                                   branch_changes_extents<dims_t<decltype(y)>, dims_t<X>>>;
    static_assert(correct<mistaken>, "residual: the branch must keep the extents of its operand");
    if constexpr (correct<mistaken>)
      return let(x + y);
    else
      return x;
  }

  void visit(const std::string& path, layer_visitor& v) const { detail::visit_parts(path, parts_, v); }

 private:
  std::tuple<Parts...> parts_;
};

/// The results of all parts side by side along the last axis: a block of Inception (Szegedy et al., CVPR 2015).
template <class... Parts>
class parallel {
 public:
  parallel() = default;
  explicit parallel(Parts... parts)
    requires(sizeof...(Parts) > 0)
      : parts_(std::move(parts)...) {}

  template <Expression X>
  auto operator()(const X& e, mode how = mode::inference) const {
    const auto x = let(e);
    // A list in braces: its elements are computed in order.
    const auto results =
        std::apply([&](const auto&... part) { return std::tuple{let(detail::call_part(part, x, how))...}; }, parts_);
    return std::apply([](const auto&... result) { return concat<-1>(result...); }, results);
  }

  void visit(const std::string& path, layer_visitor& v) const { detail::visit_parts(path, parts_, v); }

 private:
  std::tuple<Parts...> parts_;
};

}  // namespace weft::nn

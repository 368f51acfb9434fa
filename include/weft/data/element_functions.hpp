// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/data/element.hpp>
#include <weft/data/new_stages.hpp>
#include <weft/data/stage.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/tensor.hpp>

/// Functions of elements in the form that stages call, and the features of their results.
namespace weft::data {

/// A dataset's elements must consist of tensors, numbers and texts.
template <class... Features>
struct dataset_features_are_not_valid : mistake<!(feature_traits<Features>::supported && ...)> {};

/// A function must accept all features of an element, in their order; for `map`, the position can precede them.
template <class F, class... Features>
struct function_takes_other_features : mistake<!std::is_invocable_v<const F&, Features&&...>> {};

template <class... Features>
class dataset;

namespace detail {

template <class R>
struct feature_result {
  using type = R;
};
template <class R>
struct feature_result<R&> : feature_result<std::remove_cv_t<R>> {};
/// An expression becomes a tensor.
template <class R>
  requires requires { typename R::weft_expression; }
struct feature_result<R> {
  using type = tensor<typename R::value_type, typename R::dims_type>;
};

/// The dataset of a function's results.
template <class R>
struct mapped {
  using mistake = dataset_features_are_not_valid<typename feature_result<R>::type>;
  using type = dataset<typename feature_result<R>::type>;
  static auto tuple(R&& r) { return std::tuple<typename feature_result<R>::type>(std::move(r)); }
};
template <class... R>
struct mapped<std::tuple<R...>> {
  using mistake = dataset_features_are_not_valid<typename feature_result<R>::type...>;
  using type = dataset<typename feature_result<R>::type...>;
  static auto tuple(std::tuple<R...>&& r) { return std::tuple<typename feature_result<R>::type...>(std::move(r)); }
};
template <class A, class B>
struct mapped<std::pair<A, B>> {
  using mistake = dataset_features_are_not_valid<typename feature_result<A>::type, typename feature_result<B>::type>;
  using type = dataset<typename feature_result<A>::type, typename feature_result<B>::type>;
  static auto tuple(std::pair<A, B>&& r) {
    return std::tuple<typename feature_result<A>::type, typename feature_result<B>::type>(std::move(r));
  }
};

template <class F>
class change_of final : public change {
 public:
  explicit change_of(F f) : f_(std::move(f)) {}
  void operator()(const position& at, element& from, element& to) const override { f_(at, from, to); }

 private:
  F f_;
};
template <class F>
intrusive_ptr<const change> new_change(F f) {
  return intrusive_ptr<const change>(new change_of<F>(std::move(f)));
}

template <class F>
class predicate_of final : public predicate {
 public:
  explicit predicate_of(F f) : f_(std::move(f)) {}
  bool operator()(const element& e) const override { return f_(e); }

 private:
  F f_;
};
template <class F>
intrusive_ptr<const predicate> new_predicate(F f) {
  return intrusive_ptr<const predicate>(new predicate_of<F>(std::move(f)));
}

}  // namespace detail

}  // namespace weft::data

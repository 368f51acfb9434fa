// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <weft/graph/graph.hpp>
#include <weft/graph/scopes.hpp>
#include <weft/session/fetch.hpp>
#include <weft/summary/event_writer.hpp>
#include <weft/summary/events.hpp>

/// Summaries of values that a step computes (tf.summary):
///
///     auto summaries = merge_summaries(scalar_summary("loss", loss), histogram_summary("hidden/weights", w1));
///     auto step = s.prepare(fetch(train, summaries), feed(images, labels));
///     auto [trained, values] = step(x, y);
///     log.add(values, n);
namespace weft {

/// The fetched summaries of a step. It shares their tensors.
class summary {
 public:
  summary() = default;
  explicit summary(std::vector<detail::summary_value> values)
      : values_(std::make_shared<const std::vector<detail::summary_value>>(std::move(values))) {}

  bool empty() const { return !values_; }
  const std::shared_ptr<const std::vector<detail::summary_value>>& values() const { return values_; }

 private:
  std::shared_ptr<const std::vector<detail::summary_value>> values_;
};

/// One or several summaries of graph values. Fetching it returns a `summary`.
template <class... Nodes>
class merged_summary {
 public:
  /// The tag and kind of one summary, and its maximum number of images.
  struct entry {
    std::string tag;
    summary_kind kind;
    std::size_t max_images;
  };

  merged_summary(std::tuple<Nodes...> nodes, std::vector<entry> entries)
      : nodes_(std::move(nodes)), entries_(std::move(entries)) {}

  const std::tuple<Nodes...>& nodes() const { return nodes_; }
  const std::vector<entry>& entries() const { return entries_; }

  // ---- the interface of a composite fetch ----

  using fetched_type = summary;

  std::tuple<Nodes...> parts() const { return nodes_; }
  summary from_parts(const typename detail::fetched_value<Nodes>::type&... values) const {
    std::vector<detail::summary_value> made;
    made.reserve(sizeof...(Nodes));
    const auto add = [&](const auto& value) {
      const entry& e = entries_[made.size()];
      detail::summary_value v{e.tag, e.kind, 0, {}, e.max_images};
      if constexpr (detail::is_number<std::remove_cvref_t<decltype(value)>>) {
        if (e.kind == summary_kind::scalar)
          v.scalar = static_cast<double>(value);
        else
          v.elements = detail::elements_of(tensor<std::remove_cvref_t<decltype(value)>>(value));
      } else {
        v.elements = detail::elements_of(value);
        if (e.kind == summary_kind::image) detail::check_image(e.tag, v.elements.extents);
      }
      made.push_back(std::move(v));
    };
    (add(values), ...);
    return summary(std::move(made));
  }

 private:
  std::tuple<Nodes...> nodes_;
  std::vector<entry> entries_;
};

/// A summary requires an expression in a graph; a tensor is added to the writer directly.
template <class X>
struct summarized_value_not_in_a_graph : mistake<true> {};
template <Expression Expr>
struct summarized_value_not_in_a_graph<Expr> : mistake<!Expr::symbolic> {};

/// A scalar has no extents: mean(x), for example.
template <class Dims>
struct summarized_value_is_not_a_scalar : mistake<(Dims::rank > 0)> {};

/// An image has extents [height, width, channels], a batch [images, height, width, channels], with 1, 3 or 4 channels.
template <class Dims>
struct summarized_value_is_not_an_image : mistake<true> {};
template <auto... Extents>
  requires(sizeof...(Extents) == 3 || sizeof...(Extents) == 4)
struct summarized_value_is_not_an_image<dims<Extents...>> {
  static constexpr std::int64_t channels = dims<Extents...>::spec[sizeof...(Extents) - 1];
  static constexpr bool value = channels >= 0 && channels != 1 && channels != 3 && channels != 4;
};

namespace detail {

template <class X>
constexpr auto find_scalar_mistake() {
  if constexpr (!correct<summarized_value_not_in_a_graph<X>>)
    return summarized_value_not_in_a_graph<X>{};
  else
    return summarized_value_is_not_a_scalar<dims_t<X>>{};
}
template <class X>
constexpr auto find_image_mistake() {
  if constexpr (!correct<summarized_value_not_in_a_graph<X>>)
    return summarized_value_not_in_a_graph<X>{};
  else
    return summarized_value_is_not_an_image<dims_t<X>>{};
}

template <class Expr>
auto summary_of(std::string_view tag, summary_kind kind, const Expr& e, std::size_t max_images) {
  const node<value_t<Expr>, dims_t<Expr>, device_t<Expr>> value(let(e).erased());
  using made = merged_summary<std::remove_const_t<decltype(value)>>;
  const std::string& scope = static_cast<const graph*>(value.erased().builder())->scope();
  return made(std::tuple{value}, {{scope + std::string(tag), kind, max_images}});
}

}  // namespace detail

/// A scalar of each step (tf.summary.scalar). The current name scopes precede the tag.
template <class X>
[[nodiscard]] auto scalar_summary(std::string_view tag, const X& value) {
  using mistake = decltype(detail::find_scalar_mistake<X>());
  static_assert(correct<mistake>,
                "scalar_summary: pass a scalar in a graph, such as mean(x); for a number without a "
                "graph, use the writer's add_scalar");
  if constexpr (correct<mistake>)
    return detail::summary_of(tag, summary_kind::scalar, value, 1);
  else
    return merged_summary<>({}, {});
}

/// The distribution of a value's elements (tf.summary.histogram). A variable is fetched as a whole.
template <class X>
[[nodiscard]] auto histogram_summary(std::string_view tag, const X& value) {
  using mistake = summarized_value_not_in_a_graph<X>;
  static_assert(correct<mistake>,
                "histogram_summary: pass an expression in a graph; for a tensor, use the "
                "writer's add_histogram");
  if constexpr (correct<mistake>)
    return detail::summary_of(tag, summary_kind::histogram, value, 1);
  else
    return merged_summary<>({}, {});
}

/// The first `max_images` images of a batch, or one image (tf.summary.image), scaled as by event_writer::add_image.
template <class X>
[[nodiscard]] auto image_summary(std::string_view tag, const X& value, std::size_t max_images = 3) {
  using mistake = decltype(detail::find_image_mistake<X>());
  static_assert(correct<mistake>,
                "image_summary: pass [images, height, width, channels] or [height, width, channels] in a graph, with "
                "1, 3 or 4 channels");
  if constexpr (correct<mistake>)
    return detail::summary_of(tag, summary_kind::image, value, max_images);
  else
    return merged_summary<>({}, {});
}

/// Merges summaries, in their order, into one that fetches them together (tf.summary.merge).
template <class... First>
[[nodiscard]] auto merge_summaries(const merged_summary<First...>& first) {
  return first;
}
template <class... First, class... Second, class... More>
[[nodiscard]] auto merge_summaries(const merged_summary<First...>& first, const merged_summary<Second...>& second,
                                   const More&... more) {
  using both = merged_summary<First..., Second...>;
  std::vector<typename both::entry> entries;
  for (const auto& e : first.entries()) entries.push_back({e.tag, e.kind, e.max_images});
  for (const auto& e : second.entries()) entries.push_back({e.tag, e.kind, e.max_images});
  return merge_summaries(both(std::tuple_cat(first.nodes(), second.nodes()), std::move(entries)), more...);
}

inline void event_writer::add(const summary& fetched, std::int64_t step) {
  if (!fetched.empty()) enqueue({now(), step, {}, fetched.values(), detail::event_field::summary, {}});
}

template <class...>
auto scalar_summary(...) WEFT_DELETED;  // a tag and a scalar of the graph: scalar_summary("loss", loss)
template <class...>
auto histogram_summary(...) WEFT_DELETED;  // a tag and a value of the graph: histogram_summary("weights", w)
template <class...>
auto image_summary(...) WEFT_DELETED;  // a tag, images of the graph and how many: image_summary("digits", images, 3)
template <class...>
auto merge_summaries(...) WEFT_DELETED;  // one by one: merge_summaries(scalar_summary("loss", loss), ...)

}  // namespace weft

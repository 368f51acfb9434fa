// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if !defined(__GLIBCXX__)
  #include <iterator>  // libstdc++ has default_sentinel_t in <string>; others in <iterator>
#endif

#include <weft/data/columns.hpp>
#include <weft/data/element.hpp>
#include <weft/data/element_count.hpp>
#include <weft/data/element_functions.hpp>
#include <weft/data/stages.hpp>
#include <weft/data/stages/generated.hpp>
#include <weft/data/time_limit.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::data {

/// A batch of texts is a vector, which cannot be batched again.
template <class... Features>
struct batches_of_texts_have_no_batches : mistake<(std::is_same_v<Features, std::vector<std::string>> || ...)> {};

/// The number of elements to read ahead, among which a shuffle chooses.
struct shuffle_buffer {
  std::size_t elements;
};

/// The last batch if it is not full: returned, or dropped.
enum class last_batch { partial, dropped };

/// A sequence of elements, each a tuple of `Features`: tensors, numbers or std::string. Stages are chained, and a loop
/// iterates over the result:
///
///     for (auto [x, y] : images.map(augment, 4).shuffled(seed).batches(100).prefetch(2)) step(x, y);
///
/// A dataset is a handle: copying it is free, copies share their sources, and nothing is read before iteration. A seed
/// determines the order in every process, for any number of threads. If elements have indices (`has_rows`: they are in
/// memory, or mapped from elements in memory), shuffling, sharding and batching only compute indices, and any stage can
/// follow any other. Otherwise elements form a stream: shuffling requires a buffer, and splitting a `cache`.
///
/// The loop throws an exception of a function or a file in its element's place. Leaving a loop early stops all threads,
/// and waits for running calls of functions.
template <class... Features>
class dataset {
  static_assert(correct<dataset_features_are_not_valid<Features...>>,
                "dataset: features must be tensors, numbers or std::string");

 public:
  using value_type = std::tuple<Features...>;

  /// For sources.
  explicit dataset(detail::stage_ptr made) : stage_(std::move(made)) {}
  /// Converts from equal features whose extents have integers of other types.
  template <class... Others>
    requires(sizeof...(Others) == sizeof...(Features) &&
             (std::is_same_v<typename detail::feature_result<Others>::type,
                             typename detail::feature_result<Features>::type> &&
              ...))
  dataset(const dataset<Others...>& other) : stage_(other.stage_) {}

  /// Returns the number of elements in an epoch. Throws failed_precondition if it is unknown before the epoch's end
  /// (`has_size`).
  std::size_t size() const { return detail::known_size(*stage_); }
  bool has_size() const { return static_cast<bool>(stage_->size()); }
  bool has_rows() const { return stage_->has_rows(); }

  // ---- order and selection ----

  /// Returns all elements in an order that depends only on the seed and the epoch. `epoch` is added to the current
  /// epoch: `shuffled(seed).repeat()` has another order in each epoch. Throws failed_precondition unless `has_rows`.
  dataset shuffled(std::uint64_t seed = 0, std::uint64_t epoch = 0) const {
    return dataset(detail::new_shuffled_stage(stage_, seed, epoch));
  }
  /// Draws each element from a buffer of following elements (tf.data.Dataset.shuffle).
  dataset shuffled(std::uint64_t seed, shuffle_buffer buffer) const {
    return dataset(detail::new_buffer_shuffled_stage(stage_, seed, buffer.elements));
  }
  template <class = void>
  auto shuffled(...) const WEFT_DELETED;  // shuffled(seed), shuffled(seed, data::shuffle_buffer{1000})

  /// Returns every `count`-th element, beginning with the `index`-th: the part for worker `index` of `count`. The
  /// shards are disjoint and complete, and their sizes differ by at most one.
  dataset shard(element_count index, element_count count) const {
    return dataset(detail::new_shard(stage_, index, count));
  }
  /// Returns the first `count` elements; -1: all. Throws invalid_argument for other negative counts, as `skip` and
  /// `repeat` do.
  dataset take(element_count count) const {
    return dataset(detail::new_selected_stage(stage_, 0, 1, detail::checked_count_or_all("take", count)));
  }
  /// Returns all but the first `count` elements; -1: none.
  dataset skip(element_count count) const {
    return dataset(
        detail::new_selected_stage(stage_, detail::checked_count_or_all("skip", count), 1, detail::all_elements));
  }
  /// Splits the elements into the first ones, this fraction of all, and the others. Throws failed_precondition if
  /// `size` does.
  std::pair<dataset, dataset> split(double share) const {
    const std::size_t first = detail::size_of_share(*stage_, share);
    return {take(first), skip(first)};
  }
  /// Returns the elements for which `f(features...)` is true.
  template <class F>
  dataset filter(F f) const {
    static_assert(correct<function_takes_other_features<F, Features...>>,
                  "filter: the function must take all features of an element, in order, and must not be mutable");
    if constexpr (correct<function_takes_other_features<F, Features...>>)
      return dataset(
          detail::new_filtered_stage(stage_, detail::new_predicate([f = std::move(f)](const detail::element& e) {
                                       return static_cast<bool>(std::apply(f, typed(e)));
                                     })));
    else
      return *this;
  }

  // ---- transformations ----

  /// Returns the results of `f(features...)`: a feature, or a tuple or pair of features. For reproducible random
  /// numbers, use `f(position, features...)`: `random_stream(p.epoch, p.element)`. Several threads call f concurrently,
  /// and the order is preserved. -1: a thread for each core. Throws invalid_argument if `threads` is another
  /// number below 1.
  template <class F>
  auto map(F f, int threads = 1) const {
    if constexpr (std::is_invocable_v<const F&, const position&, Features&&...>) {
      return mapped_by(
          [f = std::move(f)](const position& at, value_type&& e) {
            return std::apply([&](Features&... features) { return f(at, std::move(features)...); }, e);
          },
          threads);
    } else {
      static_assert(correct<function_takes_other_features<F, Features...>>,
                    "map: the function must take all features of an element, in order, and must not be mutable");
      if constexpr (correct<function_takes_other_features<F, Features...>>)
        return mapped_by([f = std::move(f)](const position&, value_type&& e) { return std::apply(f, std::move(e)); },
                         threads);
      else
        return *this;
    }
  }

  /// Stacks `size` elements along a new first axis, `dyn<"batch">` unless another is given. The last batch contains the
  /// remaining elements, or is dropped. A batch of numbers is a tensor; a batch of texts is a vector. A loop reuses the
  /// memory of a batch for the next one, unless a copy of the tensor exists. The loop throws invalid_argument if the
  /// elements of a batch have different extents; `batches` throws it for a size below 1.
  template <auto Axis = dyn<"batch">>
  auto batches(element_count size, last_batch last = last_batch::partial) const {
    return batched<Axis>({.size = detail::as_size(detail::checked_count("batches", size, 1)),
                          .drop_remainder = last == last_batch::dropped});
  }
  template <auto... Size>
    requires(sizeof...(Size) == 0)
  auto batches(...) const WEFT_DELETED;  // of so many elements: batches(100), or batches<100>() of whole ones alone
  /// Returns batches of an extent known at compile time; drops the remainder.
  template <int Size>
  auto batches() const {
    static_assert(Size > 0, "batches: the size of a batch must be at least 1");
    return batched<Size>({.size = Size, .drop_remainder = true});
  }
  /// Returns batches of tensors of different extents, padded to the largest of the batch with zeros, or with a number
  /// for each feature.
  template <auto Axis = dyn<"batch">, class... Padding>
  auto padded_batches(element_count size, Padding... padding) const {
    static_assert(sizeof...(Padding) == 0 || sizeof...(Padding) == sizeof...(Features),
                  "padded_batches: give one padding number for each feature, or none");
    detail::batching how{.size = detail::as_size(detail::checked_count("padded_batches", size, 1)),
                         .pad = detail::pad_batch};
    if constexpr (sizeof...(Padding) > 0) how.padding = {entry<Features>(padding)...};
    return batched<Axis>(std::move(how));
  }

  // ---- time and memory ----

  /// Repeats the epochs, each with a new shuffle. -1: endlessly, unless an epoch has no elements.
  dataset repeat(element_count times = -1) const {
    return dataset(detail::new_repeated_stage(stage_, detail::checked_count_or_all("repeat", times)));
  }

  /// Reads all elements of the first epoch when the first one is requested, and keeps them in memory.
  dataset cache() const { return dataset(detail::new_cached_stage(stage_)); }

  /// Produces up to `elements` ahead, on another thread or on the threads of a preceding map. -1: two for each of these
  /// threads (tf.data.AUTOTUNE). Throws invalid_argument for other counts below 1.
  dataset prefetch(element_count elements) const {
    return dataset(detail::new_prefetched_stage(stage_, detail::checked_count_or_all("prefetch", elements)));
  }

  // ---- iteration ----

  class iterator;

  /// The iteration that begins at a position: the start of an epoch, or an iterator's `position`.
  class range {
   public:
    range(detail::stage_ptr stage, const position& from) : stage_(std::move(stage)), from_(from) {}
    /// `within`: a duration of std::chrono or a deadline. Throws deadline_exceeded if the first element takes longer.
    iterator begin(const time_limit& within = time_limit::never()) const { return iterator(stage_, from_, within); }
    std::default_sentinel_t end() const { return {}; }

   private:
    detail::stage_ptr stage_;
    data::position from_;
  };

  range from(const position& place) const { return {stage_, place}; }
  range epoch(std::uint64_t number) const { return from({number, 0}); }
  iterator begin(const time_limit& within = time_limit::never()) const { return from({}).begin(within); }
  std::default_sentinel_t end() const { return {}; }

  // For sources and other stages.
  const detail::stage_ptr& stage() const { return stage_; }
  static sequence<detail::feature> features() { return {feature_traits<Features>::spec()...}; }
  static void untyped(value_type&& from, detail::element& to) {
    detail::untyped<Features...>(std::move(from), to, std::index_sequence_for<Features...>());
  }

 private:
  template <class Element>
  static value_type typed(Element& e) {
    return detail::typed<Features...>(e, std::index_sequence_for<Features...>());
  }

  template <auto Axis>
  auto batched(detail::batching how) const {
    static_assert(correct<batches_of_texts_have_no_batches<Features...>>,
                  "batches: batches of strings cannot be batched again; call batches once");
    if constexpr (correct<batches_of_texts_have_no_batches<Features...>>) {
      using made = dataset<typename feature_traits<Features>::template batch<Axis>...>;
      return made(detail::new_batch_stage(stage_, made::features(), std::move(how)));
    } else {
      return *this;
    }
  }

  template <class F>
  auto mapped_by(F f, int threads) const {
    using result = detail::mapped<std::remove_cvref_t<decltype(f(position(), std::declval<value_type>()))>>;
    static_assert(correct<typename result::mistake>,
                  "map: the function must return a tensor, a number, a std::string, or a tuple of them");
    if constexpr (correct<typename result::mistake>) {
      using made = typename result::type;
      auto change = [f = std::move(f)](const position& at, detail::element& from, detail::element& to) {
        made::untyped(result::tuple(f(at, typed(from))), to);
      };
      return made(detail::new_mapped_stage(stage_, made::features(), detail::new_change(std::move(change)), threads));
    } else {
      return *this;
    }
  }

  template <class Feature, class Number>
  static detail::entry_bytes entry(Number number) {
    detail::entry_bytes entry;
    if constexpr (requires { typename Feature::dims_type; }) {
      const auto value = static_cast<typename Feature::value_type>(number);
      std::memcpy(entry.bytes, &value, sizeof value);
    } else if constexpr (std::is_arithmetic_v<Feature>) {
      const auto value = static_cast<Feature>(number);
      std::memcpy(entry.bytes, &value, sizeof value);
    }
    return entry;
  }

  template <class...>
  friend class dataset;

  detail::stage_ptr stage_;
};

/// Iterates over a dataset once. It can be moved but not copied; its destructor ends all threads of the iteration.
template <class... Features>
class dataset<Features...>::iterator {
 public:
  using value_type = dataset::value_type;
  using difference_type = std::ptrdiff_t;

  iterator(detail::stage_ptr stage, const data::position& from, const time_limit& within)
      : cursor_(std::move(stage), from) {
    advance(within);
  }
  iterator(iterator&& other) : cursor_(std::move(other.cursor_)) { take_value(other); }
  iterator& operator=(iterator&& other) {
    drop_value();
    cursor_ = std::move(other.cursor_);
    take_value(other);
    return *this;
  }
  ~iterator() { drop_value(); }

  const value_type& operator*() const { return value_; }
  iterator& operator++() {
    advance(time_limit::never());
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !has_value_; }

  /// Advances to the next element; returns false at the end. Throws deadline_exceeded if other threads do not produce
  /// it in time: there is no current element then, and another call continues; and out_of_range if the iteration begins
  /// beyond the end of an epoch of known size, for example at a saved position after the data has shrunk.
  bool advance(const time_limit& within) {
    drop_value();
    if (!cursor_.advance(within)) return false;
    ::new (&value_) value_type(typed(cursor_.element()));
    return has_value_ = true;
  }

  /// The position at which `dataset::from` continues after this element.
  const data::position& position() const { return cursor_.position(); }

 private:
  void take_value(iterator& other) {
    if (other.has_value_) ::new (&value_) value_type(std::move(other.value_));
    has_value_ = other.has_value_;
    other.drop_value();
  }
  void drop_value() {
    if (has_value_) value_.~value_type();
    has_value_ = false;
  }

  detail::cursor cursor_;
  bool has_value_ = false;
  union {
    value_type value_;
  };
};

// ---- sources ----

/// Creates a dataset from memory: tensors whose first axis numbers the elements, vectors of numbers or texts, `scaled`
/// pixels. They are shared, not copied. Throws invalid_argument if their lengths differ.
template <class... Sources>
auto from_tensors(Sources... sources) {
  static_assert(sizeof...(Sources) > 0, "from_tensors: give at least one tensor");
  using made = dataset<typename detail::column_of<Sources>::type...>;
  std::size_t rows[sizeof...(Sources) + 1], i = 0;
  sequence<detail::column> columns(sizeof...(Sources));
  ((columns[i] = detail::column_of<Sources>::make(std::move(sources), rows[i]), ++i), ...);
  return made(detail::new_memory_stage(made::features(), std::move(columns), rows));
}

/// Combines the elements of two datasets; ends with the shorter one.
template <class... A, class... B>
dataset<A..., B...> zip(const dataset<A...>& a, const dataset<B...>& b) {
  return dataset<A..., B...>(detail::new_zipped_stage(a.stage(), b.stage()));
}

/// Creates a dataset from a function: for each epoch, `make()` returns a function that is called for each element until
/// it returns nothing.
///
///     from_generator([] { return [i = 0]() mutable { return i < 10 ? std::optional(i++) : std::nullopt; }; });
template <class Make>
auto from_generator(Make make) {
  using next = decltype(make());
  using made = typename detail::mapped<typename std::invoke_result_t<next&>::value_type>::type;
  return made(detail::stage_ptr(new detail::generated_stage<Make, next, made>(std::move(make))));
}

}  // namespace weft::data

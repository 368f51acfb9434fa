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
  #include <iterator>  // libstdc++ has default_sentinel_t in <string>, and streams in <iterator>
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

/// A batch of texts is a vector, which is not batched again.
template <class... Features>
struct batches_of_texts_have_no_batches : mistake<(std::is_same_v<Features, std::vector<std::string>> || ...)> {};

/// Elements are shuffled among so many that are read ahead.
struct shuffle_buffer {
  std::size_t elements;
};

/// How a last batch that is not full ends: as it is, or not at all.
enum class last_batch { partial, dropped };

/// Elements one after the other, each a tuple of `Features`: tensors, numbers or std::string. Stages are chained, and a
/// loop goes over what comes out:
///
///     for (auto [x, y] : images.map(augment, 4).shuffled(seed).batches(100).prefetch(2)) step(x, y);
///
/// A dataset is a handle: it is copied at no cost, shares what it is made from, and nothing is read before it is gone
/// over. A seed gives one order, however many threads there are and in every process. Where the elements can be reached
/// by number (`has_rows`: they are in memory, or mapped from what is), shuffling, sharding and batching only compute
/// numbers, and any stage may follow any other; else elements pass as a stream, and shuffling wants a buffer, splitting
/// a `cache`.
///
/// An exception of a function or a file comes out of the loop in its element's place. Leaving a loop early stops all
/// threads; it waits for calls of functions that are running.
template <class... Features>
class dataset {
  static_assert(correct<dataset_features_are_not_valid<Features...>>,
                "dataset: an element consists of tensors, numbers and std::string");

 public:
  using value_type = std::tuple<Features...>;

  /// For sources.
  explicit dataset(detail::stage_ptr made) : stage_(std::move(made)) {}
  /// The same features, whose extents are written with integers of other types.
  template <class... Others>
    requires(sizeof...(Others) == sizeof...(Features) &&
             (std::is_same_v<typename detail::feature_result<Others>::type,
                             typename detail::feature_result<Features>::type> &&
              ...))
  dataset(const dataset<Others...>& other) : stage_(other.stage_) {}

  /// How many elements an epoch has. Throws failed_precondition where that is known only at its end (`has_size`).
  std::size_t size() const { return detail::known_size(*stage_); }
  bool has_size() const { return static_cast<bool>(stage_->size()); }
  bool has_rows() const { return stage_->has_rows(); }

  // ---- order and choice ----

  /// All elements in an order that depends on the seed and the epoch alone. `epoch` is counted from the one that is
  /// gone over: `shuffled(seed).repeat()` has another order each time. Throws failed_precondition unless `has_rows`.
  dataset shuffled(std::uint64_t seed = 0, std::uint64_t epoch = 0) const {
    return dataset(detail::new_shuffled_stage(stage_, seed, epoch));
  }
  /// Each element is drawn from a buffer of those to come (tf.data.Dataset.shuffle).
  dataset shuffled(std::uint64_t seed, shuffle_buffer buffer) const {
    return dataset(detail::new_buffer_shuffled_stage(stage_, seed, buffer.elements));
  }
  template <class = void>
  auto shuffled(...) const WEFT_DELETED;  // shuffled(seed), shuffled(seed, data::shuffle_buffer{1000})

  /// Every `count`-th element from the `index`-th on: what worker `index` of `count` trains on. The shards are
  /// disjoint, leave nothing out, and differ in size by at most one.
  dataset shard(element_count index, element_count count) const {
    return dataset(detail::new_shard(stage_, index, count));
  }
  /// The first `count` elements; -1: all. Throws invalid_argument for other negative counts, as `skip` and `repeat` do.
  dataset take(element_count count) const {
    return dataset(detail::new_selected_stage(stage_, 0, 1, detail::checked_count_or_all("take", count)));
  }
  /// All but the first `count` elements; -1: none.
  dataset skip(element_count count) const {
    return dataset(
        detail::new_selected_stage(stage_, detail::checked_count_or_all("skip", count), 1, detail::all_elements));
  }
  /// The first elements, this share of them, and the others. Throws failed_precondition where `size` does.
  std::pair<dataset, dataset> split(double share) const {
    const std::size_t first = detail::size_of_share(*stage_, share);
    return {take(first), skip(first)};
  }
  /// Those elements of which `f(features...)` is true.
  template <class F>
  dataset filter(F f) const {
    static_assert(correct<function_takes_other_features<F, Features...>>,
                  "filter: the function takes all features of an element, in their order, and is not mutable");
    if constexpr (correct<function_takes_other_features<F, Features...>>)
      return dataset(
          detail::new_filtered_stage(stage_, detail::new_predicate([f = std::move(f)](const detail::element& e) {
                                       return static_cast<bool>(std::apply(f, typed(e)));
                                     })));
    else
      return *this;
  }

  // ---- what becomes of elements ----

  /// The elements that `f(features...)` returns: a feature, or a tuple or pair of them; or `f(position, features...)`,
  /// whose randomness then is the same in every run: `random_stream(p.epoch, p.element)`. With several threads the
  /// calls run at once; the order is kept. -1: a thread for each core. Throws invalid_argument for other numbers of
  /// threads below 1.
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
                    "map: the function takes all features of an element, in their order, and is not mutable");
      if constexpr (correct<function_takes_other_features<F, Features...>>)
        return mapped_by([f = std::move(f)](const position&, value_type&& e) { return std::apply(f, std::move(e)); },
                         threads);
      else
        return *this;
    }
  }

  /// `size` elements at a time along a new first axis, `dyn<"batch">` unless another is named; the last batch holds
  /// what is left, or is left out. A batch of numbers is a tensor, one of texts a vector. The loop's tensors are filled
  /// anew for each batch, not allocated, unless somebody keeps one. Throws invalid_argument, where a batch is made,
  /// unless its elements have equal extents; and for a size below 1.
  template <auto Axis = dyn<"batch">>
  auto batches(element_count size, last_batch last = last_batch::partial) const {
    return batched<Axis>({.size = detail::as_size(detail::checked_count("batches", size, 1)),
                          .drop_remainder = last == last_batch::dropped});
  }
  template <auto... Size>
    requires(sizeof...(Size) == 0)
  auto batches(...) const WEFT_DELETED;  // of so many elements: batches(100), or batches<100>() of whole ones alone
  /// Batches of an extent that the compiler knows; what is left is left out.
  template <int Size>
  auto batches() const {
    static_assert(Size > 0, "batches: a batch has at least one element");
    return batched<Size>({.size = Size, .drop_remainder = true});
  }
  /// Batches of tensors of any extents, filled up to the largest of the batch with zeros, or with a number for each
  /// feature.
  template <auto Axis = dyn<"batch">, class... Padding>
  auto padded_batches(element_count size, Padding... padding) const {
    static_assert(sizeof...(Padding) == 0 || sizeof...(Padding) == sizeof...(Features),
                  "padded_batches: a number for each feature, or none");
    detail::batching how{.size = detail::as_size(detail::checked_count("padded_batches", size, 1)),
                         .pad = detail::pad_batch};
    if constexpr (sizeof...(Padding) > 0) how.padding = {entry<Features>(padding)...};
    return batched<Axis>(std::move(how));
  }

  // ---- time and memory ----

  /// One epoch after the other, each shuffled anew. -1: without end, unless an epoch has no element.
  dataset repeat(element_count times = -1) const {
    return dataset(detail::new_repeated_stage(stage_, detail::checked_count_or_all("repeat", times)));
  }

  /// Reads all elements of the first epoch when the first is asked for, and keeps them in memory.
  dataset cache() const { return dataset(detail::new_cached_stage(stage_)); }

  /// Makes up to `elements` ahead in another thread, or in those of a map before it. -1: two for each of these threads
  /// (tf.data.AUTOTUNE). Throws invalid_argument for other counts below 1.
  dataset prefetch(element_count elements) const {
    return dataset(detail::new_prefetched_stage(stage_, detail::checked_count_or_all("prefetch", elements)));
  }

  // ---- iteration ----

  class iterator;

  /// The iteration from a position on: of an epoch, or where an iterator's `position` was.
  class range {
   public:
    range(detail::stage_ptr stage, const position& from) : stage_(std::move(stage)), from_(from) {}
    /// `within`: a duration of std::chrono or a deadline. Throws deadline_exceeded where the first element takes
    /// longer.
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
                  "batches: of batches of texts there are none; make batches once");
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
                  "map: a function returns a tensor, a number, a std::string, or a tuple of them");
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

/// Goes over a dataset once. It is moved, not copied; its end ends all threads that worked for it.
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

  /// Goes on to the next element; false at the end. Throws deadline_exceeded where other threads do not make it in
  /// time: there is no element then, and another call goes on; out_of_range where the iteration begins beyond the end
  /// of an epoch whose size is known, as from a position that was saved when the data had more elements.
  bool advance(const time_limit& within) {
    drop_value();
    if (!cursor_.advance(within)) return false;
    ::new (&value_) value_type(typed(cursor_.element()));
    return has_value_ = true;
  }

  /// Where `dataset::from` goes on with the elements behind this one.
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

/// Elements in memory: tensors whose first axis is the element, vectors of numbers or texts, `scaled` pixels. They are
/// shared, not copied. Throws invalid_argument unless all have as many.
template <class... Sources>
auto from_tensors(Sources... sources) {
  static_assert(sizeof...(Sources) > 0, "from_tensors: an element has at least one feature");
  using made = dataset<typename detail::column_of<Sources>::type...>;
  std::size_t rows[sizeof...(Sources) + 1], i = 0;
  sequence<detail::column> columns(sizeof...(Sources));
  ((columns[i] = detail::column_of<Sources>::make(std::move(sources), rows[i]), ++i), ...);
  return made(detail::new_memory_stage(made::features(), std::move(columns), rows));
}

/// Elements of both, side by side, as long as both have some.
template <class... A, class... B>
dataset<A..., B...> zip(const dataset<A...>& a, const dataset<B...>& b) {
  return dataset<A..., B...>(detail::new_zipped_stage(a.stage(), b.stage()));
}

/// Elements of a function: `make()` returns what is called for each, until it returns nothing; it is made anew for each
/// epoch.
///
///     from_generator([] { return [i = 0]() mutable { return i < 10 ? std::optional(i++) : std::nullopt; }; });
template <class Make>
auto from_generator(Make make) {
  using next = decltype(make());
  using made = typename detail::mapped<typename std::invoke_result_t<next&>::value_type>::type;
  return made(detail::stage_ptr(new detail::generated_stage<Make, next, made>(std::move(make))));
}

}  // namespace weft::data

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <weft/data/ahead.hpp>
#include <weft/data/element_count.hpp>
#include <weft/data/mutex.hpp>
#include <weft/data/stage.hpp>

// The stages of a dataset, without types; dataset.hpp puts types around them. Programs see the functions that make
// them.
WEFT_COLD_BEGIN
namespace weft::data::detail {

inline std::size_t as_size(std::uint64_t count) { return count; }

/// The bytes of one entry, a number of any type.
struct entry_bytes {
  std::byte bytes[16] = {};
};

/// How elements become a batch.
struct batching {
  std::size_t size = 1;
  bool drop_remainder = false;
  /// Null, or what fills elements up: `pad_batch`, which programs without padded batches do not compile.
  void (*pad)(const batching&, const sequence<feature>&, sequence<element>&, std::size_t, element&) = nullptr;
  sequence<entry_bytes> padding = {};  ///< for each feature the entry that fills up; none: zeros
};

/// A batch of `count` elements of different extents, each filled up to the largest along every axis.
void pad_batch(const batching& how, const sequence<feature>& features, sequence<element>& elements, std::size_t count,
               element& batch);

/// A function that chooses elements.
class predicate : public ref_counted {
 public:
  virtual bool operator()(const element&) const = 0;
};

stage_ptr new_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::uint64_t first_epoch);
stage_ptr new_buffer_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::size_t capacity);
/// Every `step`-th element from the `first` on, at most `most` of them.
stage_ptr new_selected_stage(stage_ptr upstream, std::uint64_t first, std::uint64_t step, std::uint64_t most);
stage_ptr new_batch_stage(stage_ptr upstream, sequence<feature> features, batching how);
stage_ptr new_mapped_stage(stage_ptr upstream, sequence<feature> features, intrusive_ptr<const change> f, int threads);
stage_ptr new_filtered_stage(stage_ptr upstream, intrusive_ptr<const predicate> f);
stage_ptr new_zipped_stage(stage_ptr a, stage_ptr b);
stage_ptr new_repeated_stage(stage_ptr upstream, std::uint64_t times);
stage_ptr new_cached_stage(stage_ptr upstream);
/// `all_elements`: two for each thread.
stage_ptr new_prefetched_stage(stage_ptr upstream, std::uint64_t count);

#if WEFT_DEFINITIONS

/// Numbers of elements that no dataset has stay as large as they can be: a position may come from anywhere.
inline std::uint64_t product_of_counts(std::uint64_t a, std::uint64_t b) {
  std::uint64_t c;
  return __builtin_mul_overflow(a, b, &c) ? ~std::uint64_t{0} : c;
}
inline std::uint64_t sum_of_counts(std::uint64_t a, std::uint64_t b) { return a + smaller(b, ~a); }

// ---- order ----

}  // namespace weft::data::detail
WEFT_COLD_END

// Loops over elements are compiled for speed.
namespace weft::data::detail {

/// Random words from a seed and an epoch: SplitMix64, the same bits everywhere; the standard's shuffle and
/// distributions differ between libraries.
class order_random {
 public:
  order_random(std::uint64_t seed, std::uint64_t epoch) : state_(mix(seed) ^ mix(~epoch)) {}

  /// Below `limit`, which has 32 bits: the high half of a 64 x 32-bit product favours none by more than 2^-32.
  std::size_t below(std::size_t limit) {
    const auto random = static_cast<std::uint32_t>(mix(state_ += golden) >> 32);
    return (std::uint64_t{random} * limit) >> 32;
  }

 private:
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;
  static constexpr std::uint64_t mix(std::uint64_t z) {
    z += golden;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

inline void shuffle(std::uint32_t* order, std::size_t count, order_random random) {
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
}

inline void look_up(const std::uint32_t* order, const std::size_t* indices, std::size_t count, std::size_t* found) {
  for (std::size_t i = 0; i < count; ++i) found[i] = order[indices[i]];
}

}  // namespace weft::data::detail

WEFT_COLD_BEGIN
namespace weft::data::detail {

/// Rows of another table: those that a permutation names, or every `step`-th.
class selected_table final : public table {
 public:
  selected_table(intrusive_ptr<const table> rows, sequence<std::uint32_t> order)
      : table(rows->features()), rows_(std::move(rows)), order_(std::move(order)), size_(order_.size()) {}
  selected_table(intrusive_ptr<const table> rows, std::size_t first, std::size_t step, std::size_t size)
      : table(rows->features()), rows_(std::move(rows)), first_(first), step_(step), size_(size) {}

  std::size_t size() const override { return size_; }
  void read(std::size_t index, element& to) const override { rows_->read(at(index), to); }
  void gather(const std::size_t* indices, std::size_t count, element& batch) const override {
    sequence<std::size_t> chosen(count);
    if (step_ == 0)
      look_up(order_.data(), indices, count, chosen.data());
    else
      for (std::size_t i = 0; i < count; ++i) chosen[i] = at(indices[i]);
    rows_->gather(chosen.data(), count, batch);
  }

 private:
  std::size_t at(std::size_t index) const { return step_ == 0 ? order_[index] : first_ + index * step_; }

  intrusive_ptr<const table> rows_;
  sequence<std::uint32_t> order_;
  std::size_t first_ = 0, step_ = 0, size_;  ///< step_ 0: as `order_` says
};

/// A stage over one other.
class further_stage : public stage {
 public:
  explicit further_stage(stage_ptr upstream) : stage(upstream->features()), upstream_(std::move(upstream)) {}
  further_stage(stage_ptr upstream, sequence<feature> features)
      : stage(std::move(features)), upstream_(std::move(upstream)) {}

  optional_count size() const override { return upstream().size(); }
  bool has_rows() const override { return upstream().has_rows(); }
  thread_use threads() const override { return upstream().threads(); }

 protected:
  const stage& upstream() const { return *upstream_; }

 private:
  stage_ptr upstream_;
};

class shuffled_stage final : public further_stage {
 public:
  shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::uint64_t first_epoch)
      : further_stage(std::move(upstream)), seed_(seed), first_epoch_(first_epoch) {}

  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    auto all = upstream().rows(epoch, stop);
    if (all->size() > UINT32_MAX)
      throw error(error_code::unimplemented, "shuffled",
                  {all->size(), " elements are too many to shuffle at once: shuffle within a buffer"});
    sequence<std::uint32_t> order(all->size());
    shuffle(order.data(), order.size(), order_random(seed_, first_epoch_ + epoch));
    return intrusive_ptr<const table>(new selected_table(std::move(all), std::move(order)));
  }

 private:
  std::uint64_t seed_, first_epoch_;
};

/// The elements of a stream in an order that is random within a buffer, as of TensorFlow's shuffle.
class shuffled_stream final : public stream {
 public:
  shuffled_stream(intrusive_ptr<stream> elements, std::size_t capacity, order_random random)
      : elements_(std::move(elements)), capacity_(capacity), random_(random) {}

  bool next(element& to, const time_limit& within) override {
    while (!over_ && buffer_.size() < capacity_) {
      if (elements_->next(spare_, within))
        buffer_.push_back(std::exchange(spare_, {}));
      else
        over_ = true;
    }
    if (buffer_.empty()) return false;
    element& chosen = buffer_[random_.below(buffer_.size())];
    to.swap(chosen);
    chosen.swap(buffer_.back());
    spare_ = std::move(buffer_.back());
    buffer_.pop_back();
    return true;
  }

 private:
  intrusive_ptr<stream> elements_;
  std::size_t capacity_;
  order_random random_;
  sequence<element> buffer_;
  element spare_;
  bool over_ = false;
};

class buffer_shuffled_stage final : public further_stage {
 public:
  buffer_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::size_t capacity)
      : further_stage(std::move(upstream)), seed_(seed), capacity_(capacity) {
    if (capacity == 0 || capacity > UINT32_MAX)
      throw error(error_code::invalid_argument, "shuffled", {"a buffer holds 1 to 2^32 - 1 elements, not ", capacity});
  }

  bool has_rows() const override { return false; }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    return intrusive_ptr<stream>(
        new shuffled_stream(upstream().open(epoch, stop), capacity_, order_random(seed_, epoch)));
  }

 private:
  std::uint64_t seed_;
  std::size_t capacity_;
};

/// Every `step`-th element from the `first` on, `most` of them.
class selected_stream final : public stream {
 public:
  selected_stream(intrusive_ptr<stream> elements, std::uint64_t first, std::uint64_t step, std::uint64_t most)
      : elements_(std::move(elements)), first_(first), step_(step), most_(most) {}

  bool next(element& to, const time_limit& within) override {
    if (delivered_ == most_) return false;
    if (!begun_) {
      elements_->skip(sum_of_counts(first_, product_of_counts(delivered_, step_)));
      begun_ = true;
    }
    for (; between_ > 0; --between_)
      if (!elements_->next(to, within)) return false;
    if (!elements_->next(to, within)) return false;
    between_ = step_ - 1;
    ++delivered_;
    return true;
  }
  void skip(std::uint64_t count) override { delivered_ = smaller(most_, sum_of_counts(delivered_, count)); }

 private:
  intrusive_ptr<stream> elements_;
  std::uint64_t first_, step_, most_, delivered_ = 0, between_ = 0;
  bool begun_ = false;
};

class selected_stage final : public further_stage {
 public:
  selected_stage(stage_ptr upstream, std::uint64_t first, std::uint64_t step, std::uint64_t most)
      : further_stage(std::move(upstream)), first_(first), step_(step), most_(most) {}

  optional_count size() const override {
    const auto whole = upstream().size();
    if (!whole) return {};
    return count(*whole);
  }
  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    auto whole = upstream().rows(epoch, stop);
    const std::size_t size = as_size(count(whole->size()));
    return intrusive_ptr<const table>(new selected_table(std::move(whole), as_size(first_), as_size(step_), size));
  }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    return intrusive_ptr<stream>(new selected_stream(upstream().open(epoch, stop), first_, step_, most_));
  }

 private:
  std::uint64_t count(std::uint64_t whole) const {
    return whole <= first_ ? 0 : smaller(most_, (whole - first_ - 1) / step_ + 1);
  }
  std::uint64_t first_, step_, most_;
};

// ---- batches ----

inline void copy_box(const std::byte* from, const shape& extents, std::byte* to, const shape& room, std::size_t axis,
                     std::size_t entry) {
  if (extents.elements() == 0) return;
  std::size_t step = entry, room_step = entry;
  for (std::size_t i = axis + 1; i < extents.rank; ++i) {
    step *= static_cast<std::size_t>(extents[i]);
    room_step *= static_cast<std::size_t>(room[i]);
  }
  if (step == room_step) {
    std::memcpy(to, from, axis < extents.rank ? step * static_cast<std::size_t>(extents[axis]) : entry);
    return;
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(extents[axis]); ++k)
    copy_box(from + k * step, extents, to + k * room_step, room, axis + 1, entry);
}

WEFT_DECL void pad_batch(const batching& how, const sequence<feature>& features, sequence<element>& elements,
                         std::size_t count, element& batch) {
  batch.resize(features.size());
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (features[i].is_text()) {
      batch[i].extents = shape(count);
      batch[i].texts.resize(count);
      for (std::size_t k = 0; k < count; ++k) batch[i].texts[k] = std::move(elements[k][i].texts[0]);
      continue;
    }
    shape most = elements[0][i].extents;
    for (std::size_t k = 1; k < count; ++k)
      for (std::size_t axis = 0; axis < most.rank; ++axis)
        if (most[axis] < elements[k][i].extents[axis]) most[axis] = elements[k][i].extents[axis];
    const std::size_t entry = features[i].entry_bytes;
    std::byte* const to = batch[i].reserve(stacked(count, most), entry);
    const std::size_t whole = most.elements();
    if (i >= how.padding.size())
      std::memset(to, 0, count * whole * entry);
    else
      for (std::size_t at = 0; at < count * whole; ++at) std::memcpy(to + at * entry, how.padding[i].bytes, entry);
    for (std::size_t k = 0; k < count; ++k)
      copy_box(elements[k][i].bytes.data(), elements[k][i].extents, to + k * whole * entry, most, 0, entry);
  }
}

class batch_table final : public table {
 public:
  batch_table(const sequence<feature>& features, intrusive_ptr<const table> rows, const batching& how, std::size_t size)
      : table(features), rows_(std::move(rows)), how_(how), size_(size) {}

  std::size_t size() const override { return size_; }
  void read(std::size_t index, element& to) const override {
    const std::size_t first = index * how_.size, count = smaller(how_.size, rows_->size() - first);
    if (how_.pad) {
      sequence<element> elements(count);
      for (std::size_t i = 0; i < count; ++i) rows_->read(first + i, elements[i]);
      how_.pad(how_, rows_->features(), elements, count, to);
      return;
    }
    sequence<std::size_t> indices(count);
    for (std::size_t i = 0; i < count; ++i) indices[i] = first + i;
    rows_->gather(indices.data(), count, to);
  }

 private:
  intrusive_ptr<const table> rows_;
  const batching& how_;
  std::size_t size_;
};

class batch_stream final : public stream {
 public:
  batch_stream(const sequence<feature>& features, intrusive_ptr<stream> elements, const batching& how)
      : features_(features), elements_(std::move(elements)), how_(how) {}

  bool next(element& to, const time_limit& within) override {
    if (count_ == 0 && !how_.pad) {
      if (const auto count = elements_->next_batch(how_.size, to))
        return *count == how_.size || (*count > 0 && !how_.drop_remainder);
      batch_.swap(to);
    }
    // Elements that have been collected stay where the deadline passes.
    while (!over_ && count_ < how_.size) {
      if (how_.pad && collected_.size() <= count_) collected_.push_back({});
      element& one = how_.pad ? collected_[count_] : one_;
      if (!elements_->next(one, within)) {
        over_ = true;
        break;
      }
      if (!how_.pad) stacked_.add(features_, one, how_.size, batch_);
      ++count_;
    }
    if (count_ == 0 || (count_ < how_.size && how_.drop_remainder)) return false;
    if (how_.pad) {
      how_.pad(how_, features_, collected_, count_, to);
    } else {
      stacked_.finish(features_, batch_);
      batch_.swap(to);
    }
    count_ = 0;
    return true;
  }
  void skip(std::uint64_t count) override {
    if (count > 0) elements_->skip(product_of_counts(count, how_.size));
  }

 private:
  const sequence<feature>& features_;  // of an element
  intrusive_ptr<stream> elements_;
  const batching& how_;
  std::size_t count_ = 0;
  stacker stacked_;
  sequence<element> collected_;
  element one_, batch_;
  bool over_ = false;
};

class batch_stage final : public further_stage {
 public:
  batch_stage(stage_ptr upstream, sequence<feature> features, batching how)
      : further_stage(std::move(upstream), std::move(features)), how_(std::move(how)) {}

  optional_count size() const override {
    const auto elements = upstream().size();
    if (!elements) return {};
    return count(*elements);
  }
  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    auto elements = upstream().rows(epoch, stop);
    const std::size_t size = as_size(count(elements->size()));
    return intrusive_ptr<const table>(new batch_table(features(), std::move(elements), how_, size));
  }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    return intrusive_ptr<stream>(new batch_stream(upstream().features(), upstream().open(epoch, stop), how_));
  }

 private:
  std::uint64_t count(std::uint64_t elements) const {
    return elements / how_.size + (!how_.drop_remainder && elements % how_.size != 0 ? 1 : 0);
  }
  batching how_;
};

// ---- functions ----

class mapped_table final : public table {
 public:
  mapped_table(const sequence<feature>& features, intrusive_ptr<const table> rows, const change& f, std::uint64_t epoch)
      : table(features), rows_(std::move(rows)), f_(f), epoch_(epoch) {}

  std::size_t size() const override { return rows_->size(); }
  void read(std::size_t index, element& to) const override {
    element from;
    rows_->read(index, from);
    f_({epoch_, index}, from, to);
  }

 private:
  intrusive_ptr<const table> rows_;
  const change& f_;
  std::uint64_t epoch_;
};

class mapped_stream final : public stream {
 public:
  mapped_stream(intrusive_ptr<stream> elements, const change& f, std::uint64_t epoch)
      : elements_(std::move(elements)), f_(f), at_{epoch, 0} {}

  bool next(element& to, const time_limit& within) override {
    if (!elements_->next(from_, within)) return false;
    f_({at_.epoch, at_.element++}, from_, to);
    return true;
  }
  void skip(std::uint64_t count) override {
    elements_->skip(count);
    at_.element += count;
  }

 private:
  intrusive_ptr<stream> elements_;
  const change& f_;
  position at_;
  element from_;
};

class mapped_stage final : public further_stage {
 public:
  mapped_stage(stage_ptr upstream, sequence<feature> features, intrusive_ptr<const change> f, int threads)
      : further_stage(std::move(upstream), std::move(features)),
        f_(std::move(f)),
        threads_(checked_threads("map", threads)) {}

  thread_use threads() const override {
    const thread_use before = upstream().threads();
    return threads_ > before.count ? thread_use{threads_, open_ahead} : before;
  }
  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    return intrusive_ptr<const table>(new mapped_table(features(), upstream().rows(epoch, stop), *f_, epoch));
  }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    if (threads_ == 1) return intrusive_ptr<stream>(new mapped_stream(upstream().open(epoch, stop), *f_, epoch));
    return intrusive_ptr<stream>(
        new ahead_stream(upstream(), epoch, stop, threads_, 2 * static_cast<std::size_t>(threads_), f_.get()));
  }

 private:
  intrusive_ptr<const change> f_;
  int threads_;
};

class filtered_stream final : public stream {
 public:
  filtered_stream(intrusive_ptr<stream> elements, const predicate& f) : elements_(std::move(elements)), f_(f) {}

  bool next(element& to, const time_limit& within) override {
    while (elements_->next(to, within))
      if (f_(to)) return true;
    return false;
  }

 private:
  intrusive_ptr<stream> elements_;
  const predicate& f_;
};

class filtered_stage final : public further_stage {
 public:
  filtered_stage(stage_ptr upstream, intrusive_ptr<const predicate> f)
      : further_stage(std::move(upstream)), f_(std::move(f)) {}

  optional_count size() const override { return {}; }
  bool has_rows() const override { return false; }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    return intrusive_ptr<stream>(new filtered_stream(upstream().open(epoch, stop), *f_));
  }

 private:
  intrusive_ptr<const predicate> f_;
};

// ---- several datasets, several epochs ----

class zipped_table final : public table {
 public:
  zipped_table(const sequence<feature>& features, intrusive_ptr<const table> a, intrusive_ptr<const table> b)
      : table(features), a_(std::move(a)), b_(std::move(b)) {}

  std::size_t size() const override { return smaller(a_->size(), b_->size()); }
  void read(std::size_t index, element& to) const override {
    both(to, [&](const table& t, element& part) { t.read(index, part); });
  }
  void gather(const std::size_t* indices, std::size_t count, element& batch) const override {
    both(batch, [&](const table& t, element& part) { t.gather(indices, count, part); });
  }

 private:
  template <class F>
  void both(element& to, F f) const {
    const std::size_t first = a_->features().size();
    to.resize(features().size());
    element a, b;
    for (std::size_t i = 0; i < to.size(); ++i) (i < first ? a : b).push_back(std::move(to[i]));
    f(*a_, a);
    f(*b_, b);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::move(i < first ? a[i] : b[i - first]);
  }
  intrusive_ptr<const table> a_, b_;
};

class zipped_stream final : public stream {
 public:
  zipped_stream(intrusive_ptr<stream> a, intrusive_ptr<stream> b) : a_(std::move(a)), b_(std::move(b)) {}

  bool next(element& to, const time_limit& within) override {
    if (!has_first_) has_first_ = a_->next(first_, within);
    if (!has_first_ || !b_->next(second_, within)) return false;
    has_first_ = false;
    to.clear();
    for (element* part : {&first_, &second_})
      for (value& v : *part) to.push_back(std::move(v));
    first_.clear();
    second_.clear();
    return true;
  }
  void skip(std::uint64_t count) override {
    a_->skip(count);
    b_->skip(count);
  }

 private:
  intrusive_ptr<stream> a_, b_;
  element first_, second_;
  bool has_first_ = false;
};

class zipped_stage final : public stage {
 public:
  zipped_stage(stage_ptr a, stage_ptr b) : stage(joined(*a, *b)), a_(std::move(a)), b_(std::move(b)) {}

  optional_count size() const override {
    const auto a = a_->size(), b = b_->size();
    if (!a || !b) return {};
    return smaller(*a, *b);
  }
  bool has_rows() const override { return a_->has_rows() && b_->has_rows(); }
  thread_use threads() const override {
    const thread_use a = a_->threads(), b = b_->threads();
    return a.count < b.count ? b : a;
  }
  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    return intrusive_ptr<const table>(new zipped_table(features(), a_->rows(epoch, stop), b_->rows(epoch, stop)));
  }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    return intrusive_ptr<stream>(new zipped_stream(a_->open(epoch, stop), b_->open(epoch, stop)));
  }

 private:
  static sequence<feature> joined(const stage& a, const stage& b) {
    sequence<feature> all = a.features();
    all.append(b.features().data(), b.features().size());
    return all;
  }
  stage_ptr a_, b_;
};

/// One epoch after the other.
class repeated_stream final : public stream {
 public:
  repeated_stream(const stage& upstream, std::uint64_t first_epoch, std::uint64_t times, stop_source* stop)
      : upstream_(upstream), epoch_(first_epoch), endless_(times == all_elements), left_(times), stop_(stop) {}

  bool next(element& to, const time_limit& within) override {
    for (;;) {
      if (!elements_) {
        check_stop(stop_);
        if (left_ == 0) return false;
        if (!endless_) --left_;
        elements_ = upstream_.open(epoch_++, stop_);
        if (to_skip_ > 0) elements_->skip(std::exchange(to_skip_, 0));
        empty_ = true;
      }
      if (elements_->next(to, within)) {
        empty_ = false;
        return true;
      }
      elements_ = nullptr;
      if (empty_ && endless_) return false;  // or it would go on for ever
    }
  }
  void skip(std::uint64_t count) override {
    const auto size = upstream_.size();
    if (!size || *size == 0) return stream::skip(count);
    const std::uint64_t epochs = smaller(left_, count / *size);
    epoch_ += epochs;
    if (!endless_) left_ -= epochs;
    to_skip_ = count - epochs * *size;
  }

 private:
  const stage& upstream_;
  std::uint64_t epoch_;
  bool endless_;
  std::uint64_t left_;
  stop_source* stop_;
  intrusive_ptr<stream> elements_;
  std::uint64_t to_skip_ = 0;
  bool empty_ = true;
};

class repeated_stage final : public further_stage {
 public:
  repeated_stage(stage_ptr upstream, std::uint64_t times) : further_stage(std::move(upstream)), times_(times) {}

  optional_count size() const override {
    const auto once = upstream().size();
    if (!once || times_ == all_elements) return {};
    return product_of_counts(*once, times_);
  }
  bool has_rows() const override { return false; }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    return intrusive_ptr<stream>(
        new repeated_stream(upstream(), times_ == all_elements ? epoch : epoch * times_, times_, stop));
  }

 private:
  std::uint64_t times_;
};

// ---- memory ----

/// Collects elements feature by feature.
class collector {
 public:
  explicit collector(const sequence<feature>& features) : features_(features), parts_(features.size()) {}

  void add(element& one) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      part& p = parts_[i];
      if (features_[i].is_text()) {
        p.texts.push_back(std::move(one[i].texts[0]));
        continue;
      }
      const shape& extents = one[i].extents;
      if (count_ == 0) p.extents = extents;
      if (p.shapes.empty() && extents != p.extents) {
        const std::size_t bytes = p.extents.elements() * features_[i].entry_bytes;
        for (std::size_t k = 0; k < count_; ++k) {
          p.shapes.push_back(p.extents);
          p.begin.push_back(k * bytes);
        }
      }
      if (!p.shapes.empty() || extents != p.extents) {
        p.shapes.push_back(extents);
        p.begin.push_back(p.bytes.size());
      }
      const std::byte* const from = one[i].bytes.data();
      p.bytes.append(from, extents.elements() * features_[i].entry_bytes);
    }
    ++count_;
  }
  /// Rows that are stacked, all of the same extents.
  void add_batch(element& batch, std::size_t count) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      part& p = parts_[i];
      for (std::string& text : batch[i].texts) p.texts.push_back(std::move(text));
      if (features_[i].is_text()) continue;
      shape row;
      for (std::size_t axis = 1; axis < batch[i].extents.rank; ++axis) row.push_back(batch[i].extents[axis]);
      p.extents = row;
      const std::byte* const from = batch[i].bytes.data();
      p.bytes.append(from, count * row.elements() * features_[i].entry_bytes);
    }
    count_ += count;
  }

  intrusive_ptr<const table> finish() {
    sequence<column> columns(parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      column& c = columns[i];
      part& p = parts_[i];
      if (features_[i].is_text()) {
        const auto* const texts = new owner_of(std::move(p.texts));
        c.owner = intrusive_ptr<const ref_counted>(texts);
        c.texts = texts->value.data();
        continue;
      }
      c.extents = p.extents;
      c.row_bytes = p.extents.elements() * features_[i].entry_bytes;
      c.shapes = std::move(p.shapes);
      c.begin = std::move(p.begin);
      const auto* const bytes = new owner_of(std::move(p.bytes));
      c.owner = intrusive_ptr<const ref_counted>(bytes);
      c.data = bytes->value.data();
    }
    return intrusive_ptr<const table>(new memory_table(features_, std::move(columns), count_));
  }

 private:
  struct part {
    sequence<std::byte> bytes;
    sequence<std::string> texts;
    shape extents;
    sequence<shape> shapes;
    sequence<std::uint64_t> begin;
  };
  const sequence<feature>& features_;
  sequence<part> parts_;
  std::size_t count_ = 0;
};

/// The elements of the first epoch, read when they are first asked for and kept.
class cached_stage final : public further_stage {
 public:
  explicit cached_stage(stage_ptr upstream) : further_stage(std::move(upstream)) {
    for (const feature& f : features())
      if (f.is_text() && f.spec.rank > 0)
        throw error(error_code::unimplemented, "cache", "batches of texts cannot be cached: cache before batches");
  }

  optional_count size() const override {
    if (const auto known = upstream().size()) return known;
    return rows(0, nullptr)->size();
  }
  bool has_rows() const override { return true; }
  thread_use threads() const override { return {}; }
  intrusive_ptr<const table> rows(std::uint64_t, stop_source* stop) const override {
    const unique_lock lock(mutex_);
    if (rows_) return rows_;
    collector all(features());
    const auto elements = upstream().open(0, stop);
    constexpr std::size_t block = 1024;
    for (element e;;) {
      check_stop(stop);
      const auto count = elements->next_batch(block, e);
      if (count && *count == 0) break;
      if (count) {
        all.add_batch(e, as_size(*count));
        continue;
      }
      if (!elements->next(e, time_limit::never())) break;
      all.add(e);
    }
    return rows_ = all.finish();
  }

 private:
  mutable mutex mutex_;
  mutable intrusive_ptr<const table> rows_;
};

/// Elements that a thread, or as many as a map says, makes ahead of time.
class prefetched_stage final : public further_stage {
 public:
  prefetched_stage(stage_ptr upstream, std::uint64_t count)
      : further_stage(std::move(upstream)),
        count_(count != all_elements ? as_size(count)
                                     : 2 * static_cast<std::size_t>(this->upstream().threads().count)) {
    constexpr std::size_t most = std::size_t{1} << 20;
    if (count_ == 0 || count_ > most)
      throw error(error_code::invalid_argument, "prefetch",
                  {"makes 1 to ", most, " elements ahead, or as it sees fit for -1, not ", count_});
  }

  bool has_rows() const override { return false; }
  thread_use threads() const override { return {}; }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (!upstream().has_rows())
      return intrusive_ptr<stream>(new ahead_stream(upstream(), epoch, stop, 1, count_, nullptr));
    const int threads = upstream().threads().count;
    const auto least = static_cast<std::size_t>(threads);
    return intrusive_ptr<stream>(new ahead_stream(upstream(), epoch, stop, threads, count_ < least ? least : count_));
  }

 private:
  std::size_t count_;
};

WEFT_DECL stage_ptr new_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::uint64_t first_epoch) {
  if (!upstream->has_rows())
    throw error(error_code::failed_precondition, "shuffled",
                "the elements cannot be reached by number: shuffle within a buffer, shuffled(seed, "
                "shuffle_buffer{10'000}), or cache() before");
  return stage_ptr(new shuffled_stage(std::move(upstream), seed, first_epoch));
}

WEFT_DECL stage_ptr new_buffer_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::size_t capacity) {
  return stage_ptr(new buffer_shuffled_stage(std::move(upstream), seed, capacity));
}

WEFT_DECL stage_ptr new_selected_stage(stage_ptr upstream, std::uint64_t first, std::uint64_t step,
                                       std::uint64_t most) {
  return stage_ptr(new selected_stage(std::move(upstream), first, step, most));
}

WEFT_DECL stage_ptr new_batch_stage(stage_ptr upstream, sequence<feature> features, batching how) {
  return stage_ptr(new batch_stage(std::move(upstream), std::move(features), std::move(how)));
}

WEFT_DECL stage_ptr new_mapped_stage(stage_ptr upstream, sequence<feature> features, intrusive_ptr<const change> f,
                                     int threads) {
  return stage_ptr(new mapped_stage(std::move(upstream), std::move(features), std::move(f), threads));
}

WEFT_DECL stage_ptr new_filtered_stage(stage_ptr upstream, intrusive_ptr<const predicate> f) {
  return stage_ptr(new filtered_stage(std::move(upstream), std::move(f)));
}

WEFT_DECL stage_ptr new_zipped_stage(stage_ptr a, stage_ptr b) {
  return stage_ptr(new zipped_stage(std::move(a), std::move(b)));
}

WEFT_DECL stage_ptr new_repeated_stage(stage_ptr upstream, std::uint64_t times) {
  return stage_ptr(new repeated_stage(std::move(upstream), times));
}

WEFT_DECL stage_ptr new_cached_stage(stage_ptr upstream) { return stage_ptr(new cached_stage(std::move(upstream))); }

WEFT_DECL stage_ptr new_prefetched_stage(stage_ptr upstream, std::uint64_t count) {
  return stage_ptr(new prefetched_stage(std::move(upstream), count));
}

#endif

}  // namespace weft::data::detail
WEFT_COLD_END

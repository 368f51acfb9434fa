#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <weft/data/ahead.hpp>
#include <weft/data/element_count.hpp>
#include <weft/data/stage.hpp>

// The stages of a dataset, without types; dataset.hpp puts types around them.
namespace weft::data::detail {

inline std::size_t as_size(std::uint64_t count) { return static_cast<std::size_t>(count); }

/// Numbers of elements that no dataset has stay as large as they can be: a position may come from anywhere.
inline std::uint64_t product_of_counts(std::uint64_t a, std::uint64_t b) {
  std::uint64_t c;
  return __builtin_mul_overflow(a, b, &c) ? ~std::uint64_t{0} : c;
}
inline std::uint64_t sum_of_counts(std::uint64_t a, std::uint64_t b) { return a + std::min(b, ~a); }

// ---- order ----

/// Random words from a seed and an epoch: SplitMix64, the same bits everywhere; the standard's shuffle and
/// distributions differ between libraries.
class order_random {
 public:
  order_random(std::uint64_t seed, std::uint64_t epoch) : state_(mix(seed) ^ mix(~epoch)) {}

  /// Below `limit`, which has 32 bits: the high half of a 64 x 32-bit product favours none by more than 2^-32.
  std::size_t below(std::size_t limit) {
    const auto random = static_cast<std::uint32_t>(mix(state_ += golden) >> 32);
    return static_cast<std::size_t>((std::uint64_t{random} * limit) >> 32);
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

/// Rows of another table: those that a permutation names, or every `step`-th.
class selected_table final : public table {
 public:
  using permutation = std::shared_ptr<const std::vector<std::uint32_t>>;

  selected_table(std::shared_ptr<const table> rows, permutation order)
      : table(rows->features()), rows_(std::move(rows)), order_(std::move(order)), size_(order_->size()) {}
  selected_table(std::shared_ptr<const table> rows, std::size_t first, std::size_t step, std::size_t size)
      : table(rows->features()), rows_(std::move(rows)), first_(first), step_(step), size_(size) {}

  std::size_t size() const override { return size_; }
  void read(std::size_t index, element& to) const override { rows_->read(at(index), to); }
  void gather(const std::size_t* indices, std::size_t count, element& batch) const override {
    std::vector<std::size_t> chosen(count);
    for (std::size_t i = 0; i < count; ++i) chosen[i] = at(indices[i]);
    rows_->gather(chosen.data(), count, batch);
  }

 private:
  std::size_t at(std::size_t index) const { return order_ ? (*order_)[index] : first_ + index * step_; }

  std::shared_ptr<const table> rows_;
  permutation order_;
  std::size_t first_ = 0, step_ = 1, size_;
};

/// A stage over one other.
class further_stage : public stage {
 public:
  explicit further_stage(stage_ptr upstream) : stage(upstream->features()), upstream_(std::move(upstream)) {}
  further_stage(stage_ptr upstream, std::vector<feature> features)
      : stage(std::move(features)), upstream_(std::move(upstream)) {}

  std::optional<std::uint64_t> size() const override { return upstream().size(); }
  bool has_rows() const override { return upstream().has_rows(); }
  int threads() const override { return upstream().threads(); }

 protected:
  const stage& upstream() const { return *upstream_; }

 private:
  stage_ptr upstream_;
};

class shuffled_stage final : public further_stage {
 public:
  shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::uint64_t first_epoch)
      : further_stage(std::move(upstream)), seed_(seed), first_epoch_(first_epoch) {}

  std::shared_ptr<const table> rows(std::uint64_t epoch, std::stop_token stop) const override {
    auto all = upstream().rows(epoch, stop);
    if (all->size() > std::numeric_limits<std::uint32_t>::max())
      throw error(error_code::unimplemented, "shuffled",
                  {all->size(), " elements are too many to shuffle at once: shuffle within a buffer"});
    std::vector<std::uint32_t> order(all->size());
    std::iota(order.begin(), order.end(), 0u);
    order_random random(seed_, first_epoch_ + epoch);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return std::make_shared<selected_table>(std::move(all),
                                            std::make_shared<const std::vector<std::uint32_t>>(std::move(order)));
  }

 private:
  std::uint64_t seed_, first_epoch_;
};

/// The elements of a stream in an order that is random within a buffer, as of TensorFlow's shuffle.
class shuffled_stream final : public stream {
 public:
  shuffled_stream(std::unique_ptr<stream> elements, std::size_t capacity, order_random random)
      : elements_(std::move(elements)), capacity_(capacity), random_(random) {}

  bool next(element& to, const deadline& within) override {
    while (!over_ && buffer_.size() < capacity_) {
      if (elements_->next(spare_, within))
        buffer_.push_back(std::exchange(spare_, {}));
      else
        over_ = true;
    }
    if (buffer_.empty()) return false;
    element& chosen = buffer_[random_.below(buffer_.size())];
    std::swap(to, chosen);
    std::swap(chosen, buffer_.back());
    spare_ = std::move(buffer_.back());
    buffer_.pop_back();
    return true;
  }

 private:
  std::unique_ptr<stream> elements_;
  std::size_t capacity_;
  order_random random_;
  std::vector<element> buffer_;
  element spare_;
  bool over_ = false;
};

class buffer_shuffled_stage final : public further_stage {
 public:
  buffer_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::size_t capacity)
      : further_stage(std::move(upstream)), seed_(seed), capacity_(capacity) {
    if (capacity == 0 || capacity > std::numeric_limits<std::uint32_t>::max())
      throw error(error_code::invalid_argument, "shuffled", {"a buffer holds 1 to 2^32 - 1 elements, not ", capacity});
  }

  bool has_rows() const override { return false; }
  std::unique_ptr<stream> open(std::uint64_t epoch, std::stop_token stop) const override {
    return std::make_unique<shuffled_stream>(upstream().open(epoch, stop), capacity_, order_random(seed_, epoch));
  }

 private:
  std::uint64_t seed_;
  std::size_t capacity_;
};

/// Every `step`-th element from the `first` on, `most` of them.
class selected_stream final : public stream {
 public:
  selected_stream(std::unique_ptr<stream> elements, std::uint64_t first, std::uint64_t step, std::uint64_t most)
      : elements_(std::move(elements)), first_(first), step_(step), most_(most) {}

  bool next(element& to, const deadline& within) override {
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
  void skip(std::uint64_t count) override { delivered_ = std::min(most_, sum_of_counts(delivered_, count)); }

 private:
  std::unique_ptr<stream> elements_;
  std::uint64_t first_, step_, most_, delivered_ = 0, between_ = 0;
  bool begun_ = false;
};

class selected_stage final : public further_stage {
 public:
  static constexpr std::uint64_t all = ~std::uint64_t{0};

  selected_stage(stage_ptr upstream, std::uint64_t first, std::uint64_t step, std::uint64_t most)
      : further_stage(std::move(upstream)), first_(first), step_(step), most_(most) {}

  std::optional<std::uint64_t> size() const override {
    const auto whole = upstream().size();
    if (!whole) return {};
    return count(*whole);
  }
  std::shared_ptr<const table> rows(std::uint64_t epoch, std::stop_token stop) const override {
    auto whole = upstream().rows(epoch, stop);
    const std::size_t size = as_size(count(whole->size()));
    return std::make_shared<selected_table>(std::move(whole), as_size(first_), as_size(step_), size);
  }
  std::unique_ptr<stream> open(std::uint64_t epoch, std::stop_token stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    return std::make_unique<selected_stream>(upstream().open(epoch, stop), first_, step_, most_);
  }

 private:
  std::uint64_t count(std::uint64_t whole) const {
    return whole <= first_ ? 0 : std::min(most_, (whole - first_ - 1) / step_ + 1);
  }
  std::uint64_t first_, step_, most_;
};

// ---- batches ----

/// How elements become a batch.
struct batching {
  std::size_t size = 1;
  bool drop_remainder = false;
  bool padded = false;
  std::vector<std::array<std::byte, 16>> padding = {};  ///< for each feature the entry that fills up; none: zeros

  /// A batch of elements of different extents, each filled up to the largest along every axis.
  void pad(const std::vector<feature>& features, std::vector<element>& elements, std::size_t count,
           element& batch) const {
    batch.resize(features.size());
    for (std::size_t i = 0; i < features.size(); ++i) {
      if (features[i].is_text()) {
        batch[i].extents = shape(count);
        batch[i].texts.resize(count);
        for (std::size_t k = 0; k < count; ++k) batch[i].texts[k] = std::move(elements[k][i].texts.at(0));
        continue;
      }
      shape most = elements[0][i].extents;
      for (std::size_t k = 1; k < count; ++k)
        for (std::size_t axis = 0; axis < most.rank; ++axis)
          most[axis] = std::max(most[axis], elements[k][i].extents[axis]);
      const std::size_t entry = features[i].entry_bytes;
      std::byte* const to = batch[i].reserve(stacked(count, most), entry);
      const std::size_t whole = most.elements();
      if (i >= padding.size())
        std::memset(to, 0, count * whole * entry);
      else
        for (std::size_t at = 0; at < count * whole; ++at) std::memcpy(to + at * entry, padding[i].data(), entry);
      for (std::size_t k = 0; k < count; ++k)
        copy_box(elements[k][i].bytes.data(), elements[k][i].extents, to + k * whole * entry, most, 0, entry);
    }
  }

 private:
  static void copy_box(const std::byte* from, const shape& extents, std::byte* to, const shape& room, std::size_t axis,
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
};

class batch_table final : public table {
 public:
  batch_table(const std::vector<feature>& features, std::shared_ptr<const table> rows, const batching& how,
              std::size_t size)
      : table(features), rows_(std::move(rows)), how_(how), size_(size) {}

  std::size_t size() const override { return size_; }
  void read(std::size_t index, element& to) const override {
    const std::size_t first = index * how_.size, count = std::min(how_.size, rows_->size() - first);
    if (how_.padded) {
      std::vector<element> elements(count);
      for (std::size_t i = 0; i < count; ++i) rows_->read(first + i, elements[i]);
      how_.pad(rows_->features(), elements, count, to);
      return;
    }
    std::vector<std::size_t> indices(count);
    std::iota(indices.begin(), indices.end(), first);
    rows_->gather(indices.data(), count, to);
  }

 private:
  std::shared_ptr<const table> rows_;
  const batching& how_;
  std::size_t size_;
};

class batch_stream final : public stream {
 public:
  batch_stream(const std::vector<feature>& features, std::unique_ptr<stream> elements, const batching& how)
      : features_(features), elements_(std::move(elements)), how_(how) {}

  bool next(element& to, const deadline& within) override {
    if (count_ == 0 && !how_.padded) {
      if (const auto count = elements_->next_batch(how_.size, to))
        return *count == how_.size || (*count > 0 && !how_.drop_remainder);
      std::swap(batch_, to);
    }
    // Elements that have been collected stay where the deadline passes.
    while (!over_ && count_ < how_.size) {
      if (how_.padded && collected_.size() <= count_) collected_.emplace_back();
      element& one = how_.padded ? collected_[count_] : one_;
      if (!elements_->next(one, within)) {
        over_ = true;
        break;
      }
      if (!how_.padded) stacked_.add(features_, one, how_.size, batch_);
      ++count_;
    }
    if (count_ == 0 || (count_ < how_.size && how_.drop_remainder)) return false;
    if (how_.padded) {
      how_.pad(features_, collected_, count_, to);
    } else {
      stacked_.finish(features_, batch_);
      std::swap(batch_, to);
    }
    count_ = 0;
    return true;
  }
  void skip(std::uint64_t count) override {
    if (count > 0) elements_->skip(product_of_counts(count, how_.size));
  }

 private:
  const std::vector<feature>& features_;  // of an element
  std::unique_ptr<stream> elements_;
  const batching& how_;
  std::size_t count_ = 0;
  stacker stacked_;
  std::vector<element> collected_;
  element one_, batch_;
  bool over_ = false;
};

class batch_stage final : public further_stage {
 public:
  batch_stage(stage_ptr upstream, std::vector<feature> features, batching how)
      : further_stage(std::move(upstream), std::move(features)), how_(std::move(how)) {}

  std::optional<std::uint64_t> size() const override {
    const auto elements = upstream().size();
    if (!elements) return {};
    return count(*elements);
  }
  std::shared_ptr<const table> rows(std::uint64_t epoch, std::stop_token stop) const override {
    auto elements = upstream().rows(epoch, stop);
    const std::size_t size = as_size(count(elements->size()));
    return std::make_shared<batch_table>(features(), std::move(elements), how_, size);
  }
  std::unique_ptr<stream> open(std::uint64_t epoch, std::stop_token stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    return std::make_unique<batch_stream>(upstream().features(), upstream().open(epoch, stop), how_);
  }

 private:
  std::uint64_t count(std::uint64_t elements) const {
    return elements / how_.size + (!how_.drop_remainder && elements % how_.size != 0 ? 1 : 0);
  }
  batching how_;
};

// ---- functions ----

/// A function that makes one element of another: of the second argument the third.
using change = std::function<void(const position&, element&, element&)>;

class mapped_table final : public table {
 public:
  mapped_table(const std::vector<feature>& features, std::shared_ptr<const table> rows, const change& f,
               std::uint64_t epoch)
      : table(features), rows_(std::move(rows)), f_(f), epoch_(epoch) {}

  std::size_t size() const override { return rows_->size(); }
  void read(std::size_t index, element& to) const override {
    element from;
    rows_->read(index, from);
    f_({epoch_, index}, from, to);
  }

 private:
  std::shared_ptr<const table> rows_;
  const change& f_;
  std::uint64_t epoch_;
};

class mapped_stream final : public stream {
 public:
  mapped_stream(std::unique_ptr<stream> elements, const change& f, std::uint64_t epoch)
      : elements_(std::move(elements)), f_(f), at_{epoch, 0} {}

  bool next(element& to, const deadline& within) override {
    if (!elements_->next(from_, within)) return false;
    f_({at_.epoch, at_.element++}, from_, to);
    return true;
  }
  void skip(std::uint64_t count) override {
    elements_->skip(count);
    at_.element += count;
  }

 private:
  std::unique_ptr<stream> elements_;
  const change& f_;
  position at_;
  element from_;
};

class mapped_stage final : public further_stage {
 public:
  mapped_stage(stage_ptr upstream, std::vector<feature> features, change f, int threads)
      : further_stage(std::move(upstream), std::move(features)),
        f_(std::move(f)),
        threads_(checked_threads("map", threads)) {}

  int threads() const override { return std::max(threads_, upstream().threads()); }
  std::shared_ptr<const table> rows(std::uint64_t epoch, std::stop_token stop) const override {
    return std::make_shared<mapped_table>(features(), upstream().rows(epoch, stop), f_, epoch);
  }
  std::unique_ptr<stream> open(std::uint64_t epoch, std::stop_token stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    if (threads_ == 1) return std::make_unique<mapped_stream>(upstream().open(epoch, stop), f_, epoch);
    return std::make_unique<ahead_stream>(upstream(), epoch, stop, threads_, 2 * static_cast<std::size_t>(threads_),
                                          [this, epoch](std::uint64_t index, element& from, element& to) {
                                            f_({epoch, index}, from, to);
                                          });
  }

 private:
  change f_;
  int threads_;
};

class filtered_stream final : public stream {
 public:
  using condition = std::function<bool(const element&)>;

  filtered_stream(std::unique_ptr<stream> elements, const condition& f) : elements_(std::move(elements)), f_(f) {}

  bool next(element& to, const deadline& within) override {
    while (elements_->next(to, within))
      if (f_(to)) return true;
    return false;
  }

 private:
  std::unique_ptr<stream> elements_;
  const condition& f_;
};

class filtered_stage final : public further_stage {
 public:
  filtered_stage(stage_ptr upstream, filtered_stream::condition f)
      : further_stage(std::move(upstream)), f_(std::move(f)) {}

  std::optional<std::uint64_t> size() const override { return {}; }
  bool has_rows() const override { return false; }
  std::unique_ptr<stream> open(std::uint64_t epoch, std::stop_token stop) const override {
    return std::make_unique<filtered_stream>(upstream().open(epoch, stop), f_);
  }

 private:
  filtered_stream::condition f_;
};

// ---- several datasets, several epochs ----

class zipped_table final : public table {
 public:
  zipped_table(const std::vector<feature>& features, std::shared_ptr<const table> a, std::shared_ptr<const table> b)
      : table(features), a_(std::move(a)), b_(std::move(b)) {}

  std::size_t size() const override { return std::min(a_->size(), b_->size()); }
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
    element a(std::make_move_iterator(to.begin()), std::make_move_iterator(to.begin() + std::ptrdiff_t(first)));
    element b(std::make_move_iterator(to.begin() + std::ptrdiff_t(first)), std::make_move_iterator(to.end()));
    f(*a_, a);
    f(*b_, b);
    std::move(a.begin(), a.end(), to.begin());
    std::move(b.begin(), b.end(), to.begin() + std::ptrdiff_t(first));
  }
  std::shared_ptr<const table> a_, b_;
};

class zipped_stream final : public stream {
 public:
  zipped_stream(std::unique_ptr<stream> a, std::unique_ptr<stream> b) : a_(std::move(a)), b_(std::move(b)) {}

  bool next(element& to, const deadline& within) override {
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
  std::unique_ptr<stream> a_, b_;
  element first_, second_;
  bool has_first_ = false;
};

class zipped_stage final : public stage {
 public:
  zipped_stage(stage_ptr a, stage_ptr b) : stage(joined(*a, *b)), a_(std::move(a)), b_(std::move(b)) {}

  std::optional<std::uint64_t> size() const override {
    const auto a = a_->size(), b = b_->size();
    if (!a || !b) return {};
    return std::min(*a, *b);
  }
  bool has_rows() const override { return a_->has_rows() && b_->has_rows(); }
  int threads() const override { return std::max(a_->threads(), b_->threads()); }
  std::shared_ptr<const table> rows(std::uint64_t epoch, std::stop_token stop) const override {
    return std::make_shared<zipped_table>(features(), a_->rows(epoch, stop), b_->rows(epoch, stop));
  }
  std::unique_ptr<stream> open(std::uint64_t epoch, std::stop_token stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    return std::make_unique<zipped_stream>(a_->open(epoch, stop), b_->open(epoch, stop));
  }

 private:
  static std::vector<feature> joined(const stage& a, const stage& b) {
    std::vector<feature> all = a.features();
    all.insert(all.end(), b.features().begin(), b.features().end());
    return all;
  }
  stage_ptr a_, b_;
};

/// One epoch after the other.
class repeated_stream final : public stream {
 public:
  repeated_stream(const stage& upstream, std::uint64_t first_epoch, std::optional<std::uint64_t> times,
                  std::stop_token stop)
      : upstream_(upstream), epoch_(first_epoch), left_(times), stop_(std::move(stop)) {}

  bool next(element& to, const deadline& within) override {
    for (;;) {
      if (!elements_) {
        check_stop(stop_);
        if (left_ && *left_ == 0) return false;
        if (left_) --*left_;
        elements_ = upstream_.open(epoch_++, stop_);
        if (to_skip_ > 0) elements_->skip(std::exchange(to_skip_, 0));
        empty_ = true;
      }
      if (elements_->next(to, within)) {
        empty_ = false;
        return true;
      }
      elements_.reset();
      if (empty_ && !left_) return false;  // or it would go on for ever
    }
  }
  void skip(std::uint64_t count) override {
    const auto size = upstream_.size();
    if (!size || *size == 0) return stream::skip(count);
    const std::uint64_t epochs = left_ ? std::min(*left_, count / *size) : count / *size;
    epoch_ += epochs;
    if (left_) *left_ -= epochs;
    to_skip_ = count - epochs * *size;
  }

 private:
  const stage& upstream_;
  std::uint64_t epoch_;
  std::optional<std::uint64_t> left_;
  std::stop_token stop_;
  std::unique_ptr<stream> elements_;
  std::uint64_t to_skip_ = 0;
  bool empty_ = true;
};

class repeated_stage final : public further_stage {
 public:
  repeated_stage(stage_ptr upstream, std::optional<std::uint64_t> times)
      : further_stage(std::move(upstream)), times_(times) {}

  std::optional<std::uint64_t> size() const override {
    const auto once = upstream().size();
    if (!once || !times_) return {};
    return product_of_counts(*once, *times_);
  }
  bool has_rows() const override { return false; }
  std::unique_ptr<stream> open(std::uint64_t epoch, std::stop_token stop) const override {
    return std::make_unique<repeated_stream>(upstream(), times_ ? epoch * *times_ : epoch, times_, stop);
  }

 private:
  std::optional<std::uint64_t> times_;
};

// ---- memory ----

/// Collects elements feature by feature.
class collector {
 public:
  explicit collector(const std::vector<feature>& features) : features_(features), parts_(features.size()) {}

  void add(element& one) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      part& p = parts_[i];
      if (features_[i].is_text()) {
        p.texts.push_back(std::move(one[i].texts.at(0)));
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
      p.bytes.insert(p.bytes.end(), from, from + extents.elements() * features_[i].entry_bytes);
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
      p.bytes.insert(p.bytes.end(), from, from + count * row.elements() * features_[i].entry_bytes);
    }
    count_ += count;
  }

  std::shared_ptr<const table> finish() {
    std::vector<column> columns(parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      column& c = columns[i];
      part& p = parts_[i];
      if (features_[i].is_text()) {
        c.texts = std::make_shared<const std::vector<std::string>>(std::move(p.texts));
        continue;
      }
      c.extents = p.extents;
      c.row_bytes = p.extents.elements() * features_[i].entry_bytes;
      c.shapes = std::move(p.shapes);
      c.begin = std::move(p.begin);
      const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(p.bytes));
      c.data = bytes->data();
      c.owner = bytes;
    }
    return std::make_shared<memory_table>(features_, std::move(columns), count_);
  }

 private:
  struct part {
    std::vector<std::byte> bytes;
    std::vector<std::string> texts;
    shape extents;
    std::vector<shape> shapes;
    std::vector<std::uint64_t> begin;
  };
  const std::vector<feature>& features_;
  std::vector<part> parts_;
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

  std::optional<std::uint64_t> size() const override {
    if (const auto known = upstream().size()) return known;
    return rows(0, {})->size();
  }
  bool has_rows() const override { return true; }
  int threads() const override { return 1; }
  std::shared_ptr<const table> rows(std::uint64_t, std::stop_token stop) const override {
    const std::lock_guard lock(mutex_);
    if (rows_) return rows_;
    collector all(features());
    const auto elements = upstream().open(0, stop);
    constexpr std::size_t block = 1024;
    for (element e;;) {
      check_stop(stop);
      const auto count = elements->next_batch(block, e);
      if (count && *count == 0) break;
      if (count) {
        all.add_batch(e, *count);
        continue;
      }
      if (!elements->next(e, deadline::never())) break;
      all.add(e);
    }
    return rows_ = all.finish();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const table> rows_;
};

/// Elements that a thread, or as many as a map says, makes ahead of time.
class prefetched_stage final : public further_stage {
 public:
  /// Without a count: two for each thread.
  prefetched_stage(stage_ptr upstream, std::optional<std::uint64_t> count)
      : further_stage(std::move(upstream)),
        count_(count ? as_size(*count) : 2 * static_cast<std::size_t>(this->upstream().threads())) {
    constexpr std::size_t most = std::size_t{1} << 20;
    if (count_ == 0 || count_ > most)
      throw error(error_code::invalid_argument, "prefetch",
                  {"makes 1 to ", most, " elements ahead, or as it sees fit for -1, not ", count_});
  }

  bool has_rows() const override { return false; }
  int threads() const override { return 1; }
  std::unique_ptr<stream> open(std::uint64_t epoch, std::stop_token stop) const override {
    if (!upstream().has_rows()) return std::make_unique<ahead_stream>(upstream(), epoch, stop, 1, count_, nullptr);
    const int threads = upstream().threads();
    return std::make_unique<ahead_stream>(upstream(), epoch, stop, threads,
                                          std::max(count_, static_cast<std::size_t>(threads)));
  }

 private:
  std::size_t count_;
};

// ---- sources ----

/// Elements from a stream that is made anew for each epoch: a function, a file.
class source_stage final : public stage {
 public:
  using maker = std::function<std::unique_ptr<stream>(const std::vector<feature>&, std::stop_token)>;

  source_stage(std::vector<feature> features, maker make) : stage(std::move(features)), make_(std::move(make)) {}
  std::unique_ptr<stream> open(std::uint64_t, std::stop_token stop) const override {
    return make_(features(), std::move(stop));
  }

 private:
  maker make_;
};

}  // namespace weft::data::detail

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include <weft/data/element.hpp>
#include <weft/data/stop_source.hpp>
#include <weft/data/time_limit.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/tensor/intrusive_ptr.hpp>
#include <weft/tensor/sequence.hpp>

// A dataset is a chain of stages. These know extents and entry sizes but no types, so they are compiled once. A stage
// whose elements have indices has `rows`: shuffling, sharding and batching then only compute indices, and a batch is
// gathered from memory in one pass. Other stages are streams.
WEFT_COLD_BEGIN
namespace weft::data::detail {

using weft::detail::intrusive_ptr;
using weft::detail::owner_of;
using weft::detail::ref_counted;

/// A count that can be unknown. <optional> would instantiate twenty functions for each type.
class optional_count {
 public:
  constexpr optional_count() = default;
  constexpr optional_count(std::uint64_t count) : count_(count), known_(true) {}
  constexpr explicit operator bool() const { return known_; }
  constexpr std::uint64_t operator*() const { return count_; }

 private:
  std::uint64_t count_ = 0;
  bool known_ = false;
};

inline std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

/// The elements of one epoch, by index. Thread-safe for reading.
class table : public ref_counted {
 public:
  /// `features` belong to the stage, which must outlive its tables.
  explicit table(const sequence<feature>& features) : features_(features) {}

  const sequence<feature>& features() const { return features_; }
  virtual std::size_t size() const = 0;
  virtual void read(std::size_t index, element& to) const = 0;
  /// Reads the elements with these indices, stacked along a new first axis.
  virtual void gather(const std::size_t* indices, std::size_t count, element& batch) const;

 private:
  const sequence<feature>& features_;
};

/// A sequence of elements, for one thread.
class stream : public ref_counted {
 public:
  /// Writes the next element, reusing the memory of an earlier one; returns false at the end, also in later calls.
  /// Throws deadline_exceeded if it waits for other threads for too long; another call continues.
  virtual bool next(element& to, const time_limit& within) = 0;
  /// Writes up to `most` elements, stacked, and returns their number, 0 at the end. Implemented if it is cheaper than
  /// single elements, for example if a file is parsed directly into the batch.
  virtual optional_count next_batch(std::size_t, element&) { return {}; }
  /// Skips elements. Call it only before the first next().
  virtual void skip(std::uint64_t count);
};

class stage;

/// The number of threads that produce elements, and the function that starts them. Programs without threads do not
/// compile it.
struct thread_use {
  int count = 1;
  intrusive_ptr<stream> (*open)(const stage&, std::uint64_t epoch, stop_source*, int threads) = nullptr;
};

class stage : public ref_counted {
 public:
  explicit stage(sequence<feature> features) : features_(std::move(features)) {}

  const sequence<feature>& features() const { return features_; }

  /// The number of elements in an epoch, if it is known before they are read.
  virtual optional_count size() const { return {}; }
  virtual bool has_rows() const { return false; }
  virtual intrusive_ptr<const table> rows(std::uint64_t, stop_source*) const { return {}; }
  virtual thread_use threads() const { return {}; }
  /// Opens an independent stream. The stage and `stop`, if not null, must outlive it. A stop request ends its waits.
  virtual intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const;

 private:
  sequence<feature> features_;
};

using stage_ptr = intrusive_ptr<const stage>;

/// A function that converts an element to another.
class change : public ref_counted {
 public:
  virtual void operator()(const position&, element& from, element& to) const = 0;
};

/// A feature of all elements, stored by rows.
struct column {
  intrusive_ptr<const ref_counted> owner;  ///< of `data` and `texts`
  const std::byte* data = nullptr;
  shape extents;              ///< of a row, if all rows have equal extents
  std::size_t row_bytes = 0;  ///< size of such a row
  bool scaled = false;        ///< `data` contains bytes that are read as floats from 0 to 1
  const std::string* texts = nullptr;
  sequence<shape> shapes;         ///< extents of each row, if they differ
  sequence<std::uint64_t> begin;  ///< start of each row, if extents differ
};

/// Creates a stage of columns in memory; column i has `rows[i]` rows. Throws invalid_argument if these differ.
stage_ptr new_memory_stage(sequence<feature> features, sequence<column> columns, const std::size_t* rows);

/// Iterates over the elements of a stage: an untyped iterator.
class cursor {
 public:
  cursor(stage_ptr stage, const position& from);
  cursor(cursor&&) = default;
  cursor& operator=(cursor&& other);

  /// Advances to the next element; returns false at the end. Throws out_of_range if the iteration begins after the end.
  bool advance(const time_limit& within);
  detail::element& element() { return element_; }
  const data::position& position() const { return at_; }

 private:
  stage_ptr stage_;
  intrusive_ptr<stream> elements_;
  detail::element element_;
  data::position at_;
  bool delivered_ = false;
};

}  // namespace weft::data::detail
WEFT_COLD_END

#if WEFT_DEFINITIONS

// Declared outside of cold code, because g++ optimizes a function according to its first declaration.
namespace weft::data::detail {

/// Gathers `count` rows into contiguous memory.
void copy_rows(const std::byte* from, std::size_t row_bytes, const std::size_t* indices, std::size_t count,
               std::byte* to);
/// Gathers rows of bytes as floats from 0 to 1.
void scale_rows(const std::byte* from, std::size_t row_bytes, const std::size_t* indices, std::size_t count, float* to);

}  // namespace weft::data::detail

WEFT_COLD_BEGIN
namespace weft::data::detail {

WEFT_DECL void stream::skip(std::uint64_t count) {
  for (element passed; count > 0 && next(passed, time_limit::never());) --count;
}

/// Stacks elements of equal extents to a batch.
class stacker {
 public:
  /// `room`: the number of elements for which the first batch reserves memory. Memory grows with the elements, because
  /// a stream can end long before a batch is full; later batches reserve as much as the previous one used.
  explicit stacker(std::size_t room = 1) : room_(room) {}

  /// `most`: the maximum number of elements in the batch. All elements of a batch must be added to the same `batch`.
  void add(const sequence<feature>& features, element& one, std::size_t most, element& batch) {
    batch.resize(features.size());
    for (std::size_t i = 0; i < features.size(); ++i) {
      value& all = batch[i];
      if (features[i].is_text()) {
        if (count_ == 0) all.texts.clear();
        all.texts.push_back(std::move(one[i].texts[0]));
        continue;
      }
      const shape extents = one[i].extents;
      if (count_ == 0) {
        all.reserve(stacked(smaller(room_, most), extents), features[i].entry_bytes);
      } else if (stacked(static_cast<std::size_t>(all.extents[0]), extents) != all.extents) {
        shape first;
        for (std::size_t axis = 1; axis < all.extents.rank; ++axis) first.push_back(all.extents[axis]);
        throw error(error_code::invalid_argument, "batches",
                    {"feature ", i, " has extents ", to_string(extents), " in one element and ", to_string(first),
                     " in another of the batch; use padded_batches to pad them"});
      }
      if (count_ == static_cast<std::size_t>(all.extents[0]))
        all.grow(smaller(2 * count_, most), features[i].entry_bytes);
      const std::size_t bytes = extents.elements() * features[i].entry_bytes;
      if (bytes > 0) std::memcpy(all.bytes.data() + count_ * bytes, one[i].bytes.data(), bytes);
    }
    if (++count_ > room_) room_ = count_;
  }
  /// Completes the batch.
  void finish(const sequence<feature>& features, element& batch) {
    for (std::size_t i = 0; i < features.size(); ++i) {
      if (features[i].is_text())
        batch[i].extents = shape(count_);
      else
        batch[i].extents[0] = static_cast<std::int64_t>(count_);
    }
    count_ = 0;
  }

 private:
  std::size_t count_ = 0, room_;
};

WEFT_DECL void table::gather(const std::size_t* indices, std::size_t count, element& batch) const {
  stacker all(count);
  element one;
  for (std::size_t i = 0; i < count; ++i) {
    read(indices[i], one);
    all.add(features_, one, count, batch);
  }
  all.finish(features_, batch);
}

/// Reads a table sequentially.
class table_stream final : public stream {
 public:
  table_stream(intrusive_ptr<const table> rows, stop_source* stop) : rows_(std::move(rows)), stop_(stop) {}

  bool next(element& to, const time_limit&) override {
    check_stop(stop_);
    if (at_ >= rows_->size()) return false;
    rows_->read(at_, to);
    ++at_;
    return true;
  }
  void skip(std::uint64_t count) override { at_ += smaller(count, rows_->size() - at_); }

 private:
  intrusive_ptr<const table> rows_;
  stop_source* stop_;
  std::size_t at_ = 0;
};

// ---- elements in memory ----

class memory_table final : public table {
 public:
  memory_table(const sequence<feature>& features, sequence<column> columns, std::size_t size)
      : table(features), columns_(std::move(columns)), size_(size) {}

  std::size_t size() const override { return size_; }

  void read(std::size_t index, element& to) const override {
    to.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const column& c = columns_[i];
      if (c.texts) {
        to[i].text() = c.texts[index];
      } else if (!c.shapes.empty()) {
        std::byte* const at = to[i].reserve(c.shapes[index], features()[i].entry_bytes);
        const std::size_t bytes = c.shapes[index].elements() * features()[i].entry_bytes;
        if (bytes > 0) std::memcpy(at, c.data + c.begin[index], bytes);
      } else {
        copy(c, &index, 1, to[i].reserve(c.extents, features()[i].entry_bytes));
      }
    }
  }

  void gather(const std::size_t* indices, std::size_t count, element& batch) const override {
    for (const column& c : columns_)
      if (!c.shapes.empty()) return table::gather(indices, count, batch);
    batch.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const column& c = columns_[i];
      if (!c.texts) {
        copy(c, indices, count, batch[i].reserve(stacked(count, c.extents), features()[i].entry_bytes));
        continue;
      }
      batch[i].extents = shape(count);
      batch[i].texts.resize(count);
      for (std::size_t row = 0; row < count; ++row) batch[i].texts[row] = c.texts[indices[row]];
    }
  }

 private:
  static void copy(const column& c, const std::size_t* indices, std::size_t count, std::byte* to) {
    if (c.scaled)
      scale_rows(c.data, c.row_bytes, indices, count, reinterpret_cast<float*>(to));
    else
      copy_rows(c.data, c.row_bytes, indices, count, to);
  }

  sequence<column> columns_;
  std::size_t size_;
};

class memory_stage final : public stage {
 public:
  memory_stage(sequence<feature> features, sequence<column> columns, std::size_t size)
      : stage(std::move(features)), rows_(new memory_table(this->features(), std::move(columns), size)) {}

  optional_count size() const override { return rows_->size(); }
  bool has_rows() const override { return true; }
  intrusive_ptr<const table> rows(std::uint64_t, stop_source*) const override { return rows_; }

 private:
  intrusive_ptr<const memory_table> rows_;
};

WEFT_DECL stage_ptr new_memory_stage(sequence<feature> features, sequence<column> columns, const std::size_t* rows) {
  for (std::size_t i = 1; i < columns.size(); ++i)
    if (rows[i] != rows[0])
      throw error(error_code::invalid_argument, "from_tensors",
                  {"feature 0 has ", rows[0], " elements, but feature ", i, " has ", rows[i]});
  return stage_ptr(new memory_stage(std::move(features), std::move(columns), rows[0]));
}

// ---- iteration ----

WEFT_DECL intrusive_ptr<stream> stage::open(std::uint64_t epoch, stop_source* stop) const {
  if (const thread_use use = threads(); use.count > 1) return use.open(*this, epoch, stop, use.count);
  return intrusive_ptr<stream>(new table_stream(rows(epoch, stop), stop));
}

WEFT_DECL cursor::cursor(stage_ptr stage, const data::position& from)
    : stage_(std::move(stage)), elements_(stage_->open(from.epoch, nullptr)), at_{from.epoch, from.element} {
  if (from.element > 0) elements_->skip(from.element);
}

WEFT_DECL cursor& cursor::operator=(cursor&& other) {
  elements_ = std::move(other.elements_);  // first, because a stream's threads use its stage
  stage_ = std::move(other.stage_);
  element_ = std::move(other.element_);
  at_ = other.at_;
  delivered_ = other.delivered_;
  return *this;
}

WEFT_DECL bool cursor::advance(const time_limit& within) {
  if (!elements_->next(element_, within)) {
    const auto size = delivered_ ? optional_count() : stage_->size();
    if (size && at_.element > *size)
      throw error(error_code::out_of_range, "dataset",
                  {"cannot continue from element ", at_.element, " of epoch ", at_.epoch, ", which has ", *size,
                   " elements: the data or the batch size changed after the position was saved"});
    return false;
  }
  delivered_ = true;
  ++at_.element;
  return true;
}

}  // namespace weft::data::detail
WEFT_COLD_END

namespace weft::data::detail {

WEFT_DECL void copy_rows(const std::byte* from, std::size_t row_bytes, const std::size_t* indices, std::size_t count,
                         std::byte* to) {
  if (row_bytes == 0) return;
  const auto each = [=](auto bytes) {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from + indices[i] * bytes, bytes);
  };
  if (row_bytes == 4) return each(std::integral_constant<std::size_t, 4>());
  if (row_bytes == 8) return each(std::integral_constant<std::size_t, 8>());
  each(row_bytes);
}

WEFT_DECL void scale_rows(const std::byte* from, std::size_t row_bytes, const std::size_t* indices, std::size_t count,
                          float* to) {
  multiversioned([=] {
    for (std::size_t i = 0; i < count; ++i) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(from) + indices[i] * row_bytes;
      float* numbers = to + i * row_bytes;
      // Shuffled examples are far apart in memory, so prefetch the next one while this one is converted.
      if (i + 1 < count)
        for (std::size_t j = 0; j < row_bytes; j += 64) __builtin_prefetch(from + indices[i + 1] * row_bytes + j);
      WEFT_VECTORIZE
      for (std::size_t j = 0; j < row_bytes; ++j) numbers[j] = static_cast<float>(bytes[j]) / 255.0f;
    }
  });
}

}  // namespace weft::data::detail

#endif

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <weft/data/element.hpp>
#include <weft/deadline.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>

// How a dataset is made: a chain of stages, which know extents and sizes of entries but no types, so that they are
// compiled once. A stage of which the elements can be reached by number has `rows`: shuffling, sharding and batching
// then only compute numbers, and a batch is gathered from memory in one pass. Other stages are streams.
namespace weft::data::detail {

/// The elements of one epoch, by number. Several threads may read at once.
class table {
 public:
  /// Those of the stage, which outlives its tables.
  explicit table(const std::vector<feature>& features) : features_(features) {}
  virtual ~table() = default;

  const std::vector<feature>& features() const { return features_; }
  virtual std::size_t size() const = 0;
  virtual void read(std::size_t index, element& to) const = 0;
  /// The elements of these numbers, stacked along a new first axis.
  virtual void gather(const std::size_t* indices, std::size_t count, element& batch) const;

 private:
  const std::vector<feature>& features_;
};

/// Ends a stream of which no more is wanted. Sources call it for each element: a stage behind them may ask for any
/// number before it delivers one.
inline void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw error(error_code::cancelled, "dataset", "the iteration has been stopped");
}

/// Elements one after the other, for one thread.
class stream {
 public:
  virtual ~stream() = default;
  /// Writes the next element, over one that was delivered before; false at the end, again and again. Throws
  /// deadline_exceeded where it waits for other threads for too long: another call goes on.
  virtual bool next(element& to, const deadline& within) = 0;
  /// Writes up to `most` of the next elements, stacked, if that is cheaper than one by one, as where a file is parsed
  /// right into the batch; returns how many, 0 at the end.
  virtual std::optional<std::size_t> next_batch(std::size_t, element&) { return {}; }
  /// Passes over elements; before the first one is asked for.
  virtual void skip(std::uint64_t count) {
    for (element passed; count > 0 && next(passed, deadline::never());) --count;
  }
};

class stage {
 public:
  explicit stage(std::vector<feature> features) : features_(std::move(features)) {}
  virtual ~stage() = default;

  const std::vector<feature>& features() const { return features_; }

  /// How many elements an epoch has, where that is known before they are read.
  virtual std::optional<std::uint64_t> size() const { return {}; }
  virtual bool has_rows() const { return false; }
  virtual std::shared_ptr<const table> rows(std::uint64_t, std::stop_token) const { return nullptr; }
  /// How many threads are to make the elements.
  virtual int threads() const { return 1; }
  /// Streams are independent of each other; the stage outlives them. Waits end when a stop is requested.
  virtual std::unique_ptr<stream> open(std::uint64_t epoch, std::stop_token stop) const;

 private:
  std::vector<feature> features_;
};

using stage_ptr = std::shared_ptr<const stage>;

/// Puts elements of the same extents one after the other.
class stacker {
 public:
  /// `room`: for how many elements the first batch takes memory at once. It grows with the elements, for a stream may
  /// end long before a batch is full; later batches take what the one before has needed.
  explicit stacker(std::size_t room = 1) : room_(room) {}

  /// `most`: how many are going to be added at most. `batch` is the same one for all of these.
  void add(const std::vector<feature>& features, element& one, std::size_t most, element& batch) {
    batch.resize(features.size());
    for (std::size_t i = 0; i < features.size(); ++i) {
      value& all = batch[i];
      if (features[i].is_text()) {
        if (count_ == 0) all.texts.clear();
        all.texts.push_back(std::move(one[i].texts.at(0)));
        continue;
      }
      const shape extents = one[i].extents;
      if (count_ == 0) {
        all.reserve(stacked(std::min(room_, most), extents), features[i].entry_bytes);
      } else if (stacked(static_cast<std::size_t>(all.extents[0]), extents) != all.extents) {
        shape first;
        for (std::size_t axis = 1; axis < all.extents.rank; ++axis) first.push_back(all.extents[axis]);
        throw error(error_code::invalid_argument, "batches",
                    {"feature ", i, " has the extents ", to_string(extents), " in one element and ", to_string(first),
                     " in another of a batch; padded_batches fills up what is shorter"});
      }
      if (count_ == static_cast<std::size_t>(all.extents[0]))
        all.grow(std::min(2 * count_, most), features[i].entry_bytes);
      const std::size_t bytes = extents.elements() * features[i].entry_bytes;
      if (bytes > 0) std::memcpy(all.bytes.data() + count_ * bytes, one[i].bytes.data(), bytes);
    }
    room_ = std::max(room_, ++count_);
  }
  /// Ends the batch.
  void finish(const std::vector<feature>& features, element& batch) {
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

inline void table::gather(const std::size_t* indices, std::size_t count, element& batch) const {
  stacker all(count);
  element one;
  for (std::size_t i = 0; i < count; ++i) {
    read(indices[i], one);
    all.add(features_, one, count, batch);
  }
  all.finish(features_, batch);
}

/// A table from its beginning to its end.
class table_stream final : public stream {
 public:
  table_stream(std::shared_ptr<const table> rows, std::stop_token stop)
      : rows_(std::move(rows)), stop_(std::move(stop)) {}

  bool next(element& to, const deadline&) override {
    check_stop(stop_);
    if (at_ >= rows_->size()) return false;
    rows_->read(at_, to);
    ++at_;
    return true;
  }
  void skip(std::uint64_t count) override {
    at_ += static_cast<std::size_t>(std::min<std::uint64_t>(count, rows_->size() - at_));
  }

 private:
  std::shared_ptr<const table> rows_;
  std::stop_token stop_;
  std::size_t at_ = 0;
};

// ---- elements in memory ----

/// A feature of all elements, row by row.
struct column {
  std::shared_ptr<const void> owner;  ///< of `data`
  const std::byte* data = nullptr;
  shape extents;              ///< of a row, where all have the same
  std::size_t row_bytes = 0;  ///< and what it takes
  bool scaled = false;        ///< `data` are bytes that are read as floats from 0 to 1
  std::shared_ptr<const std::vector<std::string>> texts;
  std::vector<shape> shapes;         ///< of each row, where they differ,
  std::vector<std::uint64_t> begin;  ///< and where it begins
};

/// Copies `count` rows from anywhere to one place.
void copy_rows(const std::byte* from, std::size_t row_bytes, const std::size_t* indices, std::size_t count,
               std::byte* to);
/// The same, of bytes as floats from 0 to 1.
void scale_rows(const std::byte* from, std::size_t row_bytes, const std::size_t* indices, std::size_t count, float* to);

class memory_table final : public table {
 public:
  memory_table(const std::vector<feature>& features, std::vector<column> columns, std::size_t size)
      : table(features), columns_(std::move(columns)), size_(size) {}

  std::size_t size() const override { return size_; }

  void read(std::size_t index, element& to) const override {
    to.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const column& c = columns_[i];
      if (c.texts) {
        to[i].texts.assign(1, (*c.texts)[index]);
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
      for (std::size_t row = 0; row < count; ++row) batch[i].texts[row] = (*c.texts)[indices[row]];
    }
  }

 private:
  static void copy(const column& c, const std::size_t* indices, std::size_t count, std::byte* to) {
    if (c.scaled)
      scale_rows(c.data, c.row_bytes, indices, count, reinterpret_cast<float*>(to));
    else
      copy_rows(c.data, c.row_bytes, indices, count, to);
  }

  std::vector<column> columns_;
  std::size_t size_;
};

class memory_stage final : public stage {
 public:
  memory_stage(std::vector<feature> features, std::vector<column> columns, std::size_t size)
      : stage(std::move(features)),
        rows_(std::make_shared<const memory_table>(this->features(), std::move(columns), size)) {}

  std::optional<std::uint64_t> size() const override { return rows_->size(); }
  bool has_rows() const override { return true; }
  std::shared_ptr<const table> rows(std::uint64_t, std::stop_token) const override { return rows_; }

 private:
  std::shared_ptr<const memory_table> rows_;
};

inline void copy_rows(const std::byte* from, std::size_t row_bytes, const std::size_t* indices, std::size_t count,
                      std::byte* to) {
  if (row_bytes == 0) return;
  const auto each = [=](auto bytes) {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from + indices[i] * bytes, bytes);
  };
  if (row_bytes == 4) return each(std::integral_constant<std::size_t, 4>());
  if (row_bytes == 8) return each(std::integral_constant<std::size_t, 8>());
  each(row_bytes);
}

inline void scale_rows(const std::byte* from, std::size_t row_bytes, const std::size_t* indices, std::size_t count,
                       float* to) {
  multiversioned([=] {
    for (std::size_t i = 0; i < count; ++i) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(from) + indices[i] * row_bytes;
      float* numbers = to + i * row_bytes;
      // Shuffled examples are far apart: the next one is fetched while this one is converted.
      if (i + 1 < count)
        for (std::size_t j = 0; j < row_bytes; j += 64) __builtin_prefetch(from + indices[i + 1] * row_bytes + j);
      WEFT_VECTORIZE
      for (std::size_t j = 0; j < row_bytes; ++j) numbers[j] = static_cast<float>(bytes[j]) / 255.0f;
    }
  });
}

}  // namespace weft::data::detail

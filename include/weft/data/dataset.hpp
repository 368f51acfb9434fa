#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::data {

/// Some examples of a dataset: values of `Features` each, and their labels.
template <int Features>
struct example_batch {
  tensor<float, dims<dyn<"batch">, Features>> values;
  tensor<std::int32_t, dims<dyn<"batch">>> labels;
};

/// Labelled examples in memory, as bytes, that are read as numbers from 0 to 1.
///
/// A dataset is a handle: the bytes are shared, and `shuffled` and `shard` only choose among them and order them.
template <int Features>
class dataset {
 public:
  /// Throws invalid_argument unless there are `Features` values to each label.
  dataset(std::vector<std::uint8_t> values, std::vector<std::int32_t> labels) {
    if (values.size() / Features != labels.size() || values.size() % Features != 0)
      throw error(error_code::invalid_argument, "dataset",
                  std::to_string(values.size()) + " values do not make " + std::to_string(labels.size()) +
                      " examples of " + std::to_string(Features));
    std::vector<std::uint32_t> order(labels.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    examples_ = std::make_shared<const examples>(examples{std::move(values), std::move(labels)});
    order_ = std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
  }

  std::size_t size() const { return order_->size(); }

  /// The number, in the file's order, of the example that stands at `position`.
  std::size_t index(std::size_t position) const { return (*order_)[position]; }

  /// The same examples in an order that depends on this one, the seed and the epoch alone: the same in every process.
  dataset shuffled(std::uint64_t seed = 0, std::uint64_t epoch = 0) const {
    auto order = *order_;
    std::uint64_t state = mix(seed) ^ mix(~epoch);
    for (std::size_t i = order.size(); i > 1; --i) {
      // The high half of a 64 x 32-bit product: no example is favoured by more than 2^-32.
      const auto random = static_cast<std::uint32_t>(mix(state += golden) >> 32);
      std::swap(order[i - 1], order[(std::uint64_t{random} * i) >> 32]);
    }
    return {examples_, std::move(order)};
  }

  /// Every `count`-th example from the `index`-th on: what worker `index` of `count` trains on. The shards are
  /// disjoint, leave nothing out, and differ in size by at most one.
  dataset shard(std::size_t index, std::size_t count) const {
    if (index >= count)
      throw error(error_code::invalid_argument, "shard",
                  "there is no shard " + std::to_string(index) + " of " + std::to_string(count));
    std::vector<std::uint32_t> order;
    order.reserve(size() / count + 1);
    for (std::size_t i = index; i < size(); i += count) order.push_back((*order_)[i]);
    return {examples_, std::move(order)};
  }

  /// How many batches of `batch_size` there are, the last and smaller one included.
  std::size_t batch_count(std::size_t batch_size) const { return (size() + batch_size - 1) / batch_size; }

  /// Writes `count` examples from `first` on to `values` and `labels`.
  void copy(std::size_t first, std::size_t count, float* values, std::int32_t* labels) const {
    const std::uint32_t* order = order_->data() + first;
    const std::uint8_t* from = examples_->values.data();
    multiversioned([=] {
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint8_t* bytes = from + std::size_t{order[i]} * Features;
        float* numbers = values + i * Features;
        // Shuffled examples are far apart: the next one is fetched while this one is converted.
        if (i + 1 < count)
          for (int j = 0; j < Features; j += 64) __builtin_prefetch(from + std::size_t{order[i + 1]} * Features + j);
        WEFT_VECTORIZE
        for (int j = 0; j < Features; ++j) numbers[j] = static_cast<float>(bytes[j]) / 255.0f;
      }
    });
    for (std::size_t i = 0; i < count; ++i) labels[i] = examples_->labels[order[i]];
  }

  class batch_range;

  /// The examples in order, `batch_size` at a time; the last batch holds what is left.
  ///
  ///     for (auto [x, y] : train.shuffled(seed, epoch).batches(100)) step(x, y);
  ///
  /// The tensors are filled anew for each batch, not allocated. Whoever keeps one past its turn keeps its values.
  batch_range batches(std::size_t batch_size) const { return {*this, batch_size}; }

 private:
  struct examples {
    std::vector<std::uint8_t> values;
    std::vector<std::int32_t> labels;
  };

  dataset(std::shared_ptr<const examples> shared, std::vector<std::uint32_t> order)
      : examples_(std::move(shared)), order_(std::make_shared<const std::vector<std::uint32_t>>(std::move(order))) {}

  // SplitMix64, the same bits everywhere; the standard's shuffle and distributions differ between libraries.
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;
  static constexpr std::uint64_t mix(std::uint64_t z) {
    z += golden;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::shared_ptr<const examples> examples_;
  std::shared_ptr<const std::vector<std::uint32_t>> order_;
};

/// A dataset's batches, each made when it is reached.
template <int Features>
class dataset<Features>::batch_range {
 public:
  batch_range(dataset source, std::size_t batch_size) : source_(std::move(source)), batch_size_(batch_size) {
    if (batch_size == 0) throw error(error_code::invalid_argument, "batches", "a batch has at least one example");
  }

  class iterator {
   public:
    using value_type = example_batch<Features>;
    using difference_type = std::ptrdiff_t;

    explicit iterator(const batch_range& range) : range_(&range) { fill(); }

    const value_type& operator*() const { return batch_; }
    iterator& operator++() {
      first_ += range_->batch_size_;
      fill();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return first_ >= range_->source_.size(); }

   private:
    void fill() {
      if (*this == std::default_sentinel) return;
      const std::size_t left = range_->source_.size() - first_;
      const std::size_t count = left < range_->batch_size_ ? left : range_->batch_size_;
      reserve(batch_.values, shape(count, Features));
      reserve(batch_.labels, shape(count));
      range_->source_.copy(first_, count, batch_.values.data(), batch_.labels.data());
    }

    // A batch that somebody keeps stays as it is; so does one of another size.
    template <class Tensor>
    static void reserve(Tensor& t, const shape& extents) {
      if (!t.can_hold(extents)) t = Tensor(extents, uninitialized{});
    }

    const batch_range* range_;
    std::size_t first_ = 0;
    value_type batch_;
  };

  iterator begin() const { return iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  dataset source_;
  std::size_t batch_size_;
};

}  // namespace weft::data

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/data/further_stage.hpp>
#include <weft/data/new_stages.hpp>
#include <weft/data/stages/selected.hpp>
#include <weft/error.hpp>
#include <weft/tensor/sequence.hpp>

#if WEFT_DEFINITIONS
namespace weft::data::detail {

// Not in the cold section, so that loops over elements are compiled for speed.

/// Generates random words from a seed and an epoch with SplitMix64, with the same bits on all platforms; the standard's
/// shuffle and distributions differ between libraries.
class order_random {
 public:
  order_random(std::uint64_t seed, std::uint64_t epoch) : state_(mix(seed) ^ mix(~epoch)) {}

  /// Returns an integer below `limit`, which has 32 bits: the high half of a 64 x 32-bit product has a bias of at most
  /// 2^-32.
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

}  // namespace weft::data::detail

WEFT_COLD_BEGIN
namespace weft::data::detail {

class shuffled_stage final : public further_stage {
 public:
  shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::uint64_t first_epoch)
      : further_stage(std::move(upstream)), seed_(seed), first_epoch_(first_epoch) {}

  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    auto all = upstream().rows(epoch, stop);
    if (all->size() > UINT32_MAX)
      throw error(
          error_code::unimplemented, "shuffled",
          {all->size(), " elements are too many to shuffle at once: use shuffled(seed, shuffle_buffer{10'000})"});
    sequence<std::uint32_t> order(all->size());
    shuffle(order.data(), order.size(), order_random(seed_, first_epoch_ + epoch));
    return intrusive_ptr<const table>(new selected_table(std::move(all), std::move(order)));
  }

 private:
  std::uint64_t seed_, first_epoch_;
};

/// Shuffles a stream within a buffer, as TensorFlow's shuffle does.
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
      throw error(error_code::invalid_argument, "shuffled",
                  {"the shuffle buffer must have 1 to 2^32 - 1 elements, but has ", capacity});
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

WEFT_DECL stage_ptr new_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::uint64_t first_epoch) {
  if (!upstream->has_rows())
    throw error(error_code::failed_precondition, "shuffled",
                "a stream can only be shuffled within a buffer: use shuffled(seed, "
                "shuffle_buffer{10'000}), or call cache() first");
  return stage_ptr(new shuffled_stage(std::move(upstream), seed, first_epoch));
}

WEFT_DECL stage_ptr new_buffer_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::size_t capacity) {
  return stage_ptr(new buffer_shuffled_stage(std::move(upstream), seed, capacity));
}

}  // namespace weft::data::detail

WEFT_COLD_END
#endif

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <weft/error.hpp>
#include <weft/transport/transport.hpp>
#include <weft/distributed/update_rule.hpp>
#include <weft/distributed/variables.hpp>

namespace weft {

namespace detail {

// Bytes on a cache line's boundary, not initialised.
class aligned_bytes {
 public:
  aligned_bytes() = default;
  explicit aligned_bytes(std::size_t size)
      : data_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), alignment))), size_(size) {}

  operator mutable_bytes() { return {data_.get(), size_}; }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct release {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, alignment); }
  };
  std::unique_ptr<std::byte[], release> data_;
  std::size_t size_ = 0;
};

}  // namespace detail

/// What one parameter server holds: the values of its variables one after the other (as they travel), the slots of
/// their rules, and how many updates have been applied. No input or output, no locks: one thread owns it.
class parameter_store {
 public:
  parameter_store() = default;

  /// Holds those of `variables` that belong to `ps_task`, not yet initialised.
  /// Throws weft::error: not_found or invalid_argument for a rule, resource_exhausted above `most_bytes`.
  parameter_store(std::span<const variable_info> variables, int ps_task, std::uint64_t most_bytes) {
    std::uint64_t total = 0;
    for (const std::size_t i : detail::wire_order(variables, ps_task)) {
      const variable_info& variable = variables[i];
      range next{variable.type,     static_cast<std::size_t>(total),
                 variable.elements, update_rules::find(variable.rule),
                 variable.rule,     {}};
      total += variable.bytes() * (1 + next.code.slots);
      if (total > most_bytes)
        throw error(error_code::resource_exhausted, "parameter_server",
                    "the variables and their slots need more than the " + std::to_string(most_bytes) +
                        " bytes that this server may hold");
      total -= variable.bytes() * next.code.slots;
      ranges_.push_back(std::move(next));
    }
    values_ = detail::aligned_bytes(static_cast<std::size_t>(total));
    for (range& each : ranges_) {
      each.slots = detail::aligned_bytes(each.elements * size_of(each.type) * each.code.slots);
      if (each.slots.size() > 0) std::memset(each.slots.data(), 0, each.slots.size());
    }
  }

  std::size_t bytes() const { return values_.size(); }
  mutable_bytes values() { return values_; }

  bool initialised() const { return initialised_; }
  /// values() have been filled in.
  void set_initialised() { initialised_ = true; }

  /// Updates applied so far.
  std::int64_t global_step() const { return global_step_; }

  /// Applies one worker's gradients, laid out as values().
  void apply(const_bytes gradients) {
    for (range& each : ranges_) {
      if (each.type == element_type::float32)
        update<float>(each, 0, each.elements, reinterpret_cast<const float*>(gradients.data() + each.offset));
      else
        update<double>(each, 0, each.elements, reinterpret_cast<const double*>(gradients.data() + each.offset));
    }
    ++global_step_;
  }

  /// Applies the mean of several workers' gradients: their sum in the given order, divided by how many there are.
  void apply_mean(std::span<const const_bytes> gradients) {
    for (range& each : ranges_) {
      if (each.type == element_type::float32)
        update_mean<float>(each, gradients);
      else
        update_mean<double>(each, gradients);
    }
    ++global_step_;
  }

 private:
  struct range {
    element_type type;
    std::size_t offset;  // bytes
    std::size_t elements;
    update_implementation code;
    update_rule rule;
    detail::aligned_bytes slots;
  };

  template <typename T>
  void update(range& each, std::size_t first, std::size_t count, const T* gradient) {
    std::span<T> slots[update_implementation::most_slots];
    for (std::size_t i = 0; i < each.code.slots; ++i)
      slots[i] = {reinterpret_cast<T*>(each.slots.data()) + i * each.elements + first, count};
    const std::span<T> values{reinterpret_cast<T*>(values_.data() + each.offset) + first, count};
    const auto code = [&] {
      if constexpr (std::is_same_v<T, float>)
        return each.code.for_float;
      else
        return each.code.for_double;
    }();
    code(values, {gradient, count}, std::span<const std::span<T>>(slots, each.code.slots), each.rule.parameters);
  }

  template <typename T>
  void update_mean(range& each, std::span<const const_bytes> gradients) {
    constexpr std::size_t piece = 2048;  // stays in the first-level cache between its passes
    alignas(64) T sum[piece];
    const auto divisor = static_cast<T>(gradients.size());
    for (std::size_t first = 0; first < each.elements; first += piece) {
      const std::size_t count = std::min(piece, each.elements - first);
      const auto of = [&](std::size_t worker) {
        return reinterpret_cast<const T*>(gradients[worker].data() + each.offset) + first;
      };
      if (gradients.size() == 1)
        std::copy_n(of(0), count, sum);
      else
        detail::add(sum, of(0), of(1), count);
      for (std::size_t worker = 2; worker < gradients.size(); ++worker) detail::accumulate(sum, of(worker), count);
      detail::divide(sum, count, divisor);
      update<T>(each, first, count, sum);
    }
  }

  std::vector<range> ranges_;
  detail::aligned_bytes values_;
  bool initialised_ = false;
  std::int64_t global_step_ = 0;
};

}  // namespace weft

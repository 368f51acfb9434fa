#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/device/cpu/thread_pool.hpp>
#include <weft/distributed/update_rule.hpp>
#include <weft/distributed/variables.hpp>
#include <weft/distributed/vector_loops.hpp>
#include <weft/error.hpp>
#include <weft/transport/transport.hpp>

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

/// Where one worker's gradients, or a copy of the values, lie: at `base`, each variable at its offset.
template <typename Byte>
struct placed_bytes {
  Byte* base = nullptr;
  std::span<const std::size_t> offsets;
};

/// What one parameter server holds: the values of its variables one after the other (as they travel), the slots of
/// their rules, and how many updates have been applied. No input or output, no locks: one thread owns it.
class parameter_store {
 public:
  parameter_store() = default;

  /// Holds those of `variables` that belong to `ps_task`, not yet initialised, and room for a mean where it
  /// `takes_means`.
  /// Throws weft::error: not_found or invalid_argument for a rule, resource_exhausted above `max_bytes` or
  /// where there is not the memory.
  parameter_store(std::span<const parameter_spec> variables, int ps_task, std::uint64_t max_bytes,
                  bool takes_means = false) {
    std::uint64_t total = 0, in_slots = 0;
    const std::vector<std::size_t> order = detail::wire_order(variables, ps_task);
    for (const std::size_t i : order) {
      const parameter_spec& variable = variables[i];
      range next{
          i, variable.type, static_cast<std::size_t>(total), variable.elements, update_rules::find(variable.rule), {},
          {}};
      const detail::optimizer_layout& layout = *next.code.layout;
      for (const double parameter : variable.rule.parameters) next.numbers.push_back(detail::literal_bits(parameter));
      next.numbers.resize(layout.hyperparameters + layout.slots - layout.arrays());
      total += variable.bytes();
      in_slots += variable.bytes() * (layout.arrays() + (takes_means ? 1 : 0));
      if (total + in_slots > max_bytes)
        throw error(error_code::resource_exhausted, "parameter_server",
                    "the variables, their slots and the room for gradients need more than the " +
                        std::to_string(max_bytes) + " bytes that this server may hold");
      packed_.push_back(next.offset);
      ranges_.push_back(std::move(next));
    }
    shared_ = detail::segment_layout(variables, order);
    try {
      values_ = detail::aligned_bytes(static_cast<std::size_t>(total));
      if (takes_means) mean_ = detail::aligned_bytes(static_cast<std::size_t>(total));
      for (range& each : ranges_)
        each.slots = detail::aligned_bytes(each.elements * size_of(each.type) * each.code.layout->arrays());
    } catch (const std::bad_alloc&) {
      throw error(
          error_code::resource_exhausted, "parameter_server",
          "there is not the memory for " + std::to_string(total + in_slots) + " bytes of variables and their slots");
    }
    for (range& each : ranges_) each.fill_slots(variables[each.number].rule.parameters);
  }

  std::size_t bytes() const { return values_.size(); }
  mutable_bytes values() { return values_; }

  bool initialised() const { return initialised_; }
  /// values() have been filled in.
  void set_initialised() { initialised_ = true; }

  /// Updates applied so far.
  std::int64_t global_step() const { return global_step_; }

  /// How a segment shared with a worker is laid out.
  const detail::segment_layout& shared_layout() const { return shared_; }
  /// Gradients that lie one after the other, as values() do.
  placed_bytes<const std::byte> packed(const_bytes gradients) const { return {gradients.data(), packed_}; }
  placed_bytes<const std::byte> packed(const detail::aligned_bytes& gradients) const {
    return {gradients.data(), packed_};
  }

  /// Where a gradient is not finite.
  struct nonfinite {
    std::size_t variable;  // the number of the list that this store was made from
    std::size_t element;
  };
  std::optional<nonfinite> find_nonfinite(placed_bytes<const std::byte> gradients) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const range& each = ranges_[i];
      const auto look = [&]<typename T>(T) -> std::optional<nonfinite> {
        const T* const of = elements<T>(gradients, i);
        const std::size_t at = detail::first_nonfinite(of, each.elements);
        if (at == each.elements) return {};
        return nonfinite{each.number, at};
      };
      if (const auto found = each.type == element_type::float32 ? look(float{}) : look(double{})) return found;
    }
    return {};
  }

  /// Applies one worker's gradients. What changes is written to `copies` too, in the same pass.
  void apply(placed_bytes<const std::byte> gradients, std::span<const placed_bytes<std::byte>> copies = {},
             thread_pool* helpers = nullptr) {
    for (range& each : ranges_) each.loops().advance(each.numbers.data());
    for_each_piece(
        [&]<typename T>(T, std::size_t variable, std::size_t first, std::size_t count) {
          update<T>(variable, first, count, elements<T>(gradients, variable) + first, copies);
        },
        helpers);
    ++global_step_;
  }
  void apply(const_bytes gradients) { apply(packed(gradients)); }

  /// What one worker brings to a mean: how much it counts, beside 1 of the others.
  struct contribution {
    placed_bytes<const std::byte> gradients;
    double weight = 1;
  };

  /// Applies the mean of several workers' gradients: their weighted sum in the given order, divided by the sum of the
  /// weights. Threads of `helpers`, where there are any, share the work. With `only_finite` it is applied wholly or,
  /// where some element of it is not finite, not at all; returns whether it was.
  bool apply_mean(std::span<const contribution> of, std::span<const placed_bytes<std::byte>> copies = {},
                  thread_pool* helpers = nullptr, bool only_finite = false) {
    if (mean_.size() != values_.size()) mean_ = detail::aligned_bytes(values_.size());
    double weights = 0;
    bool equal = true;
    for (const contribution& each : of) {
      weights += each.weight;
      equal &= each.weight == 1;
    }
    std::atomic<bool> finite{true};
    for_each_piece(
        [&]<typename T>(T, std::size_t variable, std::size_t first, std::size_t count) {
          T* const mean = reinterpret_cast<T*>(mean_.data() + ranges_[variable].offset) + first;
          const auto from = [&](std::size_t worker) { return elements<T>(of[worker].gradients, variable) + first; };
          const T by = static_cast<T>(weights);
          bool all_finite;
          if (of.size() == 2 && equal) {
            all_finite = detail::mean_of_two(mean, from(0), from(1), count, by);
          } else {
            alignas(64) T scaled[max_at_once];
            for (std::size_t worker = 0; worker < of.size(); ++worker) {
              const T* next = from(worker);
              if (of[worker].weight != 1) {
                detail::scale(scaled, next, count, static_cast<T>(of[worker].weight));
                next = scaled;
              }
              if (worker == 0)
                std::copy_n(next, count, mean);
              else
                detail::accumulate(mean, next, count);
            }
            all_finite = detail::divide(mean, count, by);
          }
          if (!all_finite) finite.store(false, std::memory_order_relaxed);
        },
        helpers);
    if (only_finite && !finite) return false;
    apply(packed(mean_), copies, helpers);
    return true;
  }
  void apply_mean(std::span<const const_bytes> gradients) {
    std::vector<contribution> placed;
    for (const const_bytes each : gradients) placed.push_back({packed(each), 1});
    apply_mean(placed);
  }

  /// Writes the values there.
  void copy_to(placed_bytes<std::byte> copy) {
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      std::memcpy(copy.base + copy.offsets[i], values_.data() + ranges_[i].offset,
                  ranges_[i].elements * size_of(ranges_[i].type));
  }

 private:
  struct range {
    std::size_t number;  // in the list of variables
    element_type type;
    std::size_t offset;  // bytes
    std::size_t elements;
    update_implementation code;
    std::vector<std::uint64_t> numbers;  // the hyperparameters, then the scalar slots as of the last update
    detail::aligned_bytes slots;         // the others, one after the other

    const update_implementation::loops& loops() const {
      return type == element_type::float32 ? code.of_float : code.of_double;
    }
    void fill_slots(const std::vector<double>& parameters) {
      double first[detail::max_slots];
      code.first_values(parameters, first);
      std::size_t array = 0, scalar = code.layout->hyperparameters;
      for (std::size_t k = 0; k < code.layout->slots; ++k)
        if (code.layout->is_scalar(k))
          numbers[scalar++] =
              detail::literal_bits(type == element_type::float32 ? static_cast<float>(first[k]) : first[k]);
        else if (type == element_type::float32)
          std::fill_n(reinterpret_cast<float*>(slots.data()) + elements * array++, elements,
                      static_cast<float>(first[k]));
        else
          std::fill_n(reinterpret_cast<double*>(slots.data()) + elements * array++, elements, first[k]);
    }
  };

  template <typename T>
  void update(std::size_t variable, std::size_t first, std::size_t count, const T* gradient,
              std::span<const placed_bytes<std::byte>> copies) {
    range& each = ranges_[variable];
    const std::size_t arrays = 1 + each.code.layout->arrays();
    const void* in[detail::max_slots + 2] = {};
    void* out[detail::max_slots + 2];
    T* const values = reinterpret_cast<T*>(values_.data() + each.offset) + first;
    out[0] = values;
    for (std::size_t i = 1; i < arrays; ++i)
      out[i] = reinterpret_cast<T*>(each.slots.data()) + (i - 1) * each.elements + first;
    in[arrays] = gradient;
    const auto place = [&](const placed_bytes<std::byte>& copy) {
      return reinterpret_cast<T*>(copy.base + copy.offsets[variable]) + first;
    };
    if (!copies.empty()) {
      out[arrays] = place(copies[0]);
      each.loops().copying(in, out, count, each.numbers.data());
      copies = copies.subspan(1);
    } else {
      each.loops().plain(in, out, count, each.numbers.data());
    }
    for (const placed_bytes<std::byte>& copy : copies) std::memcpy(place(copy), values, count * sizeof(T));
  }

  static constexpr std::size_t max_at_once = 2048;  // elements: they stay in the first-level cache between two passes

  static constexpr std::size_t shared_at_once = 16 * max_at_once;

  /// Calls work(T{}, variable, first element, how many) for all values, piece by piece.
  template <typename Work>
  void for_each_piece(Work work, thread_pool* helpers = nullptr) {
    for (std::size_t variable = 0; variable < ranges_.size(); ++variable) {
      const range& all = ranges_[variable];
      const auto part = [&](std::size_t number) {
        const std::size_t end = std::min(all.elements, (number + 1) * shared_at_once);
        for (std::size_t first = number * shared_at_once; first < end; first += max_at_once) {
          const std::size_t count = std::min(max_at_once, end - first);
          if (all.type == element_type::float32)
            work(float{}, variable, first, count);
          else
            work(double{}, variable, first, count);
        }
      };
      const std::size_t parts = (all.elements + shared_at_once - 1) / shared_at_once;
      if (helpers && parts > 1)
        helpers->parallel_for(parts, part);
      else
        for (std::size_t number = 0; number < parts; ++number) part(number);
    }
  }

  template <typename T>
  static const T* elements(const placed_bytes<const std::byte>& from, std::size_t variable) {
    return reinterpret_cast<const T*>(from.base + from.offsets[variable]);
  }

  std::vector<range> ranges_;
  std::vector<std::size_t> packed_;
  detail::segment_layout shared_;
  detail::aligned_bytes values_, mean_;
  bool initialised_ = false;
  std::int64_t global_step_ = 0;
};

}  // namespace weft

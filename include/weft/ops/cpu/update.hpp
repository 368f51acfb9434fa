// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/loop.hpp>
#include <weft/device/kernel.hpp>
#include <weft/ops/cpu/state.hpp>
#include <weft/ops/cpu/update_loop.hpp>
#include <weft/ops/update_view.hpp>
#include <weft/tensor/sequence.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// CPU kernels of optimizer updates: dense, or by rows.
namespace weft::detail {

WEFT_COLD_BEGIN

kernel* prepare_update(const prepare_context&, const update_layout&, device::block_function, advance_function);
/// Throws invalid_argument unless the operands of an update fit.
void check_update(const prepare_context&, const update_layout&);

#if WEFT_DEFINITIONS

WEFT_DECL void check_update(const prepare_context& p, const update_layout& of) {
  for (std::size_t k = 0; k < of.slots; ++k)
    if (!of.is_scalar(k)) check_assigned(p, update_view::slot_input(k));
  const update_view u(p.node);
  if (u.row_lists() == 0) return check_assigned(p, u.gradient_input());
  const axis_rows rows(p.inputs[u.variable_input()].extents, 0);
  for (std::size_t k = 0; k < u.row_lists(); ++k) {
    const shape &x = p.inputs[u.rows_input(k)].extents, &n = p.inputs[u.row_indices_input(k)].extents;
    if (x.elements() != n.elements() * rows.inner)
      throw error(error_code::invalid_argument, p.node.op->name,
                  {"rows of extents ", to_string(x), " with indices of ", to_string(n), " do not fit a variable of ",
                   to_string(p.inputs[0].extents)});
  }
}

/// The hyperparameters and scalar slots of each step.
class step_numbers {
 public:
  step_numbers(const prepare_context& p, const update_layout& of, advance_function advance)
      : layout_(of), advance_(advance), type_(p.inputs[0].type), numbers_(p.node.literals) {
    for (std::size_t k = 0; k < of.slots; ++k)
      if (of.is_scalar(k)) scalars_.push_back(p.input_slots[update_view::slot_input(k)]);
    const update_view u(p.node);
    for (std::size_t k = 0; k < of.hyperparameters; ++k)
      if (u.is_computed(k)) computed_[k] = p.input_slots[u.hyperparameter_input(k)], any_computed_ |= 1u << k;
  }

  /// Reads the numbers of a step, and advances the scalar slots.
  void find(const kernel_context& f, std::uint64_t* numbers) const {
    for (std::size_t k = 0; k < layout_.hyperparameters; ++k) numbers[k] = numbers_[k];
    for (std::size_t k = 0; any_computed_ >> k; ++k)
      if ((any_computed_ >> k) & 1) __builtin_memcpy(numbers + k, f.buffers[computed_[k]], sizeof(double));
    std::uint64_t* const scalars = numbers + layout_.hyperparameters;
    for (std::size_t k = 0; k < scalars_.size(); ++k) scalars[k] = literal_bits(scalar(f.buffers[scalars_[k]]));
    if (!scalars_.empty()) advance_(numbers);
    for (std::size_t k = 0; k < scalars_.size(); ++k)
      set_scalar(f.buffers[scalars_[k]], literal_value<double>(scalars[k]));
  }
  std::string describe() const { return str_cat({layout_.name, " ", name(type_)}); }

 private:
  double scalar(const std::byte* at) const {
    return type_ == dtype::float64 ? *reinterpret_cast<const double*>(at)
                                   : static_cast<double>(*reinterpret_cast<const float*>(at));
  }
  void set_scalar(std::byte* at, double x) const {
    if (type_ == dtype::float64)
      *reinterpret_cast<double*>(at) = x;
    else
      *reinterpret_cast<float*>(at) = static_cast<float>(x);
  }

  const update_layout& layout_;
  advance_function advance_;
  dtype type_;
  sequence<std::uint64_t> numbers_;
  sequence<std::uint32_t> scalars_;
  std::uint32_t computed_[max_hyperparameters], any_computed_ = 0;  // their slots; one bit for each computed
                                                                    // hyperparameter
};

/// Returns the slots of the variable and of the arrays among its optimizer's slots.
inline sequence<std::uint32_t> updated_arrays(const prepare_context& p, const update_layout& of) {
  sequence<std::uint32_t> arrays{p.input_slots[update_view::variable_input()]};
  for (std::size_t k = 0; k < of.slots; ++k)
    if (!of.is_scalar(k)) arrays.push_back(p.input_slots[update_view::slot_input(k)]);
  return arrays;
}

/// Updates one or several variables of one optimizer in one loop over all their elements. A variable adds little cost
/// beyond its elements, and threads share the elements evenly.
class update_kernel final : public kernel {
 public:
  update_kernel(const prepare_context& p, const update_layout& of, device::block_function block,
                advance_function advance)
      : block_(block), arrays_(of.arrays() + 1), size_(size_of(p.inputs[0].type)) {
    for (std::size_t k = 0; k <= p.beside_count; ++k) {
      const prepare_context& one = k < p.beside_count ? p.beside[k] : p;
      check_update(one, of);
      all_.push_back({step_numbers(one, of, advance), updated_arrays(one, of),
                      one.input_slots[update_view(one.node).gradient_input()], one.inputs[0].extents.elements(),
                      work_});
      work_ += all_.back().elements + call;
    }
    if (all_.size() > 1) numbers_.assign(all_.size() * max_numbers, 0);
    const std::size_t wanted = work_ / chunk_elements;
    chunks_ = wanted < 2 ? 1 : wanted < max_chunks ? wanted : max_chunks;
  }

  void run(const kernel_context& f) override {
    std::uint64_t own[max_numbers] = {};
    std::uint64_t* const numbers = all_.size() > 1 ? numbers_.data() : own;
    for (std::size_t k = 0; k < all_.size(); ++k) all_[k].numbers.find(f, numbers + k * max_numbers);
    if (chunks_ == 1) return run_part(f, numbers, 0, work_);
    f.threads->parallel_for(
        chunks_, [&](std::size_t c) { run_part(f, numbers, work_ * c / chunks_, work_ * (c + 1) / chunks_); });
  }
  std::size_t memory_bytes() const override { return all_.memory_bytes() + numbers_.memory_bytes(); }
  std::string describe() const override {
    return all_.size() == 1 ? all_[0].numbers.describe()
                            : str_cat({all_[0].numbers.describe(), ", ", all_.size(), " variables"});
  }

 private:
  /// The elements of a chunk, and the cost of the call for a variable, in elements.
  static constexpr std::size_t chunk_elements = 32768, max_chunks = 256, call = 64;
  static constexpr std::size_t cache_line = 64;

  struct updated {
    step_numbers numbers;
    sequence<std::uint32_t> arrays;
    std::uint32_t gradient;
    std::size_t elements, before;  // elements and calls of the preceding variables
  };

  /// Updates the elements in [begin, end) of the sequence of all variables, in which a call follows the elements of
  /// each variable.
  void run_part(const kernel_context& f, const std::uint64_t* numbers, std::size_t begin, std::size_t end) const {
    std::size_t k = 0;
    for (std::size_t above = all_.size(); above - k > 1;) {
      const std::size_t middle = k + (above - k) / 2;
      (all_[middle].before <= begin ? k : above) = middle;
    }
    for (; k < all_.size() && end > all_[k].before; ++k) {  // nvcc parses `before <` as a template
      const updated& of = all_[k];
      const std::size_t from = cut(of, begin), to = cut(of, end);
      if (from >= to) continue;
      const void* in[max_slots + 2];
      void* out[max_slots + 1];
      for (std::size_t a = 0; a < arrays_; ++a) in[a] = out[a] = f.buffers[of.arrays[a]] + from * size_;
      in[arrays_] = f.buffers[of.gradient] + from * size_;
      block_(in, out, to - from, numbers + k * max_numbers);
    }
  }
  /// Aligns the cut between two chunks to a cache line.
  static std::size_t cut(const updated& of, std::size_t at) {
    if (at <= of.before) return 0;
    const std::size_t element = at - of.before;
    return element >= of.elements ? of.elements : element / cache_line * cache_line;
  }

  device::block_function block_;
  std::size_t arrays_, size_, work_ = 0, chunks_ = 1;  // arrays that are written; bytes of an element
  sequence<updated> all_;
  sequence<std::uint64_t> numbers_;  // of the current step
};

/// Runs the loop of `update_kernel` over single rows. Each row occurs once, so threads may share the rows.
class row_update_kernel final : public kernel {
 public:
  row_update_kernel(const prepare_context& p, const update_layout& of, device::block_function block,
                    advance_function advance)
      : numbers_(p, of, advance),
        arrays_(updated_arrays(p, of)),
        block_(block),
        axis_(p.inputs[0].extents, 0),
        row_bytes_(axis_.inner * size_of(p.inputs[0].type)) {
    check_update(p, of);
    std::size_t count = 0;
    const update_view u(p.node);
    for (std::size_t k = 0; k < u.row_lists(); ++k) {
      const std::size_t indices = u.row_indices_input(k);
      lists_.push_back({p.input_slots[u.rows_input(k)], p.input_slots[indices], count,
                        count + p.inputs[indices].extents.elements()});
      count = lists_.back().end;
    }
    chunks_ = device::chunks(count, count * axis_.inner * arrays_.size(), 65536);
  }

  void run(const kernel_context& f) override {
    std::uint64_t numbers[max_numbers] = {};
    numbers_.find(f, numbers);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (const list& l : lists_)
        for (std::size_t k = l.begin > begin ? l.begin : begin; k < l.end && k < end; ++k)
          update(f, numbers, reinterpret_cast<const std::int64_t*>(f.buffers[l.indices])[k - l.begin],
                 f.buffers[l.rows] + (k - l.begin) * row_bytes_);
    });
  }
  std::string describe() const override {
    return str_cat({numbers_.describe(), ", at most ", chunks_.items, " of ", axis_.extent, " rows"});
  }

 private:
  struct list {
    std::uint32_t rows, indices;  // slots
    std::size_t begin, end;       // among the rows of all lists
  };

  void update(const kernel_context& f, const std::uint64_t* numbers, std::int64_t row, const std::byte* gradient) {
    if (row < 0) return;
    if (row >= static_cast<std::int64_t>(axis_.extent))
      throw error(error_code::out_of_range, "minimize",
                  {"the gradient has row index ", row, ", but the variable has ", axis_.extent, " rows"});
    const void* in[max_slots + 2] = {};
    void* out[max_slots + 2];
    for (std::size_t k = 0; k < arrays_.size(); ++k)
      out[k] = f.buffers[arrays_[k]] + static_cast<std::size_t>(row) * row_bytes_;
    in[arrays_.size()] = gradient;
    block_(in, out, axis_.inner, numbers);
  }

  step_numbers numbers_;
  sequence<std::uint32_t> arrays_;
  sequence<list> lists_;
  device::block_function block_;
  axis_rows axis_;
  std::size_t row_bytes_;
  device::chunks chunks_;
};

WEFT_DECL kernel* prepare_update(const prepare_context& p, const update_layout& of, device::block_function block,
                                 advance_function advance) {
  if (update_view(p.node).row_lists() > 0) return new row_update_kernel(p, of, block, advance);
  return new update_kernel(p, of, block, advance);
}

#endif

WEFT_COLD_END

}  // namespace weft::detail

#pragma pop_macro("slots")

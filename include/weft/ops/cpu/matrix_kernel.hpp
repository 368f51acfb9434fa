// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/matmul.hpp>
#include <weft/device/cpu/matrices.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Runs a task for each matrix of the first operand, with the matrices and vectors that belong to it in the other
/// operands and in the results. A task has
///   - `static constexpr const char* failure`, the rest of the error "matrix 3 of [8, 2, 2] ...";
///   - `needs()`, the memory for one matrix, and `multiply_adds()`, its work;
///   - optionally `takes_threads`, whether it can use the threads of `memory.pool`, unless that is null;
///   - `run(operands, results, memory)`, which returns false if the matrix has no such factorization.
template <class T, class Task>
class matrix_kernel final : public kernel {
 public:
  matrix_kernel(const prepare_context& p, const Task& task)
      : task_(task), needs_(task.needs()), name_(p.node.op->name), extents_(p.inputs[0].extents) {
    std::size_t count = 1;
    for (std::size_t i = 0; i + 2 < extents_.rank; ++i) count *= static_cast<std::size_t>(extents_[i]);
    const auto add = [&](sequence<place>& to, const shape& extents, std::uint32_t slot) {
      std::size_t elements = 1;
      for (std::size_t i = extents_.rank - 2; i < extents.rank; ++i) elements *= static_cast<std::size_t>(extents[i]);
      to.push_back({slot, elements});
    };
    for (std::size_t i = 0; i < p.node.inputs.size(); ++i) add(operands_, p.inputs[i].extents, p.input_slots[i]);
    for (std::size_t i = 0; i < p.node.outputs.size(); ++i) add(results_, p.outputs[i].extents, p.output_slots[i]);
    constexpr std::size_t per_call = 1000, worth_sharing = std::size_t{1} << 19;  // multiply-adds
    chunks_ = device::chunks(count, count * (task_.multiply_adds() + per_call), worth_sharing);
    if (chunks_.count > max_chunks) chunks_.count = max_chunks;
    const std::int64_t rows = extents_[extents_.rank - 2];
    if constexpr (requires { Task::takes_threads; }) shares_ = Task::takes_threads && rows >= 256;
    if (shares_ && rows >= 1024 && count > 0) chunks_.count = 1;
    if (operands_.size() > max_places || results_.size() > max_places)
      throw error(error_code::unimplemented, name_, {"takes at most ", max_places, " operands"});
  }

  /// Threads share one large matrix after another if the task can use them, or else each thread works on different
  /// matrices. The bits are the same.
  void run(const kernel_context& f) override {
    std::size_t failed[max_chunks];
    for (std::size_t& one : failed) one = none;
    if (shares_ && (chunks_.count == 1 || chunks_.items < static_cast<std::size_t>(f.threads->size())))
      failed[0] = work(f, 0, 0, chunks_.items, f.threads);
    else
      chunks_.run(
          f, [&](std::size_t c, std::size_t begin, std::size_t end) { failed[c] = work(f, c, begin, end, nullptr); });
    for (const std::size_t i : failed)
      if (i != none)
        throw error(error_code::invalid_argument, name_,
                    {"matrix ", i, " of ", to_string(extents_), " ", Task::failure});
  }
  std::size_t workspace_bytes() const override { return chunks_.count * bytes(); }
  std::string describe() const override {
    return str_cat({name_, " of ", chunks_.items, " ", extents_[extents_.rank - 2], "x", extents_[extents_.rank - 1]});
  }

 private:
  static constexpr std::size_t max_chunks = 16, max_places = 8, none = ~std::size_t{0};
  struct place {
    std::uint32_t slot;
    std::size_t elements;  // of one matrix or vector
  };

  /// Returns the first matrix that has no such factorization, or `none`.
  std::size_t work(const kernel_context& f, std::size_t chunk, std::size_t begin, std::size_t end, thread_pool* pool) {
    std::byte* const mine = f.workspace + chunk * bytes();
    const matrix_memory<T> memory{
        reinterpret_cast<T*>(mine), reinterpret_cast<int*>(mine + needs_.elements * sizeof(T)),
        static_cast<int>(least(needs_.elements, std::size_t{0x7fffffff})), static_cast<int>(needs_.integers), pool};
    const T* operands[max_places];
    T* results[max_places] = {};
    std::size_t failed = none;
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t k = 0; k < operands_.size(); ++k)
        operands[k] = reinterpret_cast<const T*>(f.buffers[operands_[k].slot]) + i * operands_[k].elements;
      for (std::size_t k = 0; k < results_.size(); ++k)
        if (std::byte* const to = f.buffers[results_[k].slot])
          results[k] = reinterpret_cast<T*>(to) + i * results_[k].elements;
      if (!task_.run(operands, results, memory) && failed == none) failed = i;
    }
    return failed;
  }
  std::size_t bytes() const { return (needs_.elements * sizeof(T) + needs_.integers * sizeof(int) + 63) / 64 * 64; }

  Task task_;
  matrix_needs needs_;
  const char* name_;
  shape extents_;
  sequence<place> operands_, results_;
  device::chunks chunks_;
  bool shares_ = false;
};

/// The extents of each matrix of a value.
struct matrix_extents {
  std::size_t m, n, k;  // k: the smaller one

  explicit matrix_extents(const value_info& of)
      : m(static_cast<std::size_t>(of.extents[of.extents.rank - 2])),
        n(static_cast<std::size_t>(of.extents[of.extents.rank - 1])),
        k(least(m, n)) {}
  std::size_t elements() const { return m * n; }
};

template <class T>
void copy_elements(std::size_t n, const T* from, T* to) {
  if (n > 0) __builtin_memcpy(to, from, n * sizeof(T));
}

}  // namespace weft::detail
WEFT_COLD_END

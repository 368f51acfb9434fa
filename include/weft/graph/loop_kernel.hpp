// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/step_watch.hpp>
#include <weft/error.hpp>
#include <weft/graph/loop_operation.hpp>
#include <weft/graph/subgraphs.hpp>

/// The kernel of a loop, which runs the kernels of its subgraphs in each iteration.
WEFT_COLD_BEGIN
namespace weft {
namespace detail {

class loop_kernel_with_subgraphs final : public kernel_with_subgraphs {
 public:
  loop_kernel_with_subgraphs(const prepare_context& p, const loop_op::attributes& a) : kernel_with_subgraphs(p), s_(a) {
    for (std::size_t j = 0; j < s_.variables; ++j) bytes_.push_back(p.outputs[j].bytes());
    for (std::size_t r = 0; r < s_.rows_read; ++r) read_bytes_.push_back(row_of(p.inputs[s_.row_in(r)]).bytes());
    for (std::size_t r = 0; r < s_.rows_written; ++r)
      written_bytes_.push_back(row_of(p.outputs[s_.row_out(r)]).bytes());
    bound_ = !s_.is_bounded()       ? INT64_MAX
             : s_.has_named_bound() ? p.outputs[s_.bound_out()].extents[0]
                                    : std::int64_t(s_.max_iterations);
    now_.resize(s_.variables);
    results_.resize(s_.variables + s_.rows_written);
  }

  void run(const kernel_context& f) override {
    std::int64_t limit = s_.counted ? read<std::int64_t>(f, f.buffers[inputs_[0]]) : bound_, n = 0;
    if (limit > bound_) limit = bound_;
    for (std::size_t j = 0; j < s_.variables; ++j) now_[j] = f.buffers[inputs_[s_.variable_in(j)]];
    step_watch* const watch = watch_of_thread;
    for (; n < limit && (!s_.conditional || goes_on(f)); ++n) {
      if (watch && watch->is_over())
        throw error(error_code::cancelled, "while_loop", "the step was cancelled, or its deadline has passed");
      iterate(f, n, limit);
    }
    for (std::size_t j = 0; j < s_.variables; ++j)
      if (std::byte* const to = f.buffers[outputs_[j]]; now_[j] != to) copy(f, to, now_[j], bytes_[j]);
    for (std::size_t r = 0; r < s_.rows_written && n < bound_; ++r)
      if (std::byte* const rows = f.buffers[outputs_[s_.row_out(r)]])
        clear(f, rows + static_cast<std::size_t>(n) * written_bytes_[r],
              static_cast<std::size_t>(bound_ - n) * written_bytes_[r]);
    if (!s_.conditional) return;
    iterations_ = n;  // a member, because a GPU copies it asynchronously
    if (std::byte* const to = f.buffers[outputs_[s_.iterations_out()]])
      copy(f, to, reinterpret_cast<const std::byte*>(&iterations_), sizeof iterations_);
  }
  std::string describe() const override {
    std::string text = str_cat({"loop of ", bytes_.size(), " variables"});
    if (s_.is_bounded()) append(text, {s_.is_exact() ? ", " : ", at most ", bound_, " times"});
    if (s_.backwards) text += ", backwards";
    return text;
  }

 private:
  static void clear(const kernel_context& f, std::byte* at, std::size_t bytes) {
    if (f.queue)
      f.queue->clear(at, bytes);
    else
      __builtin_memset(at, 0, bytes);
  }

  void add_invariants(const kernel_context& f) {
    for (std::size_t i = s_.invariant_in(0); i < inputs_.size(); ++i) parameters_.push_back(f.buffers[inputs_[i]]);
  }

  bool goes_on(const kernel_context& f) {
    parameters_.clear();
    for (std::byte* const at : now_) parameters_.push_back(at);
    add_invariants(f);
    std::byte* const decision = memory(f);
    run_subgraph(f, 0, parameters_.data(), &decision);
    return read<bool>(f, decision);
  }

  /// Values of variables alternate between the outputs and the kernel's workspace or, if they are kept, move from row
  /// to row.
  void iterate(const kernel_context& f, std::int64_t n, std::int64_t limit) {
    const auto row = static_cast<std::size_t>(s_.backwards ? limit - 1 - n : n);
    std::byte* own = memory(f) + alignment;
    const auto take = [&](std::size_t bytes) { return std::exchange(own, own + whole_lines(bytes)); };
    const auto is_staged = [&](std::size_t bytes) { return f.queue && is_row_staged(bytes); };
    parameters_.clear();
    for (std::size_t j = 0; j < s_.variables; ++j) {
      std::byte* const mine = take(bytes_[j]);
      std::byte* const last = f.buffers[outputs_[j]];
      results_[j] = now_[j] == last ? mine : last;
      if (std::byte* const rows = s_.kept ? f.buffers[outputs_[s_.kept_out(j)]] : nullptr) {
        if (std::byte* const here = rows + row * bytes_[j]; now_[j] != here) copy(f, here, now_[j], bytes_[j]);
        if (n + 1 < limit && !is_staged(bytes_[j]))
          results_[j] = s_.backwards ? rows + (row - 1) * bytes_[j] : rows + (row + 1) * bytes_[j];
      }
      parameters_.push_back(now_[j]);
    }
    for (std::size_t r = 0; r < s_.rows_read; ++r) {
      std::byte* const from = f.buffers[inputs_[s_.row_in(r)]] + row * read_bytes_[r];
      parameters_.push_back(is_staged(read_bytes_[r]) ? take(read_bytes_[r]) : from);
      if (parameters_.back() != from) copy(f, parameters_.back(), from, read_bytes_[r]);
    }
    add_invariants(f);
    const auto written = [&](std::size_t r) {
      std::byte* const rows = f.buffers[outputs_[s_.row_out(r)]];
      return rows ? rows + row * written_bytes_[r] : nullptr;
    };
    for (std::size_t r = 0; r < s_.rows_written; ++r) {
      std::byte* const mine = take(written_bytes_[r]);
      results_[s_.variables + r] = written(r) && !is_staged(written_bytes_[r]) ? written(r) : mine;
    }
    run_subgraph(f, s_.conditional ? 1 : 0, parameters_.data(), results_.data());
    for (std::size_t r = 0; r < s_.rows_written; ++r)
      if (std::byte* const from = results_[s_.variables + r]; written(r) && from != written(r))
        copy(f, written(r), from, written_bytes_[r]);
    for (std::size_t j = 0; j < s_.variables; ++j) now_[j] = results_[j];
  }

  loop_signature s_;
  std::int64_t bound_;
  sequence<std::size_t> bytes_, read_bytes_, written_bytes_;
  sequence<std::byte*> now_, parameters_, results_;
  std::int64_t iterations_ = 0;
};

}  // namespace detail

inline kernel* loop_op::prepare(const prepare_context& p, const attributes& a) {
  return new detail::loop_kernel_with_subgraphs(p, a);
}
inline std::size_t loop_op::workspace_bytes(const prepare_context& p) {
  const detail::loop_signature s(p.node);
  std::size_t bytes = alignment;  // the condition's result
  for (std::size_t j = 0; j < s.variables; ++j) bytes += detail::whole_lines(p.outputs[j].bytes());
  for (std::size_t r = 0; r < s.rows_read; ++r)
    if (const std::size_t row = detail::row_of(p.inputs[s.row_in(r)]).bytes(); detail::is_row_staged(row))
      bytes += detail::whole_lines(row);
  for (std::size_t r = 0; r < s.rows_written; ++r)
    bytes += detail::whole_lines(detail::row_of(p.outputs[s.row_out(r)]).bytes());
  return bytes;
}

}  // namespace weft
WEFT_COLD_END

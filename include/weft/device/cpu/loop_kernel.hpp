// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/cpu/loop.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::device {

/// A loop with its buffers: the kernel of every fused expression, reduction, and their gradients.
class loop_kernel final : public epilogue_kernel {
 public:
  /// The slots of the operands' buffers, the number of elements of each output and, unless null, the byte of its buffer
  /// at which each operand begins.
  struct buffers {
    const std::uint32_t *in, *out;
    const std::size_t* out_elements;
    const std::size_t *in_begin = nullptr, *out_begin = nullptr;
  };
  /// The description of a kernel, created on demand from its task and the object that `print` formats.
  struct description {
    const char* what = "";
    const void* of = nullptr;
    std::string (*print)(const char* what, const void* of) = nullptr;
  };

  loop_kernel(loop&& body, const buffers& where, const sequence<std::uint64_t>& literals, description words)
      : body_(static_cast<loop&&>(body)), where_(body_.inputs() + body_.outputs()), literals_(literals), words_(words) {
    for (std::size_t k = 0; k < body_.inputs(); ++k)
      where_[k] = {where.in[k], 0, 0, where.in_begin ? where.in_begin[k] : 0};
    for (std::size_t k = 0; k < body_.outputs(); ++k)
      out(k) = {where.out[k], where.out_elements[k], 0, where.out_begin ? where.out_begin[k] : 0};
    chunks_ = body_.chunks();
    is_line_ = chunks_ == 1 && body_.is_line();
    for (std::size_t k = 0; k < body_.outputs(); ++k) apart_[k] = chunks_ != 1 && body_.chunks_share_output(k);
    take_memory(chunks_, body_.scratch_bytes(), 1);
  }

  /// Returns false if a divisor applies to the whole output.
  bool prepare_pieces(std::size_t pieces, std::size_t calls = 1) override {
    if (output_divisor_ != 1 || divided_input_ >= 0) return false;
    for (std::size_t k = 0; k < body_.outputs(); ++k) apart_[k] = body_.rows_share_output(k);
    take_memory(pieces, body_.rows_scratch_bytes(), calls);
    return true;
  }

  /// Divides output 0 after the loop, as for a mean, or operand `input` before it, as for the gradient of a mean.
  void divide_output(double divisor) { output_divisor_ = divisor; }
  void divide_input(std::size_t input, double divisor, std::size_t elements, dtype type,
                    const arithmetic& type_arithmetic) {
    is_line_ = false;
    divided_input_ = static_cast<int>(input);
    input_divisor_ = divisor;
    divided_elements_ = elements;
    divided_arithmetic_ = &type_arithmetic;
    divided_.resize((elements * size_of(type) + 63) / 64);
  }

  // WEFT_DECL is repeated here: a virtual function declared inline only at its definition makes every file emit the
  // class.
  WEFT_DECL void run(const kernel_context& f) override;
  WEFT_DECL void run_part(const kernel_context& f, std::size_t begin, std::size_t end, std::size_t rows) override;
  bool has_rows(std::size_t rows) const override { return body_.has_rows(rows); }
  void clear_pieces(const kernel_context& f) override { clear_combined(operands_in(f).out); }
  void merge_pieces(const kernel_context& f, std::size_t pieces) override { merge(operands_in(f).out, pieces); }
  WEFT_DECL void run_piece(const kernel_context& f, std::size_t piece, std::size_t begin, std::size_t end,
                           std::size_t rows) override;

  std::size_t memory_bytes() const override { return memory_.memory_bytes() + divided_.memory_bytes(); }
  std::string describe() const override { return words_.print ? words_.print(words_.what, words_.of) : words_.what; }

 private:
  struct alignas(64) cache_line {
    std::byte bytes[64];
  };

  struct place {
    std::uint32_t slot;
    std::size_t elements, partial_offset;  // of outputs
    std::size_t begin;                     // in bytes
  };
  place& out(std::size_t k) { return where_[body_.inputs() + k]; }
  const place& out(std::size_t k) const { return where_[body_.inputs() + k]; }

  std::size_t bytes_of(std::size_t k) const { return out(k).elements * size_of(body_.output_type(k)); }

  /// Allocates memory for each piece: scratch memory for sums and, for outputs that pieces share, partial results.
  void take_memory(std::size_t pieces, std::size_t scratch_bytes, std::size_t calls) {
    std::size_t bytes = (scratch_bytes + 63) / 64 * 64;
    for (std::size_t k = 0; k < body_.outputs(); ++k) {
      out(k).partial_offset = bytes;
      if (apart_[k]) bytes += (bytes_of(k) + 63) / 64 * 64;
    }
    piece_bytes_ = bytes;
    bytes *= pieces;
    sums_.clear();
    for (std::size_t k = 0; calls > 1 && k < body_.outputs(); ++k) {
      sums_.push_back({bytes});
      if (sums_calls(k)) bytes += cascade::room(calls, bytes_of(k));
    }
    memory_.resize(bytes / sizeof(cache_line));
    for (std::size_t k = 0; k < sums_.size(); ++k)
      if (sums_calls(k)) sums_[k].sum = cascade(*body_.elements_of(k), bytes_of(k), memory(sums_[k].offset));
  }
  /// Returns true if the calls of run_part are terms of a hierarchical sum. Other reductions are combined directly in
  /// the output.
  bool sums_calls(std::size_t k) const { return k < sums_.size() && apart_[k] && body_.how(k) == reduce_op::sum; }
  std::byte* memory(std::size_t offset) { return reinterpret_cast<std::byte*>(memory_.data()) + offset; }

  void clear(std::size_t k, void* to) const { body_.elements_of(k)->fill_identity(body_.how(k), to, out(k).elements); }
  void clear_combined(void* const* to) const {
    for (std::size_t k = 0; k < body_.outputs(); ++k)
      if (body_.combines(k)) clear(k, to[k]);
  }

  struct operands {
    const void* in[max_operands];
    void* out[max_operands];
  };
  operands operands_in(const kernel_context& f) const {
    operands at;
    const place* const all = where_.begin();
    const std::size_t ins = body_.inputs(), outs = body_.outputs();
    for (std::size_t k = 0; k < ins; ++k) at.in[k] = f.buffers[all[k].slot] + all[k].begin;
    for (std::size_t k = 0; k < outs; ++k) at.out[k] = f.buffers[all[ins + k].slot] + all[ins + k].begin;
    return at;
  }

  void run_in_chunks(const kernel_context& f, operands& at);

  /// Redirects outputs that a piece combines to the piece's own memory.
  struct outputs {
    void* out[max_operands];
  };
  outputs outputs_of(std::size_t piece, void* const* shared) {
    outputs own;
    for (std::size_t k = 0; k < body_.outputs(); ++k) {
      own.out[k] = apart_[k] ? partial(piece, k) : shared[k];
      if (apart_[k]) clear(k, own.out[k]);
    }
    return own;
  }
  void merge(void* const* to, std::size_t pieces) {
    for (std::size_t c = 0; c < pieces; ++c)
      for (std::size_t k = 0; k < body_.outputs(); ++k)
        if (apart_[k]) body_.elements_of(k)->merge_tile(body_.how(k), partial(c, k), to[k], 1, out(k).elements, 0, 1);
  }
  std::byte* scratch(std::size_t piece) { return memory(piece * piece_bytes_); }
  void* partial(std::size_t piece, std::size_t k) { return scratch(piece) + out(k).partial_offset; }

  /// A sum that accumulates over calls of run_part.
  struct sum_of_calls {
    std::size_t offset = 0;
    cascade sum = {};
  };

  loop body_;
  short_array<place, 4> where_;  // inputs, then outputs
  sequence<std::uint64_t> literals_;
  description words_;
  std::size_t chunks_ = 1, piece_bytes_ = 0, divided_elements_ = 0;
  bool is_line_ = false;
  bool apart_[max_operands]{};  // true if each piece combines this output separately
  sequence<sum_of_calls> sums_;
  sequence<cache_line> memory_, divided_;
  double output_divisor_ = 1, input_divisor_ = 1;
  int divided_input_ = -1;
  const arithmetic* divided_arithmetic_ = nullptr;
};

#if WEFT_DEFINITIONS

WEFT_COLD_END

// The code that dominates small steps is compiled with full optimization.
WEFT_DECL void loop_kernel::run(const kernel_context& f) {
  operands at = operands_in(f);
  if (is_line_) return body_.run_line(at.in, at.out, literals_.data());
  run_in_chunks(f, at);
}

WEFT_COLD_BEGIN

WEFT_DECL void loop_kernel::run_in_chunks(const kernel_context& f, operands& at) {
  if (divided_input_ >= 0) {
    const auto k = static_cast<std::size_t>(divided_input_);
    divided_arithmetic_->divide(input_divisor_, at.in[k], divided_.data(), divided_elements_);
    at.in[k] = divided_.data();
  }
  clear_combined(at.out);
  const auto chunk = [&](std::size_t c) {
    body_.run(at.in, outputs_of(c, at.out).out, literals_.data(), c, chunks_, scratch(c));
  };
  if (chunks_ == 1)
    chunk(0);
  else
    f.threads->parallel_for(chunks_, chunk);
  merge(at.out, chunks_);
  if (output_divisor_ != 1) body_.elements_of(0)->divide(output_divisor_, at.out[0], at.out[0], out(0).elements);
}

WEFT_DECL void loop_kernel::run_part(const kernel_context& f, std::size_t begin, std::size_t end, std::size_t rows) {
  operands at = operands_in(f);
  const std::size_t n = end - begin, parts = n * body_.elements() / rows < 65536 ? 1 : n < max_parts ? n : max_parts;
  if (begin == 0) {
    clear_combined(at.out);
    for (sum_of_calls& s : sums_) s.sum.restart();  // a previous step may have failed midway
  }
  void* to[max_operands];
  for (std::size_t k = 0; k < body_.outputs(); ++k) {
    to[k] = at.out[k];
    if (sums_calls(k)) at.out[k] = sums_[k].sum.open(out(k).elements);
  }
  const auto part = [&](std::size_t c) {
    body_.run_rows(at.in, outputs_of(c, at.out).out, literals_.data(), begin + n * c / parts,
                   begin + n * (c + 1) / parts, rows, scratch(c));
  };
  if (parts == 1)
    part(0);
  else
    f.threads->parallel_for(parts, part);
  merge(at.out, parts);
  for (std::size_t k = 0; k < sums_.size(); ++k) {
    if (!sums_calls(k)) continue;
    sums_[k].sum.close();
    if (end == rows) sums_[k].sum.finish(to[k]);
  }
}

WEFT_DECL void loop_kernel::run_piece(const kernel_context& f, std::size_t piece, std::size_t begin, std::size_t end,
                                      std::size_t rows) {
  const operands at = operands_in(f);
  body_.run_rows(at.in, outputs_of(piece, at.out).out, literals_.data(), begin, end, rows, scratch(piece));
}

#endif

}  // namespace weft::device
WEFT_COLD_END

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <limits>
#include <string>

#include <weft/device/cpu/batch_normalization.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

/// CPU kernels of batch normalization and its gradient.
namespace weft::detail {

/// Throws invalid_argument unless each parameter has one element for each channel.
void check_channels(const prepare_context& p, std::size_t first, std::size_t end);

inline device::normalization_pieces pieces_of(const shape& x) {
  const auto channels = static_cast<std::size_t>(x[x.rank - 1]);
  return {channels ? x.elements() / channels : 0, channels};
}

/// The common part of both kernels: pieces, slots, and numbers of type S for each column of a line.
template <class T, class S>
class batch_normalization_base : public kernel {
 public:
  std::size_t memory_bytes() const override { return columns_.memory_bytes() + sums_.memory_bytes(); }

 protected:
  batch_normalization_base(const prepare_context& p, std::size_t columns)
      : name_(p.node.op->name), pieces_(pieces_of(p.inputs[0].extents)) {
    for (std::size_t i = 0; i < p.node.inputs.size(); ++i) in_[i] = p.input_slots[i];
    for (std::size_t i = 0; i < p.node.outputs.size(); ++i) out_[i] = p.output_slots[i];
    columns_.resize(pieces_.width * columns);
    sums_.resize(2 * pieces_.width * pieces_.chunks);
  }

  template <class U>
  static const U* input(const kernel_context& f, std::uint32_t slot) {
    return reinterpret_cast<const U*>(f.buffers[slot]);
  }
  template <class U>
  static U* output(const kernel_context& f, std::uint32_t slot) {
    return reinterpret_cast<U*>(f.buffers[slot]);
  }
  S* column(std::size_t i) { return columns_.data() + i * pieces_.width; }
  S* sums(std::size_t chunk) { return sums_.data() + 2 * pieces_.width * chunk; }

  /// Calls do_lines(lines, columns, offset of the first element) for the full lines of a piece, and for the shorter
  /// last line.
  template <class F>
  void all_lines(const device::normalization_pieces::piece& p, const F& do_lines) const {
    do_lines(p.lines, p.columns, p.first * pieces_.width + p.column);
    if (p.rest) do_lines(std::size_t{1}, p.rest, pieces_.lines * pieces_.width + p.column);
  }
  template <class F>
  void each_piece(const kernel_context& f, const F& work) const {
    const std::size_t n = pieces_.count();
    if (n == 1) return work(pieces_[0]);
    f.threads->parallel_for(n, [&](std::size_t i) { work(pieces_[i]); });
  }
  /// In reverse order, to start with the pieces that are still in the caches.
  template <class F>
  void each_piece_backwards(const kernel_context& f, const F& work) const {
    const std::size_t n = pieces_.count();
    if (n == 1) return work(pieces_[0]);
    f.threads->parallel_for(n, [&](std::size_t i) { work(pieces_[n - 1 - i]); });
  }

  std::string describe_as(const char* more) const {
    return str_cat({name_, more, " ", pieces_.rows, "x", pieces_.channels});
  }

  const char* name_;
  device::normalization_pieces pieces_;
  std::uint32_t in_[7]{}, out_[5]{};
  sequence<S> columns_, sums_;
};

/// Inputs: x, scale, offset and an optional residual. Outputs: the result, mean, variance, 1 / sqrt(variance +
/// epsilon), and the summand after the multiplication.
template <class T, class S>
class batch_normalization_kernel final : public batch_normalization_base<T, S> {
  using base = batch_normalization_base<T, S>;
  using base::in_, base::out_, base::pieces_;
  enum : std::size_t { mean, scale, shift, columns };

 public:
  batch_normalization_kernel(const prepare_context& p, double epsilon, bool relu)
      : base(p, columns), epsilon_(epsilon), relu_(relu), residual_(p.node.inputs.size() == 4) {
    check_channels(p, 1, 3);
    moments_.resize(2 * pieces_.width);
  }

  void run(const kernel_context& f) override {
    const T* const x = base::template input<T>(f, in_[0]);
    this->each_piece(f, [&](const device::normalization_pieces::piece& p) {
      S* const s = this->sums(p.chunk) + p.column;
      multiversioned(device::sums_of_columns<T, S>{p.lines, p.columns, pieces_.width,
                                                   x + p.first * pieces_.width + p.column, s, s + pieces_.width});
    });
    if (pieces_.count()) f.threads->parallel_for(pieces_.blocks, [&](std::size_t block) { merge(x, block); });
    finish(f);
    residual_ ? normalize<true>(f, x) : normalize<false>(f, x);
  }
  std::size_t memory_bytes() const override { return base::memory_bytes() + moments_.memory_bytes(); }
  std::string describe() const override {
    return this->describe_as(residual_ ? (relu_ ? ", residual, relu" : ", residual") : (relu_ ? ", relu" : ""));
  }

 private:
  /// Computes the moments of a block of columns.
  void merge(const T* x, std::size_t block) {
    const std::size_t column = pieces_.first_column(block), n = pieces_.first_column(block + 1) - column;
    double *const average = moments_.data() + column, *const deviations = average + pieces_.width;
    for (std::size_t c = 0; c < n; ++c) average[c] = deviations[c] = 0;
    for (std::size_t k = 0; k < pieces_.chunks; ++k) {
      const std::size_t first = pieces_.first_line(k), lines = pieces_.first_line(k + 1) - first;
      const S* const s = this->sums(k) + column;
      multiversioned(device::merge_moments<T, S>{n, static_cast<double>(first), static_cast<double>(lines),
                                                 x + first * pieces_.width + column, s, s + pieces_.width, average,
                                                 deviations});
    }
  }

  /// Reduces the columns of a line to channels.
  void finish(const kernel_context& f) {
    const T* const x = base::template input<T>(f, in_[0]);
    const S* const scales = base::template input<S>(f, in_[1]);
    const S* const offsets = base::template input<S>(f, in_[2]);
    S *const means = base::template output<S>(f, out_[1]), *const variances = base::template output<S>(f, out_[2]);
    S *const reciprocals = base::template output<S>(f, out_[3]), *const shifts = base::template output<S>(f, out_[4]);
    const std::size_t channels = pieces_.channels;
    for (std::size_t c = 0; c < channels; ++c) {
      double n = 0, average = 0, deviations = 0;
      const auto add = [&](double count, double of, double around) {
        const double delta = of - average, share = count / (n + count);
        average += delta * share;
        deviations += around + delta * delta * n * share;
        n += count;
      };
      if (pieces_.count()) {
        for (std::size_t j = c; j < pieces_.width; j += channels)
          add(static_cast<double>(pieces_.lines), moments_[j], moments_[pieces_.width + j]);
        for (std::size_t j = c; j < pieces_.rest; j += channels)
          add(1, static_cast<double>(static_cast<S>(x[pieces_.lines * pieces_.width + j])), 0);
      }
      if (n == 0) average = deviations = __builtin_nan("");
      const double variance = n == 0 ? deviations : deviations / n;
      means[c] = static_cast<S>(average);
      variances[c] = static_cast<S>(variance);
      reciprocals[c] = static_cast<S>(1 / std::sqrt(variance + epsilon_));
      const S factor = scales[c] * reciprocals[c];
      // The part of the mean that S cannot represent matters if the mean is large and the deviations are small.
      shifts[c] = static_cast<S>(static_cast<double>(offsets[c]) -
                                 (average - static_cast<double>(means[c])) * static_cast<double>(factor));
      for (std::size_t j = c; j < pieces_.width; j += channels) {
        this->column(mean)[j] = means[c];
        this->column(scale)[j] = factor;
        this->column(shift)[j] = shifts[c];
      }
    }
  }

  template <bool Residual>
  void normalize(const kernel_context& f, const T* x) {
    const T* const residual = Residual ? base::template input<T>(f, in_[3]) : nullptr;
    T* const y = base::template output<T>(f, out_[0]);
    this->each_piece_backwards(f, [&](const device::normalization_pieces::piece& p) {
      this->all_lines(p, [&](std::size_t lines, std::size_t n, std::size_t at) {
        multiversioned(device::normalize_columns<T, S, Residual>{
            lines, n, pieces_.width, x + at, Residual ? residual + at : nullptr, y + at, this->column(mean) + p.column,
            this->column(scale) + p.column, this->column(shift) + p.column,
            relu_ ? S(0) : -std::numeric_limits<S>::infinity()});
      });
    });
  }

  double epsilon_;
  bool relu_, residual_;
  sequence<double> moments_;  // for the columns of a line: means, then sums of squared deviations
};

/// Inputs: x, scale, mean, 1 / sqrt(variance + epsilon), shift, the upstream gradient and, if a ReLU follows a
/// residual, the result. Outputs: the gradients of x, scale and offset, and of the residual if there is a ReLU.
template <class T, class S>
class batch_normalization_gradient_kernel final : public batch_normalization_base<T, S> {
  using base = batch_normalization_base<T, S>;
  using base::in_, base::out_, base::pieces_;
  enum : std::size_t { mean, scale, shift, slope, constant, columns };

 public:
  batch_normalization_gradient_kernel(const prepare_context& p, bool relu)
      : base(p, columns),
        mask_(!relu                       ? device::relu_mask::none
              : p.node.inputs.size() == 7 ? device::relu_mask::result
                                          : device::relu_mask::computed) {
    check_channels(p, 1, 5);
  }

  void run(const kernel_context& f) override {
    const S* const scales = base::template input<S>(f, in_[1]);
    const S* const means = base::template input<S>(f, in_[2]);
    const S* const reciprocals = base::template input<S>(f, in_[3]);
    const S* const shifts = base::template input<S>(f, in_[4]);
    for (std::size_t start = 0; start < pieces_.width; start += pieces_.channels)
      for (std::size_t c = 0; c < pieces_.channels; ++c) {
        this->column(mean)[start + c] = means[c];
        this->column(scale)[start + c] = scales[c] * reciprocals[c];
        this->column(shift)[start + c] = shifts[c];
      }
    switch (mask_) {
      case device::relu_mask::none:
        add_up<device::relu_mask::none>(f);
        break;
      case device::relu_mask::computed:
        add_up<device::relu_mask::computed>(f);
        break;
      case device::relu_mask::result:
        add_up<device::relu_mask::result>(f);
        break;
    }
    finish(f);
    mask_ == device::relu_mask::computed ? write<true>(f) : write<false>(f);
  }
  std::string describe() const override { return this->describe_as(mask_ == device::relu_mask::none ? "" : ", relu"); }

 private:
  template <device::relu_mask Mask>
  void add_up(const kernel_context& f) {
    constexpr bool result = Mask == device::relu_mask::result;
    const T *const x = base::template input<T>(f, in_[0]), *const up = base::template input<T>(f, in_[5]);
    const T* const y = result ? base::template input<T>(f, in_[6]) : nullptr;
    T* const behind = result ? base::template output<T>(f, out_[3]) : nullptr;
    this->each_piece(f, [&](const device::normalization_pieces::piece& p) {
      bool first = true;
      this->all_lines(p, [&](std::size_t lines, std::size_t n, std::size_t at) {
        S* const s = this->sums(p.chunk) + p.column;
        const device::sums_of_gradients<T, S, Mask> piece{lines,
                                                          n,
                                                          pieces_.width,
                                                          x + at,
                                                          up + at,
                                                          result ? y + at : nullptr,
                                                          result ? behind + at : nullptr,
                                                          this->column(mean) + p.column,
                                                          this->column(scale) + p.column,
                                                          this->column(shift) + p.column,
                                                          s,
                                                          s + pieces_.width,
                                                          !first};
        multiversioned(piece);
        first = false;
      });
    });
  }

  void finish(const kernel_context& f) {
    S *const scales = base::template output<S>(f, out_[1]), *const offsets = base::template output<S>(f, out_[2]);
    const S* const reciprocals = base::template input<S>(f, in_[3]);
    const auto n = static_cast<double>(pieces_.rows);
    const std::size_t channels = pieces_.channels;
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0, product = 0;
      for (std::size_t k = 0; k < (pieces_.count() ? pieces_.chunks : 0); ++k)
        for (std::size_t j = c; j < pieces_.width; j += channels) {
          sum += static_cast<double>(this->sums(k)[j]);
          product += static_cast<double>(this->sums(k)[pieces_.width + j]);
        }
      const auto reciprocal = static_cast<double>(reciprocals[c]);
      scales[c] = static_cast<S>(pieces_.rows ? product * reciprocal : 0);  // without elements, the reciprocal is NaN
      offsets[c] = static_cast<S>(sum);
      for (std::size_t j = c; j < pieces_.width; j += channels) {
        const auto factor = static_cast<double>(this->column(scale)[j]);
        this->column(slope)[j] = static_cast<S>(-factor * product * reciprocal * reciprocal / n);
        this->column(constant)[j] = static_cast<S>(-factor * sum / n);
      }
    }
  }

  template <bool Masked>
  void write(const kernel_context& f) {
    const T* const x = base::template input<T>(f, in_[0]);
    const T* const up =
        mask_ == device::relu_mask::result ? base::template output<T>(f, out_[3]) : base::template input<T>(f, in_[5]);
    T* const dx = base::template output<T>(f, out_[0]);
    this->each_piece_backwards(f, [&](const device::normalization_pieces::piece& p) {
      this->all_lines(p, [&](std::size_t lines, std::size_t n, std::size_t at) {
        multiversioned(device::gradients_of_columns<T, S, Masked>{
            lines, n, pieces_.width, x + at, up + at, dx + at, this->column(mean) + p.column,
            this->column(scale) + p.column, this->column(shift) + p.column, this->column(slope) + p.column,
            this->column(constant) + p.column});
      });
    });
  }

  device::relu_mask mask_;
};

#if WEFT_DEFINITIONS

WEFT_DECL void check_channels(const prepare_context& p, std::size_t first, std::size_t end) {
  const shape& x = p.inputs[0].extents;
  for (std::size_t i = first; i < end; ++i)
    if (p.inputs[i].extents.elements() != static_cast<std::size_t>(x[x.rank - 1]))
      throw error(error_code::invalid_argument, p.node.op->name,
                  {"parameters of extents ", to_string(p.inputs[i].extents), " do not fit the channels of ",
                   to_string(x), ", its last axis"});
}

#endif

}  // namespace weft::detail

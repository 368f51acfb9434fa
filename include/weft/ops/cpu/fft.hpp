// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/fft.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernels of Fourier transforms along the last axis.
namespace weft::detail {

/// How a transform's numbers are scaled. `doubled`: of a real transform, the results that stand for two of the full
/// transform count twice; of an inverse, each of its operands.
struct fft_scaling {
  double scale;
  bool inverse, doubled;
};

/// Transforms of rows of complex numbers: real and imaginary parts in and out.
template <class T>
class fft_rows {
 public:
  static constexpr std::size_t operands = 2, results = 2;
  fft_rows(std::size_t n, const fft_scaling& how) : plan_(n), how_(how) {}
  std::size_t in() const { return plan_.size(); }
  std::size_t out() const { return plan_.size(); }
  std::size_t scratch() const { return plan_.scratch(); }
  std::size_t memory_bytes() const { return plan_.memory_bytes(); }

  void run(const T* const* x, T* const* y, T* scratch) const {
    const std::size_t first = how_.inverse;
    plan_.run(x[first], x[1 - first], y[first], y[1 - first], scratch);
    if (how_.scale != 1)
      for (T* const part : {y[0], y[1]})
        for (std::size_t i = 0; i < plan_.size(); ++i) part[i] *= static_cast<T>(how_.scale);
  }

 private:
  device::fft_plan<T> plan_;
  fft_scaling how_;
};

/// From n real numbers to n / 2 + 1 complex ones, or back.
template <class T, bool Inverse>
class real_fft_rows {
 public:
  static constexpr std::size_t operands = Inverse ? 2 : 1, results = Inverse ? 1 : 2;
  real_fft_rows(std::size_t n, const fft_scaling& how) : plan_(n), n_(n), how_(how) {}
  std::size_t in() const { return Inverse ? half() : n_; }
  std::size_t out() const { return Inverse ? n_ : half(); }
  std::size_t scratch() const { return plan_.scratch() + (Inverse ? 2 * half() : 0); }
  std::size_t memory_bytes() const { return plan_.memory_bytes(); }

  void run(const T* const* x, T* const* y, T* scratch) const {
    const T once = static_cast<T>(how_.scale);
    if constexpr (Inverse) {
      // The plan's inverse counts all but the first and, for even n, the last number twice.
      T* const parts[2] = {scratch, scratch + half()};
      for (std::size_t part = 0; part < 2; ++part) scaled(x[part], parts[part], once, how_.doubled ? once : once / 2);
      plan_.inverse(parts[0], parts[1], y[0], scratch + 2 * half());
    } else {
      plan_.forward(x[0], y[0], y[1], scratch);
      if (how_.doubled || how_.scale != 1)
        for (std::size_t part = 0; part < 2; ++part) scaled(y[part], y[part], once, how_.doubled ? 2 * once : once);
    }
  }

 private:
  std::size_t half() const { return n_ / 2 + 1; }
  void scaled(const T* from, T* to, T once, T twice) const {
    for (std::size_t k = 0; k < half(); ++k) to[k] = from[k] * (k == 0 || 2 * k == n_ ? once : twice);
  }

  device::real_fft_plan<T> plan_;
  std::size_t n_;
  fft_scaling how_;
};

template <class T, class Rows>
class fft_kernel final : public kernel {
 public:
  fft_kernel(const prepare_context& p, std::size_t n, const fft_scaling& how) : rows_(n, how), name_(p.node.op->name) {
    const shape& x = p.inputs[0].extents;
    if (static_cast<std::size_t>(x[x.rank - 1]) != rows_.in())
      throw error(error_code::invalid_argument, name_,
                  {"needs rows of ", rows_.in(), " numbers, not of ", x[x.rank - 1]});
    for (std::size_t k = 0; k < Rows::operands; ++k) in_[k] = p.input_slots[k];
    for (std::size_t k = 0; k < Rows::results; ++k) out_[k] = p.output_slots[k];
    std::size_t rows = 1;
    for (std::size_t i = 0; i + 1 < x.rank; ++i) rows *= static_cast<std::size_t>(x[i]);
    chunks_ = device::chunks(n ? rows : 0, rows * n, 4096);
    if (chunks_.count > max_chunks) chunks_.count = max_chunks;
  }
  void run(const kernel_context& f) override {
    chunks_.run(f, [&](std::size_t c, std::size_t begin, std::size_t end) {
      T* const scratch = reinterpret_cast<T*>(f.workspace + c * bytes());
      T* unused = scratch + rows_.scratch();
      const T* x[Rows::operands];
      T* y[Rows::results];
      for (std::size_t i = begin; i < end; ++i) {
        for (std::size_t k = 0; k < Rows::operands; ++k)
          x[k] = reinterpret_cast<const T*>(f.buffers[in_[k]]) + i * rows_.in();
        for (std::size_t k = 0; k < Rows::results; ++k)
          y[k] = f.buffers[out_[k]] ? reinterpret_cast<T*>(f.buffers[out_[k]]) + i * rows_.out() : unused;
        rows_.run(x, y, scratch);
      }
    });
  }
  std::size_t workspace_bytes() const override { return chunks_.count * bytes(); }
  std::size_t memory_bytes() const override { return rows_.memory_bytes(); }
  std::string describe() const override { return str_cat({name_, " of ", chunks_.items, " rows of ", rows_.in()}); }

 private:
  static constexpr std::size_t max_chunks = 16;
  /// Of a chunk: scratch memory, and a result that nothing reads.
  std::size_t bytes() const { return ((rows_.scratch() + rows_.out()) * sizeof(T) + 63) / 64 * 64; }

  Rows rows_;
  const char* name_;
  std::uint32_t in_[2]{}, out_[2]{};
  device::chunks chunks_;
};

}  // namespace weft::detail

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/loop_kernel.hpp>
#include <weft/device/cpu/matmul.hpp>
#include <weft/device/kernel.hpp>
#if defined(WEFT_HAS_DNNL)
  #include <weft/device/cpu/matmul_dnnl_bfloat16.hpp>
#endif

namespace weft::device {

/// A matrix product, or a batch of them, with the work that follows it: an elementwise epilogue or a gradient, run on
/// each panel while it is in the cache, or the scaling and accumulation into a variable.
template <class T>
class matmul_kernel final : public kernel {
 public:
  /// Takes ownership of the epilogue, a kernel that reads c and writes it in place.
  matmul_kernel(const matmul_batch& all, std::uint32_t a, std::uint32_t b, std::uint32_t c, accumulator<T> alpha = 1,
                accumulator<T> beta = 0, epilogue_kernel* epilogue = nullptr)
      : product_(all.each), count_(all.count), a_(a), b_(b), c_(c), alpha_(alpha), beta_(beta), epilogue_(epilogue) {
    const std::size_t panels = epilogue_ ? weft::detail::matmul_panels<T>(product_, count_, all.outer) : 1;
    if (panels == 1) return;
    if (epilogue_->prepare_pieces(epilogue_kernel::max_parts, panels)) panels_ = panels, outer_ = all.outer;
  }
  ~matmul_kernel() override { delete epilogue_; }

  void run(const kernel_context& f) override {
    if (panels_ == 0) {
      multiply(f, 0, count_ * product_.m);
      if (epilogue_) epilogue_->run(f);
      return;
    }
    const std::size_t rows = count_ * product_.m / outer_;
    for (std::size_t i = 0; i < panels_; ++i) {
      const std::size_t begin = outer_ * i / panels_, end = outer_ * (i + 1) / panels_;
      multiply(f, begin * rows, end * rows);
      epilogue_->run_part(f, begin, end, outer_);
    }
  }

  std::size_t memory_bytes() const override { return epilogue_ ? epilogue_->memory_bytes() : 0; }
  std::string describe() const override {
    std::string text = "matmul ";
    if (count_ != 1) append(text, {count_, " of "});
    append(text, {product_.m, "x", product_.k, "x", product_.n});
    if (product_.transpose_a) text += " a'";
    if (product_.transpose_b) text += " b'";
    if (beta_ != 0) text += " accumulated into the variable";
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  /// Computes rows [begin, end) of all results; for a batch, these are whole products.
  void multiply(const kernel_context& f, std::size_t begin, std::size_t end) const {
    const T* a = reinterpret_cast<const T*>(f.buffers[a_]);
    const T* b = reinterpret_cast<const T*>(f.buffers[b_]);
    T* c = reinterpret_cast<T*>(f.buffers[c_]);
    if (count_ != 1) return multiply_each(f, a, b, c, begin, end);
    matmul_shape part = product_;
    part.m = end - begin;
    matmul(part, alpha_, a + begin * product_.k, b, beta_, c + begin * product_.n, f.threads);
  }
  /// If there are few large products, threads share each one; otherwise, each thread computes different products. The
  /// bits are the same.
  void multiply_each(const kernel_context& f, const T* a, const T* b, T* c, std::size_t begin, std::size_t end) const {
    const std::size_t m = product_.m, n = product_.n, k = product_.k;
    if (m == 0) return;
    const std::size_t first = begin / m, count = end / m - first;
    const auto each = [&](std::size_t from, std::size_t to, thread_pool* threads) {
      for (std::size_t i = from; i < to; ++i)
        matmul(product_, alpha_, a + i * m * k, b + i * k * n, beta_, c + i * m * n, threads);
    };
    constexpr std::size_t per_call = 1000, worth_sharing = std::size_t{1} << 20;  // multiply-adds
    if (weft::detail::matmul_strips(product_) > 1 && count < 4 * static_cast<std::size_t>(f.threads->size()))
      return each(first, first + count, f.threads);
    chunks(count, count * (m * n * k + per_call), worth_sharing)
        .run(f, [&](std::size_t, std::size_t from, std::size_t to) { each(first + from, first + to, nullptr); });
  }

  matmul_shape product_;
  std::size_t count_;
  std::uint32_t a_, b_, c_;
  accumulator<T> alpha_, beta_;
  epilogue_kernel* epilogue_;
  std::size_t panels_ = 0, outer_ = 0;
};

/// Returns the fastest kernel for a product of T, which takes ownership of the epilogue.
template <class T>
kernel* make_matmul_kernel(const matmul_batch& s, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                           accumulator<T> alpha = 1, accumulator<T> beta = 0, epilogue_kernel* epilogue = nullptr) {
#if defined(WEFT_HAS_DNNL)
  if constexpr (std::is_same_v<T, bfloat16>)
    if (alpha == 1 && beta == 0 && s.count == 1)
      if (kernel* k = dnnl_bfloat16_matmul_kernel::make(s.each, a, b, c, epilogue)) return k;
#endif
  return new matmul_kernel<T>(s, a, b, c, alpha, beta, epilogue);
}

}  // namespace weft::device

#pragma once

#include <string>

#include <weft/device/cpu/loop_kernel.hpp>
#include <weft/device/cpu/matmul.hpp>
#include <weft/device/kernel.hpp>
#if defined(WEFT_HAS_DNNL)
  #include <weft/device/cpu/matmul_dnnl_bfloat16.hpp>
#endif

namespace weft::device {

/// A matrix product and what follows it on its result: an elementwise epilogue or a gradient, run over each panel of
/// rows while the cache still has it, or the scaling and accumulation into a variable.
template <class T>
class matmul_kernel final : public kernel {
 public:
  /// Takes over the epilogue: a kernel that reads c and writes it in place.
  matmul_kernel(matmul_shape product, std::uint32_t a, std::uint32_t b, std::uint32_t c, accumulator<T> alpha = 1,
                accumulator<T> beta = 0, loop_kernel* epilogue = nullptr)
      : product_(product), a_(a), b_(b), c_(c), alpha_(alpha), beta_(beta), epilogue_(epilogue) {
    // A storage type would be widened anew for each panel.
    in_panels_ = epilogue_ && product.m > 2 * panel_rows() && !product.transpose_a && !is_storage_type<T> &&
                 epilogue_->prepare_pieces(loop_kernel::max_parts, product.m / panel_rows());
  }
  ~matmul_kernel() override { delete epilogue_; }

  void run(const kernel_context& f) override {
    const T* a = reinterpret_cast<const T*>(f.buffers[a_]);
    const T* b = reinterpret_cast<const T*>(f.buffers[b_]);
    T* c = reinterpret_cast<T*>(f.buffers[c_]);
    const std::size_t m = product_.m;
    if (!in_panels_) {
      matmul(product_, alpha_, a, b, beta_, c, f.threads);
      if (epilogue_) epilogue_->run(f);
      return;
    }
    const std::size_t panels = m / panel_rows();
    for (std::size_t i = 0; i < panels; ++i) {
      const std::size_t begin = m * i / panels, end = m * (i + 1) / panels;
      matmul_shape part = product_;
      part.m = end - begin;
      matmul(part, alpha_, a + begin * product_.k, b, beta_, c + begin * product_.n, f.threads);
      epilogue_->run_part(f, begin, end, m);
    }
  }

  std::size_t memory_bytes() const override { return epilogue_ ? epilogue_->memory_bytes() : 0; }
  std::string describe() const override {
    std::string text = str_cat({"matmul ", product_.m, "x", product_.k, "x", product_.n});
    if (product_.transpose_a) text += " a'";
    if (product_.transpose_b) text += " b'";
    if (beta_ != 0) text += " accumulated into the variable";
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  /// Rows whose results fill about half of a second-level cache.
  std::size_t panel_rows() const {
    const std::size_t rows = (std::size_t{1} << 18) / (product_.n * sizeof(T) + 1);
    return rows < 128 ? 128 : rows;
  }

  matmul_shape product_;
  std::uint32_t a_, b_, c_;
  accumulator<T> alpha_, beta_;
  loop_kernel* epilogue_;
  bool in_panels_;
};

/// A product of T, by who multiplies it fastest; takes over the epilogue.
template <class T>
kernel* make_matmul_kernel(const matmul_shape& s, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                           accumulator<T> alpha = 1, accumulator<T> beta = 0, loop_kernel* epilogue = nullptr) {
#if defined(WEFT_HAS_DNNL)
  if constexpr (std::is_same_v<T, bfloat16>)
    if (alpha == 1 && beta == 0)
      if (kernel* k = dnnl_bfloat16_matmul_kernel::make(s, a, b, c, epilogue)) return k;
#endif
  return new matmul_kernel<T>(s, a, b, c, alpha, beta, epilogue);
}

}  // namespace weft::device

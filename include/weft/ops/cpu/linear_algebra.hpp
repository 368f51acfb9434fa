#pragma once

#include <cmath>

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/lu.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

/// Inverses, determinants and linear systems by LU factorization, on a CPU.
WEFT_COLD_BEGIN
namespace weft::detail {

/// The product of the pivots, which may leave the range of double on the way.
template <class T>
T determinant_of(std::size_t n, const T* lu, const std::int32_t* pivots) {
  double product = 1;
  int exponent = 0;
  for (std::size_t i = 0; i < n; ++i) {
    product *= static_cast<std::size_t>(pivots[i]) == i ? double{lu[i * n + i]} : -double{lu[i * n + i]};
    if (!std::isfinite(product)) return static_cast<T>(product);
    int more = 0;
    product = std::frexp(product, &more);
    exponent += more;
  }
  return static_cast<T>(std::ldexp(product, exponent));
}

enum class lu_task : unsigned char { inverse, determinant, solve };

/// Factorizes each matrix of the first operand, and does the task with it.
template <class T, lu_task Task, class Library = library::best_lu>
class lu_kernel final : public kernel {
 public:
  explicit lu_kernel(const prepare_context& p, bool transposed = false)
      : a_(p.input_slots[0]),
        b_(p.input_slots[p.c.inputs.size() - 1]),
        y_(p.output_slots[0]),
        name_(p.c.op->name),
        extents_(p.inputs[0].extents),
        transposed_(transposed) {
    const shape& result = p.outputs[0].extents;
    n_ = static_cast<std::size_t>(extents_[extents_.rank - 1]);
    columns_ = Task == lu_task::determinant ? 0 : static_cast<std::size_t>(result[result.rank - 1]);
    std::size_t count = 1;
    for (std::size_t i = 0; i + 2 < extents_.rank; ++i) count *= static_cast<std::size_t>(extents_[i]);
    constexpr std::size_t per_call = 1000, worth_sharing = std::size_t{1} << 19, most = 16;  // multiply-adds
    chunks_ = device::chunks(count, count * (n_ * n_ * (n_ / 3 + columns_) + per_call), worth_sharing);
    if (chunks_.count > most) chunks_.count = most;
    if (Library::takes_threads && n_ >= 1024 && chunks_.count > 0) chunks_.count = 1;
    for (std::size_t c = 0; c < chunks_.count; ++c) places_.push_back({});
    for (place& p : places_) p.lu.resize(n_ * n_), p.pivots.resize(n_);
  }

  /// Threads share one large matrix after the other; else each has some matrices. The bits are the same.
  void run(const kernel_context& f) override {
    for (place& p : places_) p.singular = none;
    const bool few = chunks_.count == 1 || chunks_.items < static_cast<std::size_t>(f.threads->size());
    if (Library::takes_threads && n_ >= 256 && few)
      for (std::size_t i = 0; i < chunks_.items; ++i) work(f, places_[0], i, f.threads);
    else
      chunks_.run(f, [&](std::size_t c, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) work(f, places_[c], i, nullptr);
      });
    for (const place& p : places_)
      if (p.singular != none)
        throw error(
            error_code::invalid_argument, name_,
            {"the input is not invertible: matrix ", p.singular, " of ", to_string(extents_), " has a pivot of 0"});
  }
  std::size_t memory_bytes() const override { return places_.size() * n_ * (n_ * sizeof(T) + sizeof(std::int32_t)); }
  std::string describe() const override { return str_cat({name_, " of ", chunks_.items, " ", n_, "x", n_}); }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct place {
    sequence<T> lu;
    sequence<std::int32_t> pivots;
    std::size_t singular = none;
  };

  void work(const kernel_context& f, place& p, std::size_t i, thread_pool* pool) const {
    T *const lu = p.lu.data(), *const y = reinterpret_cast<T*>(f.buffers[y_]);
    if (n_ > 0) __builtin_memcpy(lu, reinterpret_cast<const T*>(f.buffers[a_]) + i * n_ * n_, n_ * n_ * sizeof(T));
    const bool regular = Library::factorize(n_, lu, p.pivots.data(), pool);
    if constexpr (Task == lu_task::determinant) {
      y[i] = regular ? determinant_of(n_, lu, p.pivots.data()) : T(0);
    } else {
      if (!regular) {
        if (p.singular == none) p.singular = i;
        return;
      }
      T* const x = y + i * n_ * columns_;
      if (Task == lu_task::inverse)
        for (std::size_t e = 0; e < n_ * n_; ++e) x[e] = static_cast<T>(e % (n_ + 1) == 0);
      else if (n_ * columns_ > 0)
        __builtin_memcpy(x, reinterpret_cast<const T*>(f.buffers[b_]) + i * n_ * columns_, n_ * columns_ * sizeof(T));
      Library::solve(n_, columns_, lu, p.pivots.data(), transposed_, x, pool);
    }
  }

  std::uint32_t a_, b_, y_;
  const char* name_;
  shape extents_;
  bool transposed_;
  std::size_t n_, columns_;
  device::chunks chunks_;
  sequence<place> places_;
};

}  // namespace weft::detail
WEFT_COLD_END

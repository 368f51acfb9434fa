// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <utility>

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/lu.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

/// CPU kernels of inverses, determinants and linear systems, by LU factorization.
WEFT_COLD_BEGIN
namespace weft::detail {

/// A product whose intermediate values may exceed the range of double.
class scaled_product {
 public:
  void multiply(double x) {
    product_ *= x;
    if (!std::isfinite(product_)) return;
    int more = 0;
    product_ = std::frexp(product_, &more);
    exponent_ += more;
  }
  double value() const { return std::isfinite(product_) ? std::ldexp(product_, exponent_) : product_; }
  double sign() const { return product_ > 0 ? 1 : product_ < 0 ? -1 : product_; }
  double log_magnitude() const { return std::log(std::abs(product_)) + exponent_ * 0.693147180559945309; }

 private:
  double product_ = 1;
  int exponent_ = 0;
};

template <class T>
scaled_product determinant_of(std::size_t n, const T* lu, const std::int32_t* pivots) {
  scaled_product product;
  for (std::size_t i = 0; i < n; ++i)
    product.multiply(static_cast<std::size_t>(pivots[i]) == i ? double{lu[i * n + i]} : -double{lu[i * n + i]});
  return product;
}

/// Computes the cofactors of a singular matrix by elimination with complete pivoting, P A Q = L U. If n - 1 pivots are
/// not 0, they are the outer product of a vector z with z' A = 0 and a vector x with A x = 0, times these pivots;
/// otherwise all are zeros. Overwrites `a`; `work` and `order` have 2 n elements each.
template <class T>
void singular_cofactors(std::size_t n, T* a, T* work, std::int32_t* order, T* y) {
  std::int32_t *const rows = order, *const columns = order + n;
  for (std::size_t i = 0; i < n; ++i) rows[i] = columns[i] = static_cast<std::int32_t>(i);
  for (std::size_t e = 0; e < n * n; ++e) y[e] = 0;
  scaled_product pivots;
  for (std::size_t p = 0; p + 1 < n; ++p) {
    std::size_t r = p, c = p;
    T largest = 0;
    for (std::size_t i = p; i < n; ++i)
      for (std::size_t j = p; j < n; ++j)
        if (const T here = std::abs(a[i * n + j]); here > largest) largest = here, r = i, c = j;
    if (largest == 0) return;
    if (r != p) swap_rows(n, a + r * n, a + p * n), std::swap(rows[r], rows[p]), pivots.multiply(-1);
    for (std::size_t i = 0; c != p && i < n; ++i) std::swap(a[i * n + c], a[i * n + p]);
    if (c != p) std::swap(columns[c], columns[p]), pivots.multiply(-1);
    const T* const pivot = a + p * n;
    pivots.multiply(double{pivot[p]});
    for (std::size_t i = p + 1; i < n; ++i) {
      T* const row = a + i * n;
      row[p] /= pivot[p];
      subtract_multiple(n - p - 1, row[p], pivot + p + 1, row + p + 1);
    }
  }
  T *const x = work, *const z = work + n;
  x[n - 1] = z[n - 1] = 1;
  for (std::size_t i = n - 1; i-- > 0;) {
    T above = 0, left = 0;
    for (std::size_t k = i + 1; k < n; ++k) above += a[i * n + k] * x[k], left += z[k] * a[k * n + i];
    x[i] = -above / a[i * n + i];
    z[i] = -left;
  }
  const double product = pivots.value();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      y[static_cast<std::size_t>(rows[i]) * n + static_cast<std::size_t>(columns[j])] =
          static_cast<T>(product * double{z[i]} * double{x[j]});
}

enum class lu_task : unsigned char { inverse, determinant, slogdet, solve, cofactors };

/// Factorizes each matrix of the first operand and performs the task.
template <class T, lu_task Task, class Library = library::best_lu>
class lu_kernel final : public kernel {
 public:
  explicit lu_kernel(const prepare_context& p, bool transposed = false)
      : a_(p.input_slots[0]),
        b_(p.input_slots[p.node.inputs.size() - 1]),
        y_(p.output_slots[0]),
        second_(p.output_slots[p.node.outputs.size() - 1]),
        name_(p.node.op->name),
        extents_(p.inputs[0].extents),
        transposed_(transposed) {
    const shape& result = p.outputs[0].extents;
    n_ = static_cast<std::size_t>(extents_[extents_.rank - 1]);
    columns_ = no_matrix ? 0 : static_cast<std::size_t>(result[result.rank - 1]);
    std::size_t count = 1;
    for (std::size_t i = 0; i + 2 < extents_.rank; ++i) count *= static_cast<std::size_t>(extents_[i]);
    constexpr std::size_t per_call = 1000, worth_sharing = std::size_t{1} << 19, most = 16;  // multiply-adds
    chunks_ = device::chunks(count, count * (n_ * n_ * (n_ / 3 + columns_) + per_call), worth_sharing);
    if (chunks_.count > most) chunks_.count = most;
    if (Library::takes_threads && n_ >= 1024 && chunks_.count > 0) chunks_.count = 1;
    for (std::size_t c = 0; c < chunks_.count; ++c) places_.push_back({});
    for (place& one : places_) {
      one.lu.resize(n_ * n_), one.pivots.resize(is_cofactors ? 2 * n_ : n_);
      if (is_cofactors) one.work.resize(2 * n_);
    }
  }

  /// Threads share one large matrix after another, or else each thread works on different matrices. The bits are the
  /// same.
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
  std::size_t memory_bytes() const override {
    std::size_t bytes = 0;
    for (const place& p : places_)
      bytes += (p.lu.size() + p.work.size()) * sizeof(T) + p.pivots.size() * sizeof(std::int32_t);
    return bytes;
  }
  std::string describe() const override { return str_cat({name_, " of ", chunks_.items, " ", n_, "x", n_}); }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  static constexpr bool is_cofactors = Task == lu_task::cofactors;
  static constexpr bool no_matrix = Task == lu_task::determinant || Task == lu_task::slogdet;
  struct place {
    sequence<T> lu, work;
    sequence<std::int32_t> pivots;
    std::size_t singular = none;
  };

  void work(const kernel_context& f, place& p, std::size_t i, thread_pool* pool) const {
    T *const lu = p.lu.data(), *const y = reinterpret_cast<T*>(f.buffers[y_]);
    const auto copy = [&] {
      if (n_ > 0) __builtin_memcpy(lu, reinterpret_cast<const T*>(f.buffers[a_]) + i * n_ * n_, n_ * n_ * sizeof(T));
    };
    copy();
    const bool regular = Library::factorize(n_, lu, p.pivots.data(), pool);
    if constexpr (no_matrix) {
      scaled_product product;
      product.multiply(0);
      if (regular) product = determinant_of(n_, lu, p.pivots.data());
      y[i] = static_cast<T>(Task == lu_task::slogdet ? product.sign() : product.value());
      if (Task == lu_task::slogdet)
        reinterpret_cast<T*>(f.buffers[second_])[i] = static_cast<T>(product.log_magnitude());
    } else {
      if (is_cofactors && !regular) {
        copy();
        return singular_cofactors(n_, lu, p.work.data(), p.pivots.data(), y + i * n_ * n_);
      }
      if (!regular) {
        if (p.singular == none) p.singular = i;
        return;
      }
      T* const x = y + i * n_ * columns_;
      if (Task != lu_task::solve)
        for (std::size_t e = 0; e < n_ * n_; ++e) x[e] = static_cast<T>(e % (n_ + 1) == 0);
      else if (n_ * columns_ > 0)
        __builtin_memcpy(x, reinterpret_cast<const T*>(f.buffers[b_]) + i * n_ * columns_, n_ * columns_ * sizeof(T));
      Library::solve(n_, columns_, lu, p.pivots.data(), transposed_ || is_cofactors, x, pool);
      if (is_cofactors) {
        const double determinant = determinant_of(n_, lu, p.pivots.data()).value();
        for (std::size_t e = 0; e < n_ * n_; ++e) x[e] = static_cast<T>(determinant * double{x[e]});
      }
    }
  }

  std::uint32_t a_, b_, y_, second_;
  const char* name_;
  shape extents_;
  bool transposed_;
  std::size_t n_, columns_;
  device::chunks chunks_;
  sequence<place> places_;
};

}  // namespace weft::detail
WEFT_COLD_END

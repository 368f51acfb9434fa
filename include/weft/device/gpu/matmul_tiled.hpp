// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/cpu/matmul_reference.hpp>
#include <weft/device/gpu/each.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/owned.hpp>

#if WEFT_COMPILES_FOR_GPU

/// A plain matrix product, summed in float or double. Tests compare libraries with it, and it is used without a
/// library.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <class T>
struct tiled_matmul {
  using sum_type = accumulator<T>;
  static constexpr std::size_t tile = 16;
  static constexpr unsigned threads = tile * tile;

  struct shared {
    sum_type a[tile][tile + 1], b[tile][tile + 1];
  };

  const T *a, *b;
  T* c;
  std::size_t m, n, k, batch;
  std::size_t a_row, a_column, b_row, b_column;  // distances between rows and between columns, in elements
  sum_type alpha, beta;

  // A block computes one tile of a result, and each thread one element. All threads synchronize between the phases.

  WEFT_HOST_DEVICE std::size_t tiles_down() const { return (m + tile - 1) / tile; }
  WEFT_HOST_DEVICE tiled_matmul product(std::size_t i) const {
    tiled_matmul one = *this;
    one.a += i * m * k, one.b += i * k * n, one.c += i * m * n;
    return one;
  }

  /// Loads the next tile of each operand, with zeros beyond the edges.
  WEFT_HOST_DEVICE void load(shared& s, std::size_t row, std::size_t column, std::size_t depth, unsigned thread) const {
    const std::size_t i = thread / tile, j = thread % tile;
    const std::size_t ai = row + i, aj = depth + j, bi = depth + i, bj = column + j;
    s.a[i][j] = ai < m && aj < k ? static_cast<sum_type>(a[ai * a_row + aj * a_column]) : 0;
    s.b[i][j] = bi < k && bj < n ? static_cast<sum_type>(b[bi * b_row + bj * b_column]) : 0;
  }
  WEFT_HOST_DEVICE sum_type multiply(const shared& s, unsigned thread, sum_type sum) const {
    const std::size_t i = thread / tile, j = thread % tile;
    for (std::size_t p = 0; p < tile; ++p) sum += s.a[i][p] * s.b[p][j];
    return sum;
  }
  WEFT_HOST_DEVICE void store(std::size_t row, std::size_t column, unsigned thread, sum_type sum) const {
    const std::size_t i = row + thread / tile, j = column + thread % tile;
    if (i >= m || j >= n) return;
    T& to = c[i * n + j];
    to = beta == 0 ? alpha * sum : alpha * sum + beta * static_cast<sum_type>(to);
  }
};

  #if defined(__CUDACC__)
template <class T>
__global__ void __launch_bounds__(tiled_matmul<T>::threads) tiled_matmul_on_gpu(tiled_matmul<T> all) {
  constexpr std::size_t tile = tiled_matmul<T>::tile;
  __shared__ typename tiled_matmul<T>::shared s;
  const std::size_t column = blockIdx.x * tile;
  const std::size_t down = all.tiles_down();
  for (std::size_t y = blockIdx.y; y < all.batch * down; y += gridDim.y) {
    const tiled_matmul<T> work = all.product(y / down);
    const std::size_t row = y % down * tile;
    accumulator<T> sum = 0;
    for (std::size_t depth = 0; depth < work.k; depth += tile) {
      work.load(s, row, column, depth, threadIdx.x);
      __syncthreads();
      sum = work.multiply(s, threadIdx.x, sum);
      __syncthreads();
    }
    work.store(row, column, threadIdx.x, sum);
  }
}
  #endif

  #if defined(WEFT_GPU_EMULATION)

template <class T>
void tiled_matmul_emulated(const launch_size& size, void** arguments) {
  using work_type = tiled_matmul<T>;
  constexpr std::size_t tile = work_type::tile;
  const work_type& all = *static_cast<const work_type*>(arguments[0]);
  const std::size_t down = all.tiles_down();
  typename work_type::shared s;
  for (std::size_t x = 0; x < size.blocks; ++x)
    for (std::size_t first = 0; first < size.blocks_y; ++first)
      for (std::size_t y = first; y < all.batch * down; y += size.blocks_y) {
        const work_type work = all.product(y / down);
        const std::size_t row = y % down * tile;
        accumulator<T> sums[work_type::threads] = {};
        for (std::size_t depth = 0; depth < work.k; depth += tile) {
          for (unsigned t = 0; t < work_type::threads; ++t) work.load(s, row, x * tile, depth, t);
          for (unsigned t = 0; t < work_type::threads; ++t) sums[t] = work.multiply(s, t, sums[t]);
        }
        for (unsigned t = 0; t < work_type::threads; ++t) work.store(row, x * tile, t, sums[t]);
      }
}
  #endif

/// Computes C = alpha * op(A) * op(B) + beta * C for each product of a batch; see matmul_shape.
template <class T>
void launch_tiled_matmul(queue& q, const matmul_batch& products, accumulator<T> alpha, const T* a, const T* b,
                         accumulator<T> beta, T* c) {
  const matmul_shape& s = products.each;
  if (s.m == 0 || s.n == 0 || products.count == 0) return;
  using work_type = tiled_matmul<T>;
  work_type work{a,
                 b,
                 c,
                 s.m,
                 s.n,
                 s.k,
                 products.count,
                 s.transpose_a ? 1 : s.k,
                 s.transpose_a ? s.m : 1,
                 s.transpose_b ? 1 : s.n,
                 s.transpose_b ? s.k : 1,
                 alpha,
                 beta};
  function f;
  f.name = "matmul";
  f.argument_bytes = sizeof work;
  #if defined(__CUDACC__)
  f.device = reinterpret_cast<const void*>(&tiled_matmul_on_gpu<T>);
  #endif
  #if defined(WEFT_GPU_EMULATION)
  f.emulated = tiled_matmul_emulated<T>;
  #endif
  constexpr std::size_t max_rows_of_blocks = 65535;
  const std::size_t rows = work.tiles_down() * work.batch;
  launch_size size;
  size.blocks = static_cast<unsigned>((s.n + work_type::tile - 1) / work_type::tile);
  size.blocks_y = static_cast<unsigned>(rows < max_rows_of_blocks ? rows : max_rows_of_blocks);
  size.threads = work_type::threads;
  void* arguments[] = {&work};
  q.launch(f, size, arguments);
}

template <class T>
class tiled_matmul_kernel final : public kernel {
 public:
  /// The optional epilogue reads c and writes it in place.
  tiled_matmul_kernel(const matmul_batch& product, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                      accumulator<T> alpha, accumulator<T> beta, owned<kernel>& epilogue)
      : product_(product),
        a_(a),
        b_(b),
        c_(c),
        alpha_(alpha),
        beta_(beta),
        epilogue_(static_cast<owned<kernel>&&>(epilogue)) {}

  void run(const kernel_context& f) override {
    launch_tiled_matmul(*f.queue, product_, alpha_, reinterpret_cast<const T*>(f.buffers[a_]),
                        reinterpret_cast<const T*>(f.buffers[b_]), beta_, reinterpret_cast<T*>(f.buffers[c_]));
    if (epilogue_) epilogue_->run(f);
  }
  std::string describe() const override {
    const matmul_shape& s = product_.each;
    std::string text = "matmul " + (product_.count != 1 ? std::to_string(product_.count) + " of " : "") +
                       std::to_string(s.m) + "x" + std::to_string(s.k) + "x" + std::to_string(s.n);
    if (s.transpose_a) text += " a'";
    if (s.transpose_b) text += " b'";
    text += ", plain kernel";
    if (beta_ != 0) text += ", accumulated into the variable";
    if (epilogue_) text += ", then " + epilogue_->describe();
    return text;
  }

 private:
  matmul_batch product_;
  std::uint32_t a_, b_, c_;
  accumulator<T> alpha_, beta_;
  owned<kernel> epilogue_;
};

}  // namespace WEFT_GPU_FILE
}  // namespace weft::gpu

#endif

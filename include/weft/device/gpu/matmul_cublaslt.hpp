// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cublasLt.h>

#include <weft/device/cpu/matmul_reference.hpp>
#include <weft/device/gpu/cuda.hpp>
#include <weft/device/gpu/math_policy.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/host_memory.hpp>
#include <weft/tensor/owned.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// Matrix products by cuBLASLt, fused with scaling, accumulation, a bias for each column, and ReLU.
namespace weft::gpu {

/// The epilogue that cuBLASLt fuses into a product.
enum class matmul_epilogue : unsigned char { none, bias, relu, bias_relu };

constexpr const char* name(matmul_epilogue e) {
  constexpr const char* names[] = {"", " + bias", ", relu", " + bias, relu"};
  return names[static_cast<unsigned>(e)];
}

/// The parameters that determine a product's algorithm.
struct cublaslt_problem {
  matmul_shape shape;
  dtype type;
  matmul_epilogue epilogue = matmul_epilogue::none;
  bool accumulate = false;
  bool tf32 = false;
  std::size_t workspace = 0;  ///< maximum workspace of the algorithm in bytes
  std::size_t batch = 1;      ///< number of products; the matrices of each operand are consecutive
  /// The alignment of every operand's address. It is the alignment of whole buffers, independent of actual addresses,
  /// so that equal products use the same algorithm at every address.
  std::uint32_t alignment = weft::alignment;
};

namespace detail {

inline void check_cublas(cublasStatus_t s, const char* doing) {
  if (s == CUBLAS_STATUS_SUCCESS) return;
  const auto code = s == CUBLAS_STATUS_ALLOC_FAILED ? error_code::resource_exhausted : error_code::internal;
  throw error(
      code, "matmul",
      std::string("cuBLASLt cannot ") + doing + ": " + cublasLtGetStatusName(s) + ", " + cublasLtGetStatusString(s));
}

constexpr cudaDataType_t cuda_type(dtype t) {
  return t == dtype::float64    ? CUDA_R_64F
         : t == dtype::float16  ? CUDA_R_16F
         : t == dtype::bfloat16 ? CUDA_R_16BF
                                : CUDA_R_32F;
}

}  // namespace detail

/// cuBLASLt's descriptors of a product. cuBLASLt stores matrices by columns, and Weft by rows. The descriptors
/// therefore describe the transposed product c' = b' a': the operands swap places, and no memory moves.
class cublaslt_description {
 public:
  explicit cublaslt_description(const cublaslt_problem& p) {
    using detail::check_cublas;
    const bool wide = p.type == dtype::float64;
    const cudaDataType_t element = detail::cuda_type(p.type), scale = wide ? CUDA_R_64F : CUDA_R_32F;
    const cublasComputeType_t compute = wide                                 ? CUBLAS_COMPUTE_64F
                                        : p.type == dtype::float32 && p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                             : CUBLAS_COMPUTE_32F;
    check_cublas(cublasLtMatmulDescInit(&operation, compute, scale), "describe the product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    const cublasLtEpilogue_t after[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU,
                                        CUBLASLT_EPILOGUE_RELU_BIAS};
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, after[static_cast<unsigned>(p.epilogue)]);
    has_bias = p.epilogue == matmul_epilogue::bias || p.epilogue == matmul_epilogue::bias_relu;
    if (has_bias) {
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, element);
      set_bias(reinterpret_cast<const void*>(std::uintptr_t{p.alignment}));  // only the alignment matters to the
                                                                             // heuristic
    }
    const auto [m, n, k, ta, tb] = p.shape;
    describe(first, element, tb ? k : n, tb ? n : k, p.batch);
    describe(second, element, ta ? m : k, ta ? k : m, p.batch);
    describe(result, element, n, m, p.batch);
  }

  void set_bias(const void* at) { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, at); }

  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first, second, result;
  bool has_bias = false;

 private:
  template <class V>
  void set(cublasLtMatmulDescAttributes_t which, V value) {
    detail::check_cublas(cublasLtMatmulDescSetAttribute(&operation, which, &value, sizeof value),
                         "describe the product");
  }
  static void describe(cublasLtMatrixLayoutOpaque_t& m, cudaDataType_t type, std::size_t rows, std::size_t columns,
                       std::size_t batch) {
    detail::check_cublas(cublasLtMatrixLayoutInit(&m, type, rows, columns, static_cast<std::int64_t>(rows)),
                         "describe a matrix");
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    const auto step = static_cast<std::int64_t>(rows * columns);
    detail::check_cublas(cublasLtMatrixLayoutSetAttribute(&m, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                         "describe a batch");
    detail::check_cublas(
        cublasLtMatrixLayoutSetAttribute(&m, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
        "describe a batch");
  }
};

/// The cuBLASLt handle of one device, and the algorithms chosen so far.
class cublaslt final : public library_part {
 public:
  explicit cublaslt(int ordinal) : ordinal_(ordinal) {
    detail::check_cublas(cublasLtCreate(&handle_), "start on the GPU");
  }
  ~cublaslt() override { cublasLtDestroy(handle_); }

  cublasLtHandle_t handle() const { return handle_; }

  struct choice {
    bool found = false;
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace = 0;
  };

  /// Returns the algorithm for a product, chosen once for each problem: the library's first suggestion, or the fastest
  /// of its best ones.
  choice choose(const cublaslt_problem& p, cublaslt_description& d, bool tune) {
    const std::lock_guard lock(mutex_);
    for (const known_choice& k : chosen_)
      if (k.tuned == tune && same(k.problem, p)) return k.what;
    cublasLtMatmulHeuristicResult_t advice[max_advice];
    const std::size_t number = ask(p, d, tune ? max_advice : 1, advice);
    choice best;
    if (number > 0) {
      const std::size_t i = tune && number > 1 ? fastest(p, d, advice, number) : 0;
      best = {true, advice[i].algo, advice[i].workspaceSize};
    }
    chosen_.push_back({p, tune, best});
    return best;
  }

 private:
  struct known_choice {
    cublaslt_problem problem;
    bool tuned;
    choice what;
  };

  // Arrays instead of vectors: nvcc's front end reports an internal error if a vector destroys the library's nameless
  // structs.
  static constexpr int max_advice = 12;

  static bool same(const cublaslt_problem& a, const cublaslt_problem& b) {
    return a.shape.m == b.shape.m && a.shape.n == b.shape.n && a.shape.k == b.shape.k &&
           a.shape.transpose_a == b.shape.transpose_a && a.shape.transpose_b == b.shape.transpose_b &&
           a.type == b.type && a.epilogue == b.epilogue && a.accumulate == b.accumulate && a.tf32 == b.tf32 &&
           a.workspace == b.workspace && a.batch == b.batch && a.alignment == b.alignment;
  }

  /// Stores the library's usable suggestions, best first; returns their number.
  std::size_t ask(const cublaslt_problem& p, cublaslt_description& d, int most,
                  cublasLtMatmulHeuristicResult_t* advice) {
    cublasLtMatmulPreferenceOpaque_t wish;
    detail::check_cublas(cublasLtMatmulPreferenceInit(&wish), "set preferences");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      detail::check_cublas(cublasLtMatmulPreferenceSetAttribute(&wish, which, &value, sizeof value), "set preferences");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(p.workspace));
    for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(which, p.alignment);
    // Parts of a sum over k are added with at least the precision of the sum, and in a fixed order.
    const bool narrow = size_of(p.type) < 4;
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(narrow ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK));
    int found = 0;
    const cublasStatus_t s = cublasLtMatmulAlgoGetHeuristic(handle_, &d.operation, &d.first, &d.second, &d.result,
                                                            &d.result, &wish, most, advice, &found);
    if (s == CUBLAS_STATUS_NOT_INITIALIZED || s == CUBLAS_STATUS_ALLOC_FAILED || s == CUBLAS_STATUS_INTERNAL_ERROR)
      detail::check_cublas(s, "choose an algorithm");
    if (s != CUBLAS_STATUS_SUCCESS) return 0;  // no algorithm for this card or this product
    std::size_t usable = 0;
    for (int i = 0; i < found; ++i)
      if (advice[i].state == CUBLAS_STATUS_SUCCESS) advice[usable++] = advice[i];
    return usable;
  }

  /// Returns the fastest suggestion. Runs each one on separate memory, three times to warm up and ten times to measure.
  std::size_t fastest(const cublaslt_problem& p, cublaslt_description& d, const cublasLtMatmulHeuristicResult_t* advice,
                      std::size_t number) {
    const std::size_t element = size_of(p.type), all = element * p.batch;
    const std::size_t sizes[] = {p.shape.k * p.shape.n * all, p.shape.m * p.shape.k * all, p.shape.m * p.shape.n * all,
                                 p.shape.n * element, p.workspace};
    void* memory[5] = {};
    const auto give_back = [&] {
      for (void* each : memory) cudaFree(each);
      cudaGetLastError();
    };
    for (std::size_t i = 0; i < 5; ++i)
      if (cudaMalloc(&memory[i], sizes[i] ? sizes[i] : 1) != cudaSuccess) return give_back(), 0;
    std::size_t best = 0;
    float best_time = 0;
    {
      cuda_queue q(ordinal_);
      for (std::size_t i = 0; i < 4; ++i) q.clear(memory[i], sizes[i]);
      cudaEvent_t from = nullptr, to = nullptr;
      cudaEventCreate(&from);
      cudaEventCreate(&to);
      if (d.has_bias) d.set_bias(memory[3]);
      const double one[2] = {1, 1};
      const float one_float[2] = {1, 1};
      const void* scale = p.type == dtype::float64 ? static_cast<const void*>(one) : one_float;
      const double zero = 0;
      const void* beta = p.accumulate ? scale : &zero;
      for (std::size_t i = 0; i < number; ++i) {
        bool works = true;
        for (int round = 0; works && round < 13; ++round) {
          if (round == 3) cudaEventRecord(from, q.stream());
          works = cublasLtMatmul(handle_, &d.operation, scale, memory[0], &d.first, memory[1], &d.second, beta,
                                 memory[2], &d.result, memory[2], &d.result, &advice[i].algo, memory[4],
                                 advice[i].workspaceSize, q.stream()) == CUBLAS_STATUS_SUCCESS;
        }
        float milliseconds = 0;
        cudaEventRecord(to, q.stream());
        q.synchronize();
        if (!works || cudaEventElapsedTime(&milliseconds, from, to) != cudaSuccess) continue;
        if (best_time == 0 || milliseconds < best_time) best = i, best_time = milliseconds;
      }
      cudaEventDestroy(from);
      cudaEventDestroy(to);
    }
    give_back();
    return best;
  }

  int ordinal_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::vector<known_choice> chosen_;
};

class cublaslt_kernel final : public kernel {
 public:
  struct slots {
    std::uint32_t a, b, c;
    std::uint32_t bias = 0;
  };

  /// Returns null if the library has no algorithm for the product. Otherwise takes ownership of `then`, which may
  /// contain a kernel that reads c and writes it in place.
  static kernel* make(cuda_libraries& on, const cublaslt_problem& p, slots where, double alpha, owned<kernel>& then) {
    if (p.shape.m == 0 || p.shape.n == 0 || p.shape.k == 0 || p.batch == 0 || p.batch > 0x7fffffff) return nullptr;
    auto& library = on.get<cublaslt>();
    cublaslt_description d(p);
    const cublaslt::choice chosen = library.choose(p, d, math.tune);
    return chosen.found ? new cublaslt_kernel(on, library, p, d, chosen, where, alpha, then) : nullptr;
  }

  void run(const kernel_context& f) override {
    auto& q = static_cast<cuda_queue&>(*f.queue);
    check(cudaSetDevice(ordinal_), "matmul", "use the device");
    if (description_.has_bias) description_.set_bias(f.buffers[slots_.bias]);
    const bool wide = problem_.type == dtype::float64;
    const float narrow[] = {static_cast<float>(scale_[0]), static_cast<float>(scale_[1])};
    std::byte* c = f.buffers[slots_.c];
    const cublaslt::choice& by = is_aligned(f) ? chosen_ : choose_for_part(f);
    detail::check_cublas(
        cublasLtMatmul(library_.handle(), &description_.operation,
                       wide ? static_cast<const void*>(&scale_[0]) : &narrow[0], f.buffers[slots_.b],
                       &description_.first, f.buffers[slots_.a], &description_.second,
                       wide ? static_cast<const void*>(&scale_[1]) : &narrow[1], c, &description_.result, c,
                       &description_.result, &by.algorithm, q.workspace(by.workspace), by.workspace, q.stream()),
        "multiply");
    if (then_) then_->run(f);
  }

  std::size_t workspace_bytes() const override { return chosen_.workspace; }

  std::string describe() const override {
    const matmul_shape& s = problem_.shape;
    std::string text = "cublasLt " + (problem_.batch != 1 ? std::to_string(problem_.batch) + " of " : "") +
                       std::to_string(s.m) + "x" + std::to_string(s.k) + "x" + std::to_string(s.n) + " " +
                       (problem_.tf32 ? "tf32" : weft::name(problem_.type));
    if (s.transpose_a) text += " a'";
    if (s.transpose_b) text += " b'";
    if (problem_.accumulate) text += " accumulated into the variable";
    text += name(problem_.epilogue);
    if (then_) text += ", then " + then_->describe();
    return text;
  }

 private:
  cublaslt_kernel(cuda_libraries& on, cublaslt& library, const cublaslt_problem& p, const cublaslt_description& d,
                  const cublaslt::choice& chosen, slots where, double alpha, owned<kernel>& then)
      : library_(library),
        problem_(p),
        description_(d),
        chosen_(chosen),
        slots_(where),
        ordinal_(on.ordinal()),
        scale_{alpha, p.accumulate ? 1.0 : 0.0},
        then_(std::move(then)) {}

  /// Returns the bitwise or of all operands' addresses.
  std::uintptr_t addresses(const kernel_context& f) const {
    std::uintptr_t all = 0;
    for (const std::uint32_t s : {slots_.a, slots_.b, slots_.c}) all |= reinterpret_cast<std::uintptr_t>(f.buffers[s]);
    return description_.has_bias ? all | reinterpret_cast<std::uintptr_t>(f.buffers[slots_.bias]) : all;
  }
  bool is_aligned(const kernel_context& f) const { return addresses(f) % problem_.alignment == 0; }

  /// Returns the algorithm for the actual alignment, if an operand begins within a buffer.
  const cublaslt::choice& choose_for_part(const kernel_context& f) {
    const std::uintptr_t all = addresses(f);
    const auto aligned = static_cast<std::uint32_t>(all & (~all + 1));
    if (part_alignment_ != aligned) {
      cublaslt_problem p = problem_;
      p.alignment = aligned;
      cublaslt_description d(p);
      for_part_ = library_.choose(p, d, false);
      part_alignment_ = aligned;
    }
    if (!for_part_.found)
      throw error(error_code::unimplemented, "matmul",
                  "cuBLASLt has no algorithm for operands that are aligned to " + std::to_string(aligned) + " bytes");
    return for_part_;
  }

  cublaslt& library_;
  cublaslt_problem problem_;
  cublaslt_description description_;
  cublaslt::choice chosen_, for_part_;
  std::uint32_t part_alignment_ = 0;
  slots slots_;
  int ordinal_;
  double scale_[2];
  owned<kernel> then_;
};

}  // namespace weft::gpu

#pragma pop_macro("slots")

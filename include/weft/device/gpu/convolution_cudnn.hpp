#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cudnn.h>

#include <weft/device/convolution.hpp>
#include <weft/device/gpu/cuda.hpp>
#include <weft/device/gpu/math_policy.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/dtype.hpp>

/// Convolutions of floats and their gradients by cuDNN: deterministic algorithms alone, chosen by its heuristic.
///
/// Images lie as cuDNN's NHWC. Filters do not: [height, width, channels, filters] here, [filters, height, width,
/// channels] there, so they are turned on the way, in the queue's workspace; they are small. So are images whose
/// padding differs from side to side, which cuDNN does not know: they get their zeros there.
namespace weft::gpu {

namespace detail {

inline void check_cudnn(cudnnStatus_t s, const char* operation, const char* doing) {
  if (s == CUDNN_STATUS_SUCCESS) return;
  const auto code = s == CUDNN_STATUS_ALLOC_FAILED ? error_code::resource_exhausted : error_code::internal;
  throw error(code, operation, std::string("cuDNN cannot ") + doing + ": " + cudnnGetErrorString(s));
}

/// A cuDNN descriptor, made and destroyed with this object.
template <class Descriptor, cudnnStatus_t (*Create)(Descriptor*), cudnnStatus_t (*Destroy)(Descriptor)>
class cudnn_descriptor {
 public:
  cudnn_descriptor() { check_cudnn(Create(&it_), "cudnn", "make a descriptor"); }
  cudnn_descriptor(const cudnn_descriptor&) = delete;
  cudnn_descriptor& operator=(const cudnn_descriptor&) = delete;
  ~cudnn_descriptor() { Destroy(it_); }
  operator Descriptor() const { return it_; }

 private:
  Descriptor it_ = nullptr;
};

using cudnn_tensor =
    cudnn_descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using cudnn_filter =
    cudnn_descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using cudnn_convolution_descriptor =
    cudnn_descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;
using cudnn_activation =
    cudnn_descriptor<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor>;

}  // namespace detail

/// One device's cuDNN. Its handle is for one call at a time.
class cudnn final : public library_part {
 public:
  explicit cudnn(int ordinal) : ordinal_(ordinal) {
    detail::check_cudnn(cudnnCreate(&handle_), "cudnn", "start on the GPU");
  }
  ~cudnn() override { cudnnDestroy(handle_); }

  /// The handle, for as long as the guard lives.
  class use {
   public:
    /// Without a stream: that of an earlier use may be gone.
    explicit use(cudnn& c) : use(c, nullptr) {}
    use(cudnn& c, const cuda_queue& q) : use(c, q.stream()) {}
    operator cudnnHandle_t() const { return handle_; }

   private:
    use(cudnn& c, cudaStream_t stream) : lock_(c.mutex_), handle_(c.handle_) {
      check(cudaSetDevice(c.ordinal_), "cudnn", "use the device");
      detail::check_cudnn(cudnnSetStream(handle_, stream), "cudnn", "use the stream");
    }

    std::lock_guard<std::mutex> lock_;
    cudnnHandle_t handle_;
  };

 private:
  int ordinal_;
  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
};

/// One of the three calls, for known extents. `a` and `b` are images and filters; filters and what arrives; images and
/// what arrives.
class cudnn_convolution_kernel final : public kernel {
 public:
  struct slots {
    std::uint32_t a, b, out;
    std::uint32_t bias = 0;
  };
  /// What comes after a forward convolution: a bias and perhaps ReLU that cuDNN may take in, and the kernel that does
  /// the same, or anything else, where it does not.
  struct epilogue {
    bool has_bias = false, relu = false;
    owned<kernel> then;
  };

  /// Null where the library has no deterministic algorithm for it. Else takes over what comes after.
  static kernel* make(cuda_libraries& on, convolution_kind kind, const convolution_shape& s, dtype type, slots where,
                      epilogue& after) {
    const std::int64_t extents[] = {s.batch,         s.height,       s.width,      s.channels, s.filters,
                                    s.window_height, s.window_width, s.out_height, s.out_width};
    for (const std::int64_t e : extents)
      if (e <= 0 || e > std::numeric_limits<int>::max()) return nullptr;
    // It counts elements in 32 bits; and what it does with doubles in this layout, PyTorch does not trust either.
    const std::int64_t rows = s.height + s.pad_top + s.pad_bottom, columns = s.width + s.pad_left + s.pad_right;
    const double elements[] = {static_cast<double>(s.batch * rows) * static_cast<double>(columns * s.channels),
                               static_cast<double>(s.batch) * static_cast<double>(s.out_elements()),
                               static_cast<double>(s.filter_elements())};
    for (const double e : elements)
      if (e > std::numeric_limits<int>::max()) return nullptr;
    if (type != dtype::float32) return nullptr;
    std::unique_ptr<cudnn_convolution_kernel> k(new cudnn_convolution_kernel(on, kind, s, where));
    if (!k->choose()) return nullptr;
    k->take(after);
    return k.release();
  }

  void run(const frame& f) override {
    auto& q = static_cast<cuda_queue&>(*f.queue);
    const cudnn::use handle(library_, q);
    std::byte* const room = q.workspace(filter_room_ + image_room_ + algorithm_room_);
    void* const filters = room;
    void* const padded = room + filter_room_;
    void* const work = algorithm_room_ ? room + filter_room_ + image_room_ : nullptr;
    const std::byte *a = f.buffers[slots_.a], *b = f.buffers[slots_.b];
    std::byte* const out = f.buffers[slots_.out];
    switch (kind_) {
      case convolution_kind::forward: {
        turn(handle, filters_here_, b, filters_there_, filters);
        const void* images = pad(handle, q, a, padded);
        if (!(can_fuse_ && fused(handle, images, filters, work, f.buffers[slots_.bias], out))) {
          detail::check_cudnn(cudnnConvolutionForward(handle, one(), images_, images, filters_, filters, convolution_,
                                                      forward_, work, algorithm_room_, zero(), results_, out),
                              name(), "convolve");
          if (after_.then) after_.then->run(f);
        }
        break;
      }
      case convolution_kind::input_gradient: {
        turn(handle, filters_here_, a, filters_there_, filters);
        void* const images = image_room_ ? padded : out;
        detail::check_cudnn(cudnnConvolutionBackwardData(handle, one(), filters_, filters, results_, b, convolution_,
                                                         input_, work, algorithm_room_, zero(), images_, images),
                            name(), "convolve");
        if (image_room_) turn(handle, inner_, inner_of(images), plain_images_, out);
        break;
      }
      case convolution_kind::filter_gradient: {
        const void* images = pad(handle, q, a, padded);
        detail::check_cudnn(cudnnConvolutionBackwardFilter(handle, one(), images_, images, results_, b, convolution_,
                                                           filter_, work, algorithm_room_, zero(), filters_, filters),
                            name(), "convolve");
        turn(handle, filters_there_, filters, filters_here_, out);
        break;
      }
    }
  }

  std::string describe() const override {
    const auto by = [](std::int64_t x, std::int64_t y) { return std::to_string(x) + "x" + std::to_string(y); };
    const convolution_shape& s = shape_;
    std::string text = std::string("cuDNN ") + name() + " " + by(s.batch, s.height) + "x" + by(s.width, s.channels) +
                       " by " + by(s.window_height, s.window_width) + "x" + std::to_string(s.filters);
    if (image_room_) text += ", padded first";
    if (can_fuse_)
      text += after_.relu ? " + bias, relu" : " + bias";
    else if (after_.then)
      text += ", then " + after_.then->describe();
    return text;
  }

 private:
  cudnn_convolution_kernel(cuda_libraries& on, convolution_kind kind, const convolution_shape& s, slots where)
      : library_(on.get<cudnn>()), kind_(kind), shape_(s), slots_(where) {
    using detail::check_cudnn;
    constexpr cudnnDataType_t element = CUDNN_DATA_FLOAT;
    // Padding that cuDNN does not know is put around the images beforehand.
    const bool even = s.pad_top == s.pad_bottom && s.pad_left == s.pad_right;
    const std::int64_t height = even ? s.height : s.height + s.pad_top + s.pad_bottom;
    const std::int64_t width = even ? s.width : s.width + s.pad_left + s.pad_right;
    const auto i = [](std::int64_t n) { return static_cast<int>(n); };
    const auto describe = [&](const detail::cudnn_tensor& t, std::int64_t n, std::int64_t c, std::int64_t h,
                              std::int64_t w) {
      check_cudnn(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NHWC, element, i(n), i(c), i(h), i(w)), name(),
                  "describe an operand");
    };
    describe(images_, s.batch, s.channels, height, width);
    describe(plain_images_, s.batch, s.channels, s.height, s.width);
    describe(results_, s.batch, s.filters, s.out_height, s.out_width);
    describe(bias_, 1, s.filters, 1, 1);
    const auto strided = [&](const detail::cudnn_tensor& t, std::int64_t n, std::int64_t c, std::int64_t h,
                             std::int64_t w, std::int64_t ns, std::int64_t cs, std::int64_t hs, std::int64_t ws) {
      check_cudnn(cudnnSetTensor4dDescriptorEx(t, element, i(n), i(c), i(h), i(w), i(ns), i(cs), i(hs), i(ws)), name(),
                  "describe an operand");
    };
    strided(inner_, s.batch, s.channels, s.height, s.width, height * width * s.channels, 1, width * s.channels,
            s.channels);
    const std::int64_t k = s.filters, c = s.channels, r = s.window_height, q = s.window_width;
    strided(filters_here_, k, c, r, q, 1, k, q * c * k, c * k);
    strided(filters_there_, k, c, r, q, r * q * c, 1, q * c, c);
    check_cudnn(cudnnSetFilter4dDescriptor(filters_, element, CUDNN_TENSOR_NHWC, i(k), i(c), i(r), i(q)), name(),
                "describe the filters");
    check_cudnn(cudnnSetConvolution2dDescriptor(convolution_, even ? i(s.pad_top) : 0, even ? i(s.pad_left) : 0,
                                                i(s.stride_height), i(s.stride_width), i(s.dilation_height),
                                                i(s.dilation_width), CUDNN_CROSS_CORRELATION, element),
                name(), "describe the convolution");
    tf32_ = math.allow_tf32;
    set_math(tf32_ ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
    constexpr std::size_t size = sizeof(float);
    filter_room_ = rounded(s.filter_elements() * size);
    if (!even) image_room_ = rounded(static_cast<std::size_t>(s.batch * height * width * s.channels) * size);
    inner_offset_ = static_cast<std::size_t>((s.pad_top * width + s.pad_left) * s.channels) * size;
  }

  void take(epilogue& after) {
    after_.has_bias = after.has_bias;
    after_.relu = after.relu;
    after_.then = std::move(after.then);
    const auto activation = after_.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY;
    const auto nan = after_.relu ? CUDNN_PROPAGATE_NAN : CUDNN_NOT_PROPAGATE_NAN;
    detail::check_cudnn(cudnnSetActivationDescriptor(activation_, activation, nan, 0), name(),
                        "describe the activation");
    // Without an activation there is one algorithm that takes in a bias.
    can_fuse_ = after_.has_bias && (after_.relu || forward_ == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
  }

  static std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  void set_math(cudnnMathType_t how) {
    detail::check_cudnn(cudnnSetConvolutionMathType(convolution_, how), name(), "take the kind of arithmetic");
  }

  // ---- the algorithm ----

  /// The first in the library's order of expected times that is deterministic and whose workspace is allowed. What it
  /// needs is asked once more: an offer may be for other arithmetic than this convolution's.
  template <class Performance, class Algorithm, class RoomOf>
  bool pick(cudnnStatus_t s, const std::vector<Performance>& offered, int number, Algorithm& chosen, RoomOf&& room_of) {
    if (s != CUDNN_STATUS_SUCCESS) return false;
    for (int n = 0; n < number; ++n) {
      const Performance& p = offered[static_cast<std::size_t>(n)];
      if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC) continue;
      if (tf32_) set_math(p.mathType);
      std::size_t room = 0;
      if (room_of(p.algo, &room) != CUDNN_STATUS_SUCCESS || room > math.workspace_bytes) continue;
      chosen = p.algo;
      algorithm_room_ = room;
      return true;
    }
    return false;
  }

  bool choose() {
    const cudnn::use handle(library_);
    constexpr int most = 10;
    int number = 0;
    switch (kind_) {
      case convolution_kind::forward: {
        std::vector<cudnnConvolutionFwdAlgoPerf_t> offered(most);
        const cudnnStatus_t s = cudnnGetConvolutionForwardAlgorithm_v7(handle, images_, filters_, convolution_,
                                                                       results_, most, &number, offered.data());
        return pick(s, offered, number, forward_, [&](auto algorithm, std::size_t* room) {
          return cudnnGetConvolutionForwardWorkspaceSize(handle, images_, filters_, convolution_, results_, algorithm,
                                                         room);
        });
      }
      case convolution_kind::input_gradient: {
        std::vector<cudnnConvolutionBwdDataAlgoPerf_t> offered(most);
        const cudnnStatus_t s = cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, filters_, results_, convolution_,
                                                                            images_, most, &number, offered.data());
        return pick(s, offered, number, input_, [&](auto algorithm, std::size_t* room) {
          return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, filters_, results_, convolution_, images_,
                                                              algorithm, room);
        });
      }
      default: {
        std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> offered(most);
        const cudnnStatus_t s = cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, images_, results_, convolution_,
                                                                              filters_, most, &number, offered.data());
        return pick(s, offered, number, filter_, [&](auto algorithm, std::size_t* room) {
          return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, images_, results_, convolution_, filters_,
                                                                algorithm, room);
        });
      }
    }
  }

  // ---- the calls ----

  const void* one() const { return &one_; }
  const void* zero() const { return &zero_; }

  void turn(cudnnHandle_t handle, cudnnTensorDescriptor_t from_layout, const void* from,
            cudnnTensorDescriptor_t to_layout, void* to) {
    detail::check_cudnn(cudnnTransformTensor(handle, one(), from_layout, from, zero(), to_layout, to), name(),
                        "change a layout");
  }

  std::byte* inner_of(void* padded) const { return static_cast<std::byte*>(padded) + inner_offset_; }

  /// The images with the padding that cuDNN does not know.
  const void* pad(cudnnHandle_t handle, cuda_queue& q, const void* images, void* padded) {
    if (!image_room_) return images;
    q.clear(padded, image_room_);
    turn(handle, plain_images_, images, inner_, inner_of(padded));
    return padded;
  }

  /// Bias and activation in the convolution's kernel. Whether the library can is only known when it is asked to.
  bool fused(cudnnHandle_t handle, const void* images, const void* filters, void* work, const void* bias, void* out) {
    const cudnnStatus_t s = cudnnConvolutionBiasActivationForward(
        handle, one(), images_, images, filters_, filters, convolution_, forward_, work, algorithm_room_, zero(),
        results_, out, bias_, bias, activation_, results_, out);
    if (s == CUDNN_STATUS_SUCCESS) return true;
    // Refused before anything was launched: not supported, or more workspace wanted than the plain convolution's.
    // From cuDNN 9 on such codes are from 2000 and from 3000 on, and say in which way.
    const int code = static_cast<int>(s);
    const bool refused =
        s == CUDNN_STATUS_BAD_PARAM || s == CUDNN_STATUS_NOT_SUPPORTED || (code >= 2000 && code < 4000);
    if (!refused) detail::check_cudnn(s, name(), "convolve");
    can_fuse_ = false;
    return false;
  }

  const char* name() const {
    constexpr const char* names[] = {"conv2d", "conv2d_input_gradient", "conv2d_filter_gradient"};
    return names[static_cast<int>(kind_)];
  }

  cudnn& library_;
  convolution_kind kind_;
  convolution_shape shape_;
  bool tf32_ = false, can_fuse_ = false;
  slots slots_;
  epilogue after_;
  // `filters_here_` is Weft's order, `filters_there_` cuDNN's; `inner_` the images inside of their padding.
  detail::cudnn_tensor images_, plain_images_, results_, bias_, inner_, filters_here_, filters_there_;
  detail::cudnn_filter filters_;
  detail::cudnn_convolution_descriptor convolution_;
  detail::cudnn_activation activation_;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdDataAlgo_t input_{};
  cudnnConvolutionBwdFilterAlgo_t filter_{};
  std::size_t filter_room_ = 0, image_room_ = 0, algorithm_room_ = 0, inner_offset_ = 0;
  float one_ = 1, zero_ = 0;
};

}  // namespace weft::gpu

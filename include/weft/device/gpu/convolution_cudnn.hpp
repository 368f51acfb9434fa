// SPDX-License-Identifier: BSL-1.0
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
#include <weft/device/image_layout.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/owned.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// Convolutions of float, half and bfloat16 and their gradients by cuDNN. Uses only deterministic algorithms, in the
/// order of cuDNN's heuristic. Only a call shows if an algorithm is usable: on the first run, the next algorithm
/// replaces one that is refused. half and bfloat16 are summed in float, by tensor cores, and rounded once.
///
/// Images use cuDNN's NHWC or NCHW layout. Filters do not: Weft's are [height, width, channels, filters], cuDNN's
/// [filters, height, width, channels] or [filters, channels, height, width]. They are small, and are transposed into
/// the queue's workspace. Images with asymmetric padding, which cuDNN does not support, are copied there with their
/// zeros.
namespace weft::gpu {

namespace detail {

inline void check_cudnn(cudnnStatus_t s, const char* operation, const char* doing) {
  if (s == CUDNN_STATUS_SUCCESS) return;
  const auto code = s == CUDNN_STATUS_ALLOC_FAILED ? error_code::resource_exhausted : error_code::internal;
  throw error(code, operation, std::string("cuDNN cannot ") + doing + ": " + cudnnGetErrorString(s));
}

constexpr cudnnDataType_t cudnn_type(dtype t) {
  return t == dtype::float16 ? CUDNN_DATA_HALF : t == dtype::bfloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/// Returns true if an algorithm transforms images and filters to save multiplications (Winograd, FFT), for which half
/// and bfloat16 lack precision.
constexpr bool transforms(cudnnConvolutionFwdAlgo_t a) {
  return a == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD || a == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED ||
         a == CUDNN_CONVOLUTION_FWD_ALGO_FFT || a == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING;
}
constexpr bool transforms(cudnnConvolutionBwdDataAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD || a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED ||
         a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT || a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING;
}
constexpr bool transforms(cudnnConvolutionBwdFilterAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD || a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED ||
         a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT || a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING;
}

/// Owns a cuDNN descriptor.
template <class Descriptor, cudnnStatus_t (*Create)(Descriptor*), cudnnStatus_t (*Destroy)(Descriptor)>
class cudnn_descriptor {
 public:
  cudnn_descriptor() { check_cudnn(Create(&it_), "cudnn", "create a descriptor"); }
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

/// The cuDNN handle of one device, which allows one call at a time.
class cudnn final : public library_part {
 public:
  explicit cudnn(int ordinal) : ordinal_(ordinal) {
    detail::check_cudnn(cudnnCreate(&handle_), "cudnn", "start on the GPU");
  }
  ~cudnn() override { cudnnDestroy(handle_); }

  /// Locks the handle during its lifetime.
  class use {
   public:
    /// Resets the stream, since the previous one may no longer exist.
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

/// A convolution or one of its gradients, for known extents. `a` and `b` are images and filters, filters and upstream
/// gradient, or images and upstream gradient.
class cudnn_convolution_kernel final : public kernel {
 public:
  struct slots {
    std::uint32_t a, b, out;
    std::uint32_t bias = 0;
  };
  /// The maximum workspace, and the kernels around a convolution. `takes_bias` and `takes_relu`: the forward
  /// convolution is followed by a bias and perhaps ReLU that cuDNN may fuse. `then` does this work, or any other, if
  /// cuDNN does not. `instead` convolves if cuDNN refuses every call; it may be null.
  struct surroundings {
    std::size_t room = 0;
    bool takes_bias = false, takes_relu = false;
    owned<kernel> then, instead;
  };

  /// Returns null, with the reason in `why`, if cuDNN is not used or has no usable algorithm. Otherwise takes ownership
  /// of `around`.
  static kernel* make(cuda_libraries& on, convolution_kind kind, const convolution_shape& s, dtype type,
                      image_layout layout, slots where, surroundings& around, std::string& why) {
    auto k = chosen(on, kind, s, type, layout, around.room, why);
    if (!k) return nullptr;
    k->slots_ = where;
    k->around_ = std::move(around);
    k->use_offer(0);
    return k.release();
  }

  /// Returns the expected time in seconds, or infinity if there is no algorithm. Measured if the policy requests
  /// tuning.
  static double expected_seconds(cuda_libraries& on, convolution_kind kind, const convolution_shape& s, dtype type,
                                 image_layout layout, std::size_t room, double multiply_adds_per_second) {
    std::string why;
    const auto k = chosen(on, kind, s, type, layout, room, why);
    if (!k) return std::numeric_limits<double>::infinity();
    const offer& best = k->offers_[0];
    if (best.seconds > 0) return best.seconds;
    // cuDNN gives no time, so it is estimated: transforms save multiplications, and tensor cores prefer channels last.
    const bool tensor_cores = k->any_math_ && best.arithmetic != CUDNN_FMA_MATH;
    const double rate = tensor_cores ? (layout == image_layout::channels_last ? 8 : 4) : best.transforms ? 1.5 : 1;
    const double pixels = static_cast<double>(s.batch) * static_cast<double>(s.out_height * s.out_width);
    return pixels * static_cast<double>(s.filter_elements()) / (rate * multiply_adds_per_second);
  }

  void run(const kernel_context& f) override {
    while (offer_ < offers_.size()) {
      if (convolve(f)) return;
      use_offer(offer_ + 1);
    }
    if (!around_.instead)
      throw error(error_code::unimplemented, name(),
                  "cuDNN does not support it, and no file of this program is compiled for GPUs");
    around_.instead->run(f);
    if (around_.then) around_.then->run(f);
  }

  std::size_t workspace_bytes() const override { return offer_ < offers_.size() ? room_for(offers_[offer_]) : 0; }

  std::string describe() const override {
    const auto by = [](std::int64_t x, std::int64_t y) { return std::to_string(x) + "x" + std::to_string(y); };
    const convolution_shape& s = shape_;
    std::string text = std::string("cuDNN ") + name() + " " + by(s.batch, s.height) + "x" + by(s.width, s.channels) +
                       " by " + by(s.window_height, s.window_width) + "x" + std::to_string(s.filters);
    if (s.groups != 1) text += " in " + std::to_string(s.groups) + " groups";
    if (type_ != dtype::float32) text += std::string(" ") + weft::name(type_);
    if (layout_ == image_layout::channels_first) text += ", channels first";
    if (image_room_) text += ", padded before";
    if (offer_ == offers_.size()) text = around_.instead ? around_.instead->describe() : text + ", refused";
    if (can_fuse_)
      text += around_.takes_relu ? " + bias, relu" : " + bias";
    else if (around_.then)
      text += ", then " + around_.then->describe();
    if (refusal_ != CUDNN_STATUS_SUCCESS)
      text += std::string(" (refused before: ") + cudnnGetErrorString(refusal_) + ")";
    return text;
  }

 private:
  /// Returns null, with the reason in `why`, if cuDNN is not used or has no usable algorithm.
  static std::unique_ptr<cudnn_convolution_kernel> chosen(cuda_libraries& on, convolution_kind kind,
                                                          const convolution_shape& s, dtype type, image_layout layout,
                                                          std::size_t room, std::string& why) {
    why = "cuDNN is not used for double";  // PyTorch avoids cuDNN's doubles with channels last as well
    if (type == dtype::float64) return nullptr;
    why = "it is empty, or has more elements than cuDNN can index";
    const std::int64_t extents[] = {s.batch,         s.height,       s.width,      s.channels, s.filters,
                                    s.window_height, s.window_width, s.out_height, s.out_width};
    for (const std::int64_t e : extents)
      if (e <= 0 || e > std::numeric_limits<int>::max()) return nullptr;
    // cuDNN counts elements in 32 bits.
    const std::int64_t rows = s.height + s.pad_top + s.pad_bottom, columns = s.width + s.pad_left + s.pad_right;
    const double elements[] = {static_cast<double>(s.batch * rows) * static_cast<double>(columns * s.channels),
                               static_cast<double>(s.batch) * static_cast<double>(s.out_elements()),
                               static_cast<double>(s.filter_elements())};
    for (const double e : elements)
      if (e > std::numeric_limits<int>::max()) return nullptr;
    std::unique_ptr<cudnn_convolution_kernel> k(new cudnn_convolution_kernel(on, kind, s, type, layout));
    return k->choose(room, why) ? std::move(k) : nullptr;
  }

  cudnn_convolution_kernel(cuda_libraries& on, convolution_kind kind, const convolution_shape& s, dtype type,
                           image_layout layout)
      : library_(on.get<cudnn>()), kind_(kind), shape_(s), type_(type), layout_(layout) {
    using detail::check_cudnn;
    const cudnnDataType_t element = detail::cudnn_type(type);
    const bool first = layout == image_layout::channels_first;
    const cudnnTensorFormat_t format = first ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
    // Asymmetric padding is added to the images beforehand.
    const bool even = s.pad_top == s.pad_bottom && s.pad_left == s.pad_right;
    const std::int64_t height = even ? s.height : s.height + s.pad_top + s.pad_bottom;
    const std::int64_t width = even ? s.width : s.width + s.pad_left + s.pad_right;
    const auto i = [](std::int64_t n) { return static_cast<int>(n); };
    const auto describe = [&](const detail::cudnn_tensor& t, std::int64_t n, std::int64_t c, std::int64_t h,
                              std::int64_t w) {
      check_cudnn(cudnnSetTensor4dDescriptor(t, format, element, i(n), i(c), i(h), i(w)), name(),
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
    const std::int64_t k = s.filters, c = s.channels, r = s.window_height, q = s.window_width;
    const std::int64_t of_group = c / s.groups;  // the channels that a filter reads
    const std::int64_t pixel = first ? 1 : c;    // distance between adjacent pixels in a row
    strided(inner_, s.batch, c, s.height, s.width, height * width * c, first ? height * width : 1, width * pixel,
            pixel);
    const std::int64_t tap = first ? 1 : of_group;
    strided(filters_here_, k, of_group, r, q, 1, k, q * of_group * k, of_group * k);
    strided(filters_there_, k, of_group, r, q, r * q * of_group, first ? r * q : 1, q * tap, tap);
    check_cudnn(cudnnSetFilter4dDescriptor(filters_, element, format, i(k), i(of_group), i(r), i(q)), name(),
                "describe the filters");
    check_cudnn(cudnnSetConvolution2dDescriptor(convolution_, even ? i(s.pad_top) : 0, even ? i(s.pad_left) : 0,
                                                i(s.stride_height), i(s.stride_width), i(s.dilation_height),
                                                i(s.dilation_width), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                name(), "describe the convolution");
    if (s.groups != 1)
      check_cudnn(cudnnSetConvolutionGroupCount(convolution_, i(s.groups)), name(), "describe the groups");
    const bool narrow = type != dtype::float32;
    any_math_ = narrow || math.allow_tf32;
    set_math(narrow ? CUDNN_TENSOR_OP_MATH : any_math_ ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
    const std::size_t size = size_of(type);
    filter_room_ = rounded(s.filter_elements() * size);
    if (!even) image_room_ = rounded(static_cast<std::size_t>(s.batch * height * width * s.channels) * size);
    inner_offset_ = static_cast<std::size_t>((s.pad_top * width + s.pad_left) * pixel) * size;
  }

  /// Selects an offer; the number after the last one selects the kernel that does not use cuDNN.
  void use_offer(std::size_t number) {
    offer_ = number;
    can_fuse_ = false;
    if (number == offers_.size()) return;
    const offer& o = offers_[number];
    if (any_math_) set_math(o.arithmetic);
    if (!around_.takes_bias) return;
    // Without an activation, only one algorithm can fuse a bias. No algorithm propagates NaN through ReLU.
    const auto activation = around_.takes_relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY;
    detail::check_cudnn(cudnnSetActivationDescriptor(activation_, activation, CUDNN_NOT_PROPAGATE_NAN, 0), name(),
                        "describe the activation");
    can_fuse_ = around_.takes_relu || o.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  }

  static std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  void set_math(cudnnMathType_t how) {
    detail::check_cudnn(cudnnSetConvolutionMathType(convolution_, how), name(), "set the math type");
  }

  // ---- the algorithms ----

  struct offer {
    int algorithm;  ///< a cudnnConvolutionFwdAlgo_t, or the corresponding type for a gradient
    cudnnMathType_t arithmetic;
    std::size_t room;
    double seconds;  ///< not positive: unknown
    bool transforms;
  };

  /// Keeps the deterministic algorithms whose workspace is allowed, in the library's order of expected or measured
  /// times. Queries each workspace again, since an offer may be for another arithmetic than this convolution's.
  template <class Performance, class RoomOf>
  bool keep(cudnnStatus_t s, const std::vector<Performance>& offered, int number, std::size_t most, std::string& why,
            RoomOf&& room_of) {
    why = "cuDNN has no deterministic algorithm for it";
    if (s != CUDNN_STATUS_SUCCESS) return false;
    for (int n = 0; n < number; ++n) {
      const Performance& p = offered[static_cast<std::size_t>(n)];
      if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC) continue;
      if (type_ != dtype::float32 && detail::transforms(p.algo)) continue;
      if (any_math_) set_math(p.mathType);
      std::size_t room = 0;
      if (room_of(p.algo, &room) != CUDNN_STATUS_SUCCESS) continue;
      if (room <= most)
        offers_.push_back({static_cast<int>(p.algo), p.mathType, room, p.time / 1e3, detail::transforms(p.algo)});
      else
        why = "cuDNN needs more than " + std::to_string(most) + " bytes of workspace for it";
    }
    return !offers_.empty();
  }

  bool choose(std::size_t most, std::string& why) {
    const cudnn::use handle(library_);
    if (most > math.convolution_workspace_bytes) most = math.convolution_workspace_bytes;
    constexpr int number = 10;
    int found = 0;
    switch (kind_) {
      case convolution_kind::forward: {
        std::vector<cudnnConvolutionFwdAlgoPerf_t> offered(number);
        const auto ask = math.tune ? cudnnFindConvolutionForwardAlgorithm : cudnnGetConvolutionForwardAlgorithm_v7;
        const cudnnStatus_t s = ask(handle, images_, filters_, convolution_, results_, number, &found, offered.data());
        return keep(s, offered, found, most, why, [&](auto algorithm, std::size_t* room) {
          return cudnnGetConvolutionForwardWorkspaceSize(handle, images_, filters_, convolution_, results_, algorithm,
                                                         room);
        });
      }
      case convolution_kind::input_gradient: {
        std::vector<cudnnConvolutionBwdDataAlgoPerf_t> offered(number);
        const auto ask =
            math.tune ? cudnnFindConvolutionBackwardDataAlgorithm : cudnnGetConvolutionBackwardDataAlgorithm_v7;
        const cudnnStatus_t s = ask(handle, filters_, results_, convolution_, images_, number, &found, offered.data());
        return keep(s, offered, found, most, why, [&](auto algorithm, std::size_t* room) {
          return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, filters_, results_, convolution_, images_,
                                                              algorithm, room);
        });
      }
      default: {
        std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> offered(number);
        const auto ask =
            math.tune ? cudnnFindConvolutionBackwardFilterAlgorithm : cudnnGetConvolutionBackwardFilterAlgorithm_v7;
        const cudnnStatus_t s = ask(handle, images_, results_, convolution_, filters_, number, &found, offered.data());
        return keep(s, offered, found, most, why, [&](auto algorithm, std::size_t* room) {
          return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, images_, results_, convolution_, filters_,
                                                                algorithm, room);
        });
      }
    }
  }

  std::size_t room_for(const offer& o) const { return filter_room_ + image_room_ + o.room; }

  // ---- the calls ----

  /// Runs the current offer and all work that follows. Returns false if it is refused, before any launch with lasting
  /// effects.
  bool convolve(const kernel_context& f) {
    auto& q = static_cast<cuda_queue&>(*f.queue);
    const offer& o = offers_[offer_];
    std::byte* const room = workspace(q, room_for(o));
    if (!room) return false;
    const cudnn::use handle(library_, q);
    void* const filters = room;
    void* const padded = room + filter_room_;
    void* const work = o.room ? room + filter_room_ + image_room_ : nullptr;
    const std::byte *a = f.buffers[slots_.a], *b = f.buffers[slots_.b];
    std::byte* const out = f.buffers[slots_.out];
    switch (kind_) {
      case convolution_kind::forward: {
        const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(o.algorithm);
        const void* const images = image_room_ ? padded : a;
        if (!turn(handle, filters_here_, b, filters_there_, filters) || !pad(handle, q, a, padded)) return false;
        const std::byte* const bias = f.buffers[slots_.bias];
        if (can_fuse_ && done(cudnnConvolutionBiasActivationForward(
                             handle, one(), images_, images, filters_, filters, convolution_, algorithm, work, o.room,
                             zero(), results_, out, bias_, bias, activation_, results_, out)))
          return true;
        can_fuse_ = false;
        if (!done(cudnnConvolutionForward(handle, one(), images_, images, filters_, filters, convolution_, algorithm,
                                          work, o.room, zero(), results_, out)))
          return false;
        break;
      }
      case convolution_kind::input_gradient: {
        const auto algorithm = static_cast<cudnnConvolutionBwdDataAlgo_t>(o.algorithm);
        void* const images = image_room_ ? padded : out;
        if (!turn(handle, filters_here_, a, filters_there_, filters)) return false;
        if (!done(cudnnConvolutionBackwardData(handle, one(), filters_, filters, results_, b, convolution_, algorithm,
                                               work, o.room, zero(), images_, images)))
          return false;
        if (image_room_ && !turn(handle, inner_, inner_of(images), plain_images_, out)) return false;
        break;
      }
      case convolution_kind::filter_gradient: {
        const auto algorithm = static_cast<cudnnConvolutionBwdFilterAlgo_t>(o.algorithm);
        const void* const images = image_room_ ? padded : a;
        if (!pad(handle, q, a, padded)) return false;
        if (!done(cudnnConvolutionBackwardFilter(handle, one(), images_, images, results_, b, convolution_, algorithm,
                                                 work, o.room, zero(), filters_, filters)))
          return false;
        if (!turn(handle, filters_there_, filters, filters_here_, out)) return false;
        break;
      }
    }
    if (around_.then) around_.then->run(f);
    return true;
  }

  /// Returns null if memory is exhausted and another algorithm may need less.
  std::byte* workspace(queue& q, std::size_t bytes) const {
    try {
      return q.workspace(bytes);
    } catch (const error& e) {
      if (e.code() != error_code::resource_exhausted || offer_ + 1 == offers_.size()) throw;
      return nullptr;
    }
  }

  /// Returns true if the call was made. Returns false if cuDNN refused it before any launch, because it is not
  /// supported or needs more workspace than announced.
  bool done(cudnnStatus_t s) {
    // Since cuDNN 9, such codes are in 2000 to 3999 and specify the reason.
    const int code = static_cast<int>(s);
    const bool refused =
        s == CUDNN_STATUS_BAD_PARAM || s == CUDNN_STATUS_NOT_SUPPORTED || (code >= 2000 && code < 4000);
    if (refused)
      refusal_ = s;
    else
      detail::check_cudnn(s, name(), "convolve");
    return !refused;
  }

  const void* one() const { return &one_; }
  const void* zero() const { return &zero_; }

  bool turn(cudnnHandle_t handle, cudnnTensorDescriptor_t from_layout, const void* from,
            cudnnTensorDescriptor_t to_layout, void* to) {
    return done(cudnnTransformTensor(handle, one(), from_layout, from, zero(), to_layout, to));
  }

  std::byte* inner_of(void* padded) const { return static_cast<std::byte*>(padded) + inner_offset_; }

  /// Adds asymmetric padding to the images if required.
  bool pad(cudnnHandle_t handle, cuda_queue& q, const void* images, void* padded) {
    if (!image_room_) return true;
    q.clear(padded, image_room_);
    return turn(handle, plain_images_, images, inner_, inner_of(padded));
  }

  const char* name() const {
    constexpr const char* names[] = {"conv2d", "conv2d_input_gradient", "conv2d_filter_gradient"};
    return names[static_cast<int>(kind_)];
  }

  cudnn& library_;
  convolution_kind kind_;
  convolution_shape shape_;
  dtype type_;
  image_layout layout_;
  bool any_math_ = false, can_fuse_ = false;  // any_math_: each offer has its own kind of arithmetic; can_fuse_: see
                                              // use_offer
  slots slots_{};
  surroundings around_;
  std::vector<offer> offers_;                     // fastest first
  std::size_t offer_ = 0;                         // the current offer
  cudnnStatus_t refusal_ = CUDNN_STATUS_SUCCESS;  // the last refusal
  // `filters_here_` has Weft's order, `filters_there_` cuDNN's; `inner_` is the images within their padding.
  detail::cudnn_tensor images_, plain_images_, results_, bias_, inner_, filters_here_, filters_there_;
  detail::cudnn_filter filters_;
  detail::cudnn_convolution_descriptor convolution_;
  detail::cudnn_activation activation_;
  std::size_t filter_room_ = 0, image_room_ = 0, inner_offset_ = 0;
  float one_ = 1, zero_ = 0;
};

}  // namespace weft::gpu

#pragma pop_macro("slots")

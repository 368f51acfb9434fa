// SPDX-License-Identifier: BSL-1.0
#include "cudnn.hpp"

#include <array>

#include "element.hpp"

using standin::byte_access;
using standin::part;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

/// Four extents, each with its stride in elements: n, c, h, w; of filters k, c, r, s.
struct strided {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::array<std::int64_t, 4> extents{}, strides{};

  void pack(cudnnTensorFormat_t format, std::array<std::int64_t, 4> e) {
    extents = e;
    if (format == CUDNN_TENSOR_NCHW)
      strides = {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1};
    else
      strides = {e[1] * e[2] * e[3], 1, e[3] * e[1], e[1]};
  }
  std::size_t size() const { return type == CUDNN_DATA_FLOAT ? 4 : 2; }
  std::int64_t at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(at(extents[0] - 1, extents[1] - 1, extents[2] - 1, extents[3] - 1) + 1) * size();
  }
  weft::dtype element() const {
    return type == CUDNN_DATA_HALF       ? weft::dtype::float16
           : type == CUDNN_DATA_BFLOAT16 ? weft::dtype::bfloat16
                                         : weft::dtype::float32;
  }
  double read(const void* data, std::int64_t i) const { return standin::read(element(), data, i); }
  void write(void* data, std::int64_t i, double x) const { standin::write(element(), data, i, x); }
};

struct cudnnTensorStruct : strided {};
struct cudnnFilterStruct : strided {
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
};
struct cudnnConvolutionStruct {
  int pad[2], stride[2], dilation[2];
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::int64_t groups = 1;
};
struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
};

namespace {

standin::cudnn_library* library = nullptr;

bool channels_last(const strided& images) { return images.strides[1] == 1; }
bool is_packed(const strided& t) {
  strided first = t, last = t;
  first.pack(CUDNN_TENSOR_NCHW, t.extents);
  last.pack(CUDNN_TENSOR_NHWC, t.extents);
  const auto same = [&](const strided& o) {
    for (int i = 0; i < 4; ++i)
      if (t.extents[i] != 1 && t.strides[i] != o.strides[i]) return false;
    return true;
  };
  return same(first) || same(last);
}

cudnnStatus_t bad(const std::string& what) {
  library->mistakes.push_back(what);
  return CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t scaled(const void* alpha, const void* beta) {
  return *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0
             ? CUDNN_STATUS_SUCCESS
             : bad("factors are not 1 and 0");
}

/// Whether operands fit together.
cudnnStatus_t check(const strided& x, const cudnnFilterStruct& w, const cudnnConvolutionStruct& c, const strided& y) {
  if (x.type != w.type || x.type != y.type) return bad("types differ");
  if (!is_packed(x) || !is_packed(y)) return bad("images are not packed");
  if (x.extents[1] != w.extents[1] * c.groups || w.extents[0] % c.groups != 0 || y.extents[1] != w.extents[0] ||
      x.extents[0] != y.extents[0])
    return bad("extents differ");
  for (int i = 0; i < 2; ++i) {
    const std::int64_t reach = (w.extents[2 + i] - 1) * c.dilation[i] + 1;
    if (y.extents[2 + i] != (x.extents[2 + i] + 2 * c.pad[i] - reach) / c.stride[i] + 1) return bad("results' extents");
  }
  const bool last = w.format == CUDNN_TENSOR_NHWC;
  if ((x.extents[1] > 1 && x.extents[2] * x.extents[3] > 1 && channels_last(x) != last) ||
      (y.extents[1] > 1 && y.extents[2] * y.extents[3] > 1 && channels_last(y) != last))
    return bad("images and filters are in different layouts");
  if (x.type != CUDNN_DATA_FLOAT && c.math != CUDNN_TENSOR_OP_MATH) return CUDNN_STATUS_NOT_SUPPORTED;
  return CUDNN_STATUS_SUCCESS;
}

// ---- algorithms: three of them, of which the first is not deterministic ----

constexpr int offered[] = {0, 1, 2};
std::size_t room_of(int algorithm) { return algorithm == 1 ? 0 : 1000u * static_cast<unsigned>(algorithm + 1); }

template <class Performance, class Algorithm>
cudnnStatus_t offer(cudnnStatus_t fits, const strided& x, bool timed, const cudnnConvolutionStruct& c, int requested,
                    int* returned, Performance* to) {
  *returned = 0;
  if (fits != CUDNN_STATUS_SUCCESS && fits != CUDNN_STATUS_NOT_SUPPORTED) return fits;
  for (const int a : offered) {
    if (*returned == requested) break;
    Performance& p = to[(*returned)++];
    p = {};
    p.algo = static_cast<Algorithm>(a);
    p.status = fits;
    p.time = !timed ? -1 : channels_last(x) ? library->channels_last_time : library->channels_first_time;
    p.memory = room_of(a);
    p.determinism = a == 0 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
    p.mathType = c.math;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t give(cudnnHandle_t h, std::vector<byte_access> accesses, std::function<void()> run) {
  return standin::give_call(h->stream, std::move(accesses), std::move(run)) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

/// Calls back with image, filter and result elements that belong together.
template <class F>
void for_each_product(const strided& x, const strided& w, const cudnnConvolutionStruct& c, const strided& y, F&& f) {
  for (std::int64_t n = 0; n < y.extents[0]; ++n)
    for (std::int64_t k = 0; k < y.extents[1]; ++k)
      for (std::int64_t p = 0; p < y.extents[2]; ++p)
        for (std::int64_t q = 0; q < y.extents[3]; ++q)
          for (std::int64_t r = 0; r < w.extents[2]; ++r)
            for (std::int64_t s = 0; s < w.extents[3]; ++s) {
              const std::int64_t row = p * c.stride[0] - c.pad[0] + r * c.dilation[0];
              const std::int64_t column = q * c.stride[1] - c.pad[1] + s * c.dilation[1];
              if (row < 0 || row >= x.extents[2] || column < 0 || column >= x.extents[3]) continue;
              const std::int64_t first = k / (w.extents[0] / c.groups) * w.extents[1];  // channel of the group
              for (std::int64_t ch = 0; ch < w.extents[1]; ++ch)
                f(x.at(n, first + ch, row, column), w.at(k, ch, r, s), y.at(n, k, p, q));
            }
}

struct after {
  const strided* bias_layout = nullptr;
  const void* bias = nullptr;
  bool relu = false;
};

/// One of the three, whose result is written to one of the operands.
enum class result_of { forward, images, filters };

cudnnStatus_t convolve(cudnnHandle_t h, result_of kind, const cudnnTensorStruct& x, void* x_data,
                       const cudnnFilterStruct& w, void* w_data, const cudnnConvolutionStruct& c, int algorithm,
                       void* room, std::size_t room_bytes, const cudnnTensorStruct& y, void* y_data, after then = {}) {
  if (const cudnnStatus_t s = check(x, w, c, y); s != CUDNN_STATUS_SUCCESS) return s;
  if (room_bytes < room_of(algorithm)) return bad("too little workspace");
  if (library->refused.count(algorithm)) return CUDNN_STATUS_NOT_SUPPORTED;
  library->convolved.push_back(std::to_string(algorithm) + (w.format == CUDNN_TENSOR_NHWC ? " NHWC" : " NCHW"));
  std::vector<byte_access> all = {part(x_data, x.bytes(), kind == result_of::images),
                                  part(w_data, w.bytes(), kind == result_of::filters),
                                  part(y_data, y.bytes(), kind == result_of::forward)};
  if (room_of(algorithm)) all.push_back(part(room, room_of(algorithm), true));
  if (then.bias) all.push_back(part(then.bias, then.bias_layout->bytes(), false));
  const strided bias = then.bias_layout ? *then.bias_layout : strided();
  return give(h, all, [=] {
    const strided& to = kind == result_of::forward  ? static_cast<const strided&>(y)
                        : kind == result_of::images ? static_cast<const strided&>(x)
                                                    : static_cast<const strided&>(w);
    void* const out = kind == result_of::forward ? y_data : kind == result_of::images ? x_data : w_data;
    std::vector<double> sums(to.bytes() / to.size(), 0);
    for_each_product(x, w, c, y, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
      if (kind == result_of::forward)
        sums[static_cast<std::size_t>(k)] += x.read(x_data, i) * w.read(w_data, j);
      else if (kind == result_of::images)
        sums[static_cast<std::size_t>(i)] += y.read(y_data, k) * w.read(w_data, j);
      else
        sums[static_cast<std::size_t>(j)] += x.read(x_data, i) * y.read(y_data, k);
    });
    const auto& e = to.extents;
    for (std::int64_t a = 0; a < e[0]; ++a)
      for (std::int64_t b = 0; b < e[1]; ++b)
        for (std::int64_t d = 0; d < e[2]; ++d)
          for (std::int64_t f = 0; f < e[3]; ++f) {
            const std::int64_t at = to.at(a, b, d, f);
            double value = sums[static_cast<std::size_t>(at)];
            if (then.bias) value += bias.read(then.bias, bias.at(0, b, 0, 0));
            to.write(out, at, then.relu && value < 0 ? 0 : value);
          }
  });
}

template <class T>
cudnnStatus_t make(T** to) {
  *to = new T();
  return ++library->descriptors, CUDNN_STATUS_SUCCESS;
}
template <class T>
cudnnStatus_t drop(T* it) {
  delete it;
  return --library->descriptors, CUDNN_STATUS_SUCCESS;
}

}  // namespace

namespace standin {

cudnn_library::cudnn_library() { library = this; }
cudnn_library::~cudnn_library() { library = nullptr; }

}  // namespace standin

extern "C" {

const char* cudnnGetErrorString(cudnnStatus_t) { return "what the stand-in says"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* h) {
  *h = new cudnnContext();
  return ++library->handles, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t h) {
  delete h;
  if (library) --library->handles;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s) { return h->stream = s, CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* d) { return make(d); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) { return drop(d); }
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* d) { return make(d); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) { return drop(d); }
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* d) { return make(d); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) { return drop(d); }
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* d) { return make(d); }
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t d) { return drop(d); }

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w) {
  d->type = type;
  return d->pack(format, {n, c, h, w}), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n, int c, int h, int w,
                                           int ns, int cs, int hs, int ws) {
  d->type = type;
  d->extents = {n, c, h, w};
  return d->strides = {ns, cs, hs, ws}, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w) {
  d->type = type;
  d->format = format;
  return d->pack(format, {k, c, h, w}), CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int u, int v,
                                              int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type) {
  if (mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT) return bad("another kind of convolution");
  *d = {{pad_h, pad_w}, {u, v}, {dilation_h, dilation_w}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  return d->math = math, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  return d->groups = groups, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t, double) {
  return d->mode = mode, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnTransformTensor(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t from, const void* x,
                                   const void* beta, cudnnTensorDescriptor_t to, void* y) {
  if (from->extents != to->extents || from->type != to->type) return bad("a transform between different tensors");
  if (const cudnnStatus_t s = scaled(alpha, beta); s != CUDNN_STATUS_SUCCESS) return s;
  const strided a = *from, b = *to;
  return give(h, {part(x, a.bytes(), false), part(y, b.bytes(), true)}, [=] {
    const auto& e = a.extents;
    for (std::int64_t i = 0; i < e[0]; ++i)
      for (std::int64_t j = 0; j < e[1]; ++j)
        for (std::int64_t k = 0; k < e[2]; ++k)
          for (std::int64_t l = 0; l < e[3]; ++l) b.write(y, b.at(i, j, k, l), a.read(x, a.at(i, j, k, l)));
  });
}

// Each of the three kinds: what is offered, measured or not; the room that it needs; the call.

#define STANDIN_ALGORITHMS(get, find, size, Performance, Algorithm, A, a, B, b, D, d, x, w, y)                   \
  cudnnStatus_t get(cudnnHandle_t, A a, B b, cudnnConvolutionDescriptor_t c, D d, int requested, int* returned,  \
                    Performance* to) {                                                                           \
    return offer<Performance, Algorithm>(check(*x, *w, *c, *y), *x, false, *c, requested, returned, to);         \
  }                                                                                                              \
  cudnnStatus_t find(cudnnHandle_t, A a, B b, cudnnConvolutionDescriptor_t c, D d, int requested, int* returned, \
                     Performance* to) {                                                                          \
    return offer<Performance, Algorithm>(check(*x, *w, *c, *y), *x, true, *c, requested, returned, to);          \
  }                                                                                                              \
  cudnnStatus_t size(cudnnHandle_t, A a, B b, cudnnConvolutionDescriptor_t c, D d, Algorithm algorithm,          \
                     std::size_t* bytes) {                                                                       \
    *bytes = room_of(algorithm);                                                                                 \
    return check(*x, *w, *c, *y);                                                                                \
  }

using tensor_t = cudnnTensorDescriptor_t;
using filter_t = cudnnFilterDescriptor_t;
STANDIN_ALGORITHMS(cudnnGetConvolutionForwardAlgorithm_v7, cudnnFindConvolutionForwardAlgorithm,
                   cudnnGetConvolutionForwardWorkspaceSize, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t,
                   tensor_t, x, filter_t, w, tensor_t, y, x, w, y)
STANDIN_ALGORITHMS(cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnFindConvolutionBackwardDataAlgorithm,
                   cudnnGetConvolutionBackwardDataWorkspaceSize, cudnnConvolutionBwdDataAlgoPerf_t,
                   cudnnConvolutionBwdDataAlgo_t, filter_t, w, tensor_t, y, tensor_t, x, x, w, y)
STANDIN_ALGORITHMS(cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnFindConvolutionBackwardFilterAlgorithm,
                   cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnConvolutionBwdFilterAlgoPerf_t,
                   cudnnConvolutionBwdFilterAlgo_t, tensor_t, x, tensor_t, y, filter_t, w, x, w, y)

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t x, const void* xs,
                                      cudnnFilterDescriptor_t w, const void* ws, cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* room, std::size_t bytes,
                                      const void* beta, cudnnTensorDescriptor_t y, void* ys) {
  if (const cudnnStatus_t s = scaled(alpha, beta); s != CUDNN_STATUS_SUCCESS) return s;
  return convolve(h, result_of::forward, *x, const_cast<void*>(xs), *w, const_cast<void*>(ws), *c, algorithm, room,
                  bytes, *y, ys);
}
cudnnStatus_t cudnnConvolutionBiasActivationForward(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t x,
                                                    const void* xs, cudnnFilterDescriptor_t w, const void* ws,
                                                    cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t algorithm,
                                                    void* room, std::size_t bytes, const void* beta,
                                                    cudnnTensorDescriptor_t, const void*, cudnnTensorDescriptor_t b,
                                                    const void* bias, cudnnActivationDescriptor_t a,
                                                    cudnnTensorDescriptor_t y, void* ys) {
  if (const cudnnStatus_t s = scaled(alpha, beta); s != CUDNN_STATUS_SUCCESS) return s;
  // As cuDNN says of itself, it takes this algorithm alone without an activation.
  const bool relu = a->mode == CUDNN_ACTIVATION_RELU;
  if (!relu && algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) return CUDNN_STATUS_NOT_SUPPORTED;
  if (library->refuses_bias) return CUDNN_STATUS_NOT_SUPPORTED;
  if (b->extents != std::array<std::int64_t, 4>{1, y->extents[1], 1, 1}) return bad("a bias of other extents");
  return convolve(h, result_of::forward, *x, const_cast<void*>(xs), *w, const_cast<void*>(ws), *c, algorithm, room,
                  bytes, *y, ys, {b, bias, relu});
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t h, const void* alpha, cudnnFilterDescriptor_t w,
                                           const void* ws, cudnnTensorDescriptor_t y, const void* ys,
                                           cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void* room, std::size_t bytes, const void* beta, cudnnTensorDescriptor_t x,
                                           void* xs) {
  if (const cudnnStatus_t s = scaled(alpha, beta); s != CUDNN_STATUS_SUCCESS) return s;
  return convolve(h, result_of::images, *x, xs, *w, const_cast<void*>(ws), *c, algorithm, room, bytes, *y,
                  const_cast<void*>(ys));
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t x,
                                             const void* xs, cudnnTensorDescriptor_t y, const void* ys,
                                             cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* room, std::size_t bytes, const void* beta, cudnnFilterDescriptor_t w,
                                             void* ws) {
  if (const cudnnStatus_t s = scaled(alpha, beta); s != CUDNN_STATUS_SUCCESS) return s;
  return convolve(h, result_of::filters, *x, const_cast<void*>(xs), *w, ws, *c, algorithm, room, bytes, *y,
                  const_cast<void*>(ys));
}

}  // extern "C"

#pragma once

#include <dnnl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/convolution_kernel.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/dnnl_kernel.hpp>
#include <weft/device/cpu/matmul_dnnl.hpp>
#include <weft/tensor/dtype.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Filters of a convolution, as oneDNN counts them.
inline dnnl_description filters_of(const convolution_shape& s, dnnl_format_tag_t tag, dnnl_data_type_t type) {
  return {{s.filters, s.channels, s.window_height, s.window_width}, tag, type};
}

/// Describes a convolution of some images of the batch, all of one element type but for the gradient of filters;
/// `filters` is a layout found before, or that of any.
inline dnnl_primitive_desc_t describe(convolution_kind kind, const convolution_shape& s, std::int64_t images,
                                      dnnl_data_type_t type, dnnl_layout filters, dnnl_primitive_attr_t attributes) {
  const dnnl_description in({images, s.channels, s.height, s.width}, dnnl_nhwc, type);
  const dnnl_description out({images, s.filters, s.out_height, s.out_width}, dnnl_nhwc, type);
  const dnnl_description any = filters_of(s, dnnl_format_tag_any, type);
  const dnnl_dims_t strides = {s.stride_height, s.stride_width};
  const dnnl_dims_t dilations = {s.dilation_height - 1, s.dilation_width - 1};
  const dnnl_dims_t before = {s.pad_top, s.pad_left}, after = {s.pad_bottom, s.pad_right};
  if (!in.good() || !out.good() || !any.good()) return nullptr;
  const dnnl_layout of_forward = kind == convolution_kind::forward ? filters : any.get();
  const dnnl_engine_t engine = dnnl_processor();
  const dnnl_alg_kind_t how = dnnl_convolution_direct;
  dnnl_primitive_desc_t forward = nullptr, result = nullptr;
#if DNNL_VERSION_MAJOR >= 3
  if (dnnl_convolution_forward_primitive_desc_create(&forward, engine, dnnl_forward_training, how, in.get(), of_forward,
                                                     nullptr, out.get(), strides, dilations, before, after,
                                                     attributes) != dnnl_success)
    return nullptr;
  if (kind == convolution_kind::forward) return forward;
  const dnnl_status_t status =
      kind == convolution_kind::input_gradient
          ? dnnl_convolution_backward_data_primitive_desc_create(&result, engine, how, in.get(), filters, out.get(),
                                                                 strides, dilations, before, after, forward, attributes)
          : dnnl_convolution_backward_weights_primitive_desc_create(&result, engine, how, in.get(), filters, nullptr,
                                                                    out.get(), strides, dilations, before, after,
                                                                    forward, attributes);
#else
  dnnl_convolution_desc_t c;
  if (dnnl_dilated_convolution_forward_desc_init(&c, dnnl_forward_training, how, in.get(), of_forward, nullptr,
                                                 out.get(), strides, dilations, before, after) != dnnl_success ||
      dnnl_primitive_desc_create(&forward, &c, attributes, engine, nullptr) != dnnl_success)
    return nullptr;
  if (kind == convolution_kind::forward) return forward;
  dnnl_status_t status = kind == convolution_kind::input_gradient
                             ? dnnl_dilated_convolution_backward_data_desc_init(&c, how, in.get(), filters, out.get(),
                                                                                strides, dilations, before, after)
                             : dnnl_dilated_convolution_backward_weights_desc_init(
                                   &c, how, in.get(), filters, nullptr, out.get(), strides, dilations, before, after);
  if (status == dnnl_success) status = dnnl_primitive_desc_create(&result, &c, attributes, engine, forward);
#endif
  dnnl_primitive_desc_destroy(forward);
  return status == dnnl_success ? result : nullptr;
}

inline dnnl_primitive_desc_t describe_reorder(dnnl_layout from, dnnl_layout to) {
  dnnl_primitive_desc_t result = nullptr;
  const dnnl_engine_t engine = dnnl_processor();
  return dnnl_reorder_primitive_desc_create(&result, from, engine, to, engine, nullptr) == dnnl_success ? result
                                                                                                        : nullptr;
}

}  // namespace weft::detail

namespace weft::device {

/// A convolution, or one of its gradients, by oneDNN: images stay in their plain layout, filters are brought into
/// oneDNN's once a run. The batch is cut among Weft's threads, each of which calls oneDNN for its part alone; the
/// gradients of the filters, one for each part, are then summed in order. How the batch is cut depends on the shape
/// alone.
///
/// The kernel sums bfloat16 in float, the gradients of filters over the parts too, and rounds once; the epilogue reads
/// the rounded values. Subnormal numbers are taken for zeros.
class dnnl_convolution_kernel final : public dnnl_kernel {
 public:
  using kind = convolution_kind;

  /// Makes the kernel for float or bfloat16. Null where oneDNN has no fast code, or the batch is so small that Weft's
  /// own kernels cut it better. Slots of what is read (images or filters, then filters or what arrives at the result)
  /// and of what is written; takes over the epilogue unless it returns null.
  static kernel* make(kind k, dtype type, const convolution_shape& s, std::uint32_t a, std::uint32_t b,
                      std::uint32_t out, epilogue_kernel* epilogue) {
    if (s.batch < 4 || writes_beyond_scratch(s) ||
        (type == dtype::bfloat16 && !weft::detail::dnnl_multiplies_bfloat16()))
      return nullptr;
    return prepared(new dnnl_convolution_kernel(k, type, s, a, b, out), epilogue);
  }
  ~dnnl_convolution_kernel() override {
    for (part& p : parts_) dnnl_stream_destroy(p.stream);
    if (stream_) dnnl_stream_destroy(stream_);
  }

  void run(const kernel_context& f) override {
    const weft::detail::one_openmp_thread guard;
    if (kind_ != kind::filter_gradient)
      reorder(plain_filters_.at(f.buffers[kind_ == kind::forward ? b_ : a_]), blocked_filters_.get());
    f.threads->parallel_for(parts_.size(), [&](std::size_t i) { run_part(f, i); });
    if (kind_ != kind::filter_gradient) return;
    float* const sum = reinterpret_cast<float*>(blocked_.data());
    const std::size_t elements = filter_bytes_ / sizeof(float);
    for (std::size_t i = 1; i < parts_.size(); ++i)
      add(sum, reinterpret_cast<const float*>(blocked_.data() + i * filter_lines_), elements);
    reorder(blocked_filters_.get(), plain_filters_.at(f.buffers[out_]));
  }

  std::size_t memory_bytes() const override { return dnnl_kernel::memory_bytes() + blocked_.memory_bytes(); }
  std::string describe() const override {
    std::string text =
        detail::describe_convolution(kind_ == kind::forward          ? "convolution"
                                     : kind_ == kind::input_gradient ? "convolution, gradient of images"
                                                                     : "convolution, gradient of filters",
                                     shape_);
    append(text, {", oneDNN ", larger_.name()});
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  struct part {
    std::int64_t begin, end;
    bool large;
    dnnl_stream_t stream;
    weft::detail::dnnl_buffer images, filters, result, scratch;
  };

  dnnl_convolution_kernel(kind k, dtype type, const convolution_shape& s, std::uint32_t a, std::uint32_t b,
                          std::uint32_t out)
      : kind_(k), type_(type), shape_(s), a_(a), b_(b), out_(out) {}

  bool prepare() override {
    const weft::detail::one_openmp_thread guard;  // primitives remember for how many threads they were made
    const bool gather = kind_ == kind::filter_gradient;
    const dnnl_data_type_t type = type_ == dtype::bfloat16 ? dnnl_bf16 : dnnl_f32;
    const weft::detail::dnnl_description any =
        weft::detail::filters_of(shape_, dnnl_format_tag_any, gather ? dnnl_f32 : type);
    const weft::detail::dnnl_description plain = weft::detail::filters_of(shape_, dnnl_hwio, type);
    if (!any.good() || !plain.good() || !make_attributes()) return false;

    // Parts of the batch, of two sizes that differ by one.
    std::size_t count = detail::between(1, detail::multiply_adds(shape_) / detail::convolution_chunk,
                                        static_cast<std::size_t>(shape_.batch));
    std::size_t most = 16;
    if (gather) most = detail::between(2, (std::size_t{1} << 21) / shape_.filter_elements(), 8);
    count = count > most ? most : count;
    const std::int64_t small = shape_.batch / static_cast<std::int64_t>(count);
    const bool two = shape_.batch % static_cast<std::int64_t>(count) != 0;
    const dnnl_query_t filters = gather ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    dnnl_primitive_desc_t d = weft::detail::describe(kind_, shape_, small + two, type, any.get(), attributes_);
    if (!d || !larger_.make(d) || !is_fast(larger_.name())) return false;
    const weft::detail::dnnl_layout blocked = larger_.layout(filters);
    if (two) {
      d = weft::detail::describe(kind_, shape_, small, type, blocked, attributes_);
      if (!d || !smaller_.make(d) || !is_fast(smaller_.name())) return false;
    }
    d = weft::detail::describe_reorder(gather ? blocked : plain.get(), gather ? plain.get() : blocked);
    if (!d || !reorder_.make(d)) return false;

    filter_bytes_ = weft::detail::bytes_of(blocked);
    filter_lines_ = (filter_bytes_ + 63) / 64;
    blocked_.resize(filter_lines_ * (gather ? count : 1));
    reserve_scratch(count, larger_, two ? &smaller_ : nullptr);
    if (!plain_filters_.make(plain.get(), nullptr) || !blocked_filters_.make(blocked, blocked_.data()) ||
        !weft::detail::make_stream(stream_))
      return false;

    const bool forward = kind_ == kind::forward;
    for (std::size_t i = 0; i < count; ++i) {
      const auto n = static_cast<std::int64_t>(i), all = static_cast<std::int64_t>(count);
      part p{shape_.batch * n / all, shape_.batch * (n + 1) / all, false, nullptr, {}, {}, {}, {}};
      p.large = !two || p.end - p.begin > small;
      const weft::detail::dnnl_code& code = p.large ? larger_ : smaller_;
      const dnnl_query_t image = kind_ == kind::input_gradient ? dnnl_query_diff_src_md : dnnl_query_src_md;
      const dnnl_query_t result = forward ? dnnl_query_dst_md : dnnl_query_diff_dst_md;
      if (!p.images.make(code.layout(image), nullptr) || !p.result.make(code.layout(result), nullptr) ||
          !p.filters.make(code.layout(filters), blocked_.data() + (gather ? i * filter_lines_ : 0)) ||
          !p.scratch.make(code.layout(dnnl_query_scratchpad_md), scratch_of(i)) || !weft::detail::make_stream(p.stream))
        return false;
      parts_.push_back(static_cast<part&&>(p));
    }
    return true;
  }

  // oneDNN 2.6 gathers the pixels of strided 1 x 1 windows in scratch memory, and its code for AVX2 writes beyond what
  // it has asked for unless the channels fill its vectors.
  static bool writes_beyond_scratch(const convolution_shape& s) {
    constexpr std::int64_t widest_vector = 16;
    return s.window_height == 1 && s.window_width == 1 && (s.stride_height > 1 || s.stride_width > 1) &&
           s.channels % widest_vector != 0;
  }

  // By name: oneDNN falls back to code that is hundreds of times slower without a word.
  static bool is_fast(const char* name) { return !std::strstr(name, "ref") && !std::strstr(name, "gemm:"); }

  void run_part(const kernel_context& f, std::size_t i) {
    const weft::detail::one_openmp_thread guard;
    part& p = parts_[i];
    const auto images = static_cast<std::size_t>(p.begin) * shape_.image_elements();
    const auto results = static_cast<std::size_t>(p.begin) * shape_.out_elements();
    const auto at = [&](std::uint32_t slot, std::size_t first) { return f.buffers[slot] + first * size_of(type_); };
    dnnl_exec_arg_t arguments[4] = {{}, {}, {}, {DNNL_ARG_SCRATCHPAD, p.scratch.get()}};
    if (kind_ == kind::forward) {
      arguments[0] = {DNNL_ARG_SRC, p.images.at(at(a_, images))};
      arguments[1] = {DNNL_ARG_WEIGHTS, p.filters.get()};
      arguments[2] = {DNNL_ARG_DST, p.result.at(at(out_, results))};
    } else if (kind_ == kind::input_gradient) {
      arguments[0] = {DNNL_ARG_DIFF_SRC, p.images.at(at(out_, images))};
      arguments[1] = {DNNL_ARG_WEIGHTS, p.filters.get()};
      arguments[2] = {DNNL_ARG_DIFF_DST, p.result.at(at(b_, results))};
    } else {
      arguments[0] = {DNNL_ARG_SRC, p.images.at(at(a_, images))};
      arguments[1] = {DNNL_ARG_DIFF_WEIGHTS, p.filters.get()};
      arguments[2] = {DNNL_ARG_DIFF_DST, p.result.at(at(b_, results))};
    }
    execute("conv2d", (p.large ? larger_ : smaller_).get(), p.stream, 4, arguments);
    if (epilogue_)
      epilogue_->run_part(f, static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end),
                          static_cast<std::size_t>(shape_.batch));
  }

  void reorder(dnnl_memory_t from, dnnl_memory_t to) {
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    execute("conv2d", reorder_.get(), stream_, 2, arguments);
  }

  static void add(float* to, const float* from, std::size_t n) {
    multiversioned_up_to_avx2([=] {
      WEFT_VECTORIZE
      for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
    });
  }

  kind kind_;
  dtype type_;
  convolution_shape shape_;
  std::uint32_t a_, b_, out_;
  weft::detail::dnnl_code larger_, smaller_, reorder_;
  weft::detail::dnnl_buffer plain_filters_, blocked_filters_;
  std::size_t filter_bytes_ = 0, filter_lines_ = 0;
  sequence<line> blocked_;
  sequence<part> parts_;
  dnnl_stream_t stream_ = nullptr;
};

}  // namespace weft::device

WEFT_COLD_END

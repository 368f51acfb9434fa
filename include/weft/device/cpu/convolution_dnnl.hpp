// SPDX-License-Identifier: BSL-1.0
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
#include <weft/tensor/storage.hpp>

namespace weft::detail {

// Outside of the cold code, in which loops are not vectorized.
inline void add_floats(float* to, const float* from, std::size_t n) {
  multiversioned_up_to_avx2([=] {
    WEFT_VECTORIZE
    for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
  });
}

}  // namespace weft::detail

WEFT_COLD_BEGIN
namespace weft::detail {

/// Returns a description of the filters of a convolution, in oneDNN's order.
inline dnnl_description filters_of(const convolution_shape& s, dnnl_format_tag_t tag, dnnl_data_type_t type) {
  return {{s.filters, s.channels, s.window_height, s.window_width}, tag, type};
}

/// Describes a convolution of some images of the batch, all of one element type except for filter gradients. `filters`
/// is a known layout, or any.
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

/// A convolution, or one of its gradients, by oneDNN. Images keep their plain layout. Filters are converted to oneDNN's
/// layout when their version changes or, if they have no version, in every run. Converted filters with a version are
/// kept between runs; others, and filter gradients, are in the workspace. Weft's threads share the batch; each calls
/// oneDNN for its part. Filter gradients are computed for each part and then summed in order. If the batch has fewer
/// than four images, each is cut into bands of rows, which are images with less padding. The epilogue follows each part
/// while the result is in the caches. The division depends only on the shape.
///
/// The kernel sums bfloat16 in float, including filter gradients over the parts, and rounds once; the epilogue reads
/// the rounded values. Treats subnormal numbers as zeros.
class dnnl_convolution_kernel final : public dnnl_kernel {
 public:
  using kind = convolution_kind;

  /// Creates the kernel for float or bfloat16. Returns null if oneDNN has no fast code, or if the work is so small that
  /// Weft's own kernels divide it better. Takes the slots of its operands (images or filters, then filters or upstream
  /// gradient) and of its result. Takes ownership of the epilogue unless it returns null.
  static kernel* make(kind k, dtype type, const convolution_shape& s, std::uint32_t a, std::uint32_t b,
                      std::uint32_t out, epilogue_kernel* epilogue, const content_version* filters) {
    if (type == dtype::bfloat16 && !weft::detail::dnnl_multiplies_bfloat16()) return nullptr;
    if ((writes_beyond_scratch(s) && !skips_pixels(k, s)) || (s.batch < 4 && bands_of(k, s) == 0)) return nullptr;
    auto* const made = new dnnl_convolution_kernel(k, type, s, a, b, out, filters);
    if (!prepared(made, epilogue)) return nullptr;
    made->by_parts_ = epilogue && epilogue->has_rows(made->rows_);
    return made;
  }
  ~dnnl_convolution_kernel() override {
    for (part& p : parts_)
      if (p.stream) dnnl_stream_destroy(p.stream);
    for (reordering& r : reordering_)
      if (r.stream) dnnl_stream_destroy(r.stream);
  }

  void run(const kernel_context& f) override {
    const weft::detail::one_openmp_thread guard;
    if (kind_ != kind::filter_gradient) pack_filters(f, f.buffers[kind_ == kind::forward ? b_ : a_]);
    f.threads->parallel_for(parts_.size(), [&](std::size_t i) { run_part(f, i); });
    if (kind_ == kind::filter_gradient) {
      sum_parts(f);
      reorder(f, f.buffers[out_]);
    }
    if (epilogue_ && !by_parts_) epilogue_->run(f);
  }

  std::size_t memory_bytes() const override { return dnnl_kernel::memory_bytes() + blocked_.memory_bytes(); }
  std::string describe() const override {
    std::string text =
        detail::describe_convolution(kind_ == kind::forward          ? "convolution"
                                     : kind_ == kind::input_gradient ? "convolution, gradient of images"
                                                                     : "convolution, gradient of filters",
                                     shape_);
    append(text, {", oneDNN ", codes_[0].name()});
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  struct part {
    std::int64_t begin, end;          ///< rows of the result, see rows_
    std::size_t first_in, first_out;  ///< elements of images, and of results
    std::int64_t calls, call_rows;    ///< calls of oneDNN, and the rows of the result for each; see gather()
    const weft::detail::dnnl_code* code;
    dnnl_stream_t stream;
    weft::detail::dnnl_buffer images, filters, result, scratch;
  };
  /// A block of filters, in both layouts.
  struct reordering {
    weft::detail::dnnl_code code;
    weft::detail::dnnl_buffer plain, blocked;
    dnnl_stream_t stream = nullptr;
  };
  static constexpr std::int64_t max_bands = 4;
  static constexpr std::size_t max_reorderings = 4;

  /// Returns the number of row bands for each image of a small batch, or 0 if Weft's own kernels are as fast.
  static std::int64_t bands_of(kind k, const convolution_shape& s) {
    if (k != kind::forward || s.batch == 0) return 0;
    const std::size_t work = detail::multiply_adds(s) / static_cast<std::size_t>(s.batch);
    // Images with few pixels have many filters, all of which each band reads.
    const std::int64_t most = s.out_height * s.out_width < 400 ? 2 : max_bands;
    return work < 4 * detail::convolution_chunk || s.out_height < most ? 0 : most;
  }

  dnnl_convolution_kernel(kind k, dtype type, const convolution_shape& s, std::uint32_t a, std::uint32_t b,
                          std::uint32_t out, const content_version* filters)
      : kind_(k), type_(type), shape_(s), convolved_(s), a_(a), b_(b), out_(out), version_(filters) {
    if (!skips_pixels(k, s)) return;
    gathers_ = true;
    convolved_.height = s.out_height, convolved_.width = s.out_width;
    convolved_.stride_height = convolved_.stride_width = 1;
    convolved_.pad_top = convolved_.pad_left = convolved_.pad_bottom = convolved_.pad_right = 0;
  }

  bool prepare() override {
    const weft::detail::one_openmp_thread guard;  // primitives store the number of threads for which they were created
    const bool gather = kind_ == kind::filter_gradient;
    const dnnl_data_type_t type = type_ == dtype::bfloat16 ? dnnl_bf16 : dnnl_f32;
    const weft::detail::dnnl_description any =
        weft::detail::filters_of(shape_, dnnl_format_tag_any, gather ? dnnl_f32 : type);
    const weft::detail::dnnl_description plain = weft::detail::filters_of(shape_, dnnl_hwio, type);
    if (!any.good() || !plain.good() || !make_attributes()) return false;

    const dnnl_query_t filters = gather ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    if (shape_.batch < 4) bands_ = bands_of(kind_, shape_);
    if (bands_ == 0 ? !cut_batch(type, any.get())
                    : !cut_into_bands(type, any.get()) && !cut_into_more_bands(type, any.get()))
      return false;
    const weft::detail::dnnl_layout blocked = codes_[0].layout(filters);
    filter_bytes_ = weft::detail::bytes_of(blocked);
    filter_lines_ = lines_of(filter_bytes_);
    if (version_)
      blocked_.resize(filter_lines_);
    else
      of_filters_ = reserve_lines(filter_lines_ * (gather ? parts_.size() : 1));
    reserve_scratch(parts_.size(), {&codes_[0], &codes_[1], &codes_[2], &codes_[3]});
    if (gathers_) reserve_gathered();
    if (!make_reorderings(plain.get(), blocked)) return false;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      part& p = parts_[i];
      const dnnl_query_t image = kind_ == kind::input_gradient ? dnnl_query_diff_src_md : dnnl_query_src_md;
      const dnnl_query_t result = kind_ == kind::forward ? dnnl_query_dst_md : dnnl_query_diff_dst_md;
      if (!p.images.make(p.code->layout(image), nullptr) || !p.result.make(p.code->layout(result), nullptr) ||
          !p.filters.make(p.code->layout(filters), nullptr) ||
          !p.scratch.make(p.code->layout(dnnl_query_scratchpad_md), nullptr) || !weft::detail::make_stream(p.stream))
        return false;
    }
    return true;
  }

  /// A number of images of a shape.
  struct work {
    convolution_shape shape;
    std::int64_t images;
  };

  /// Creates one code for each work, all with one layout of the filters. oneDNN chooses the layout for one of them; the
  /// others may have no fast code for it, so each work chooses in turn.
  bool make_codes(const work* all, std::size_t count, dnnl_data_type_t type, weft::detail::dnnl_layout any) {
    const dnnl_query_t filters = kind_ == kind::filter_gradient ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    for (std::size_t first = 0; first < count; ++first) {
      bool made = make_code(first, all[first], type, any);
      for (std::size_t i = 0; made && i < count; ++i)
        made = i == first || make_code(i, all[i], type, codes_[first].layout(filters));
      if (made) return true;
    }
    return false;
  }
  bool make_code(std::size_t i, const work& w, dnnl_data_type_t type, weft::detail::dnnl_layout filters) {
    const dnnl_primitive_desc_t d = weft::detail::describe(kind_, w.shape, w.images, type, filters, attributes_);
    return d && codes_[i].make(d) && is_fast(codes_[i].name());
  }

  /// Divides the batch into parts of two sizes that differ by one.
  bool cut_batch(dnnl_data_type_t type, weft::detail::dnnl_layout any) {
    std::size_t count = detail::between(1, detail::multiply_adds(shape_) / detail::convolution_chunk,
                                        static_cast<std::size_t>(shape_.batch));
    std::size_t most = 16;
    if (kind_ == kind::filter_gradient) {
      // A power of two: three parts of eight images would leave one of two threads idle for a third of the time.
      const std::size_t fits = (std::size_t{1} << 21) / shape_.filter_elements();
      most = fits > 4 ? 8 : fits > 2 ? 4 : 2;
    }
    count = count > most ? most : count;
    const auto all = static_cast<std::int64_t>(count);
    rows_ = static_cast<std::size_t>(shape_.batch);
    const std::int64_t small = shape_.batch / all;
    const bool two = shape_.batch % all != 0;
    const work sizes[] = {{convolved_, gathers_ ? 1 : small + two}, {shape_, small}};
    if (!make_codes(sizes, !gathers_ && two ? 2 : 1, type, any)) return false;
    for (std::int64_t n = 0; n < all; ++n) {
      const std::int64_t begin = shape_.batch * n / all, end = shape_.batch * (n + 1) / all;
      parts_.push_back({begin,
                        end,
                        static_cast<std::size_t>(begin) * shape_.image_elements(),
                        static_cast<std::size_t>(begin) * shape_.out_elements(),
                        gathers_ ? end - begin : 1,
                        shape_.out_height,
                        &codes_[!gathers_ && two && end - begin == small],
                        nullptr,
                        {},
                        {},
                        {},
                        {}});
    }
    return true;
  }

  /// Divides each image into bands of rows. The rows that a band reads are treated as an image, padded at the original
  /// edges.
  bool cut_into_bands(dnnl_data_type_t type, weft::detail::dnnl_layout any) {
    const std::int64_t reach = (shape_.window_height - 1) * shape_.dilation_height + 1;
    const std::size_t in_row = static_cast<std::size_t>(shape_.width * shape_.channels),
                      out_row = static_cast<std::size_t>(shape_.out_width * shape_.filters);
    rows_ = static_cast<std::size_t>(shape_.batch * shape_.out_height);
    work of_band[max_bands];
    for (std::int64_t n = 0; n < bands_; ++n) {
      const std::int64_t begin = shape_.out_height * n / bands_, end = shape_.out_height * (n + 1) / bands_;
      const std::int64_t first = begin * shape_.stride_height - shape_.pad_top,
                         last = (end - 1) * shape_.stride_height - shape_.pad_top + reach;
      convolution_shape band = convolved_;
      const std::int64_t from = first < 0 ? 0 : first, to = last < shape_.height ? last : shape_.height;
      if (to <= from) return false;
      band.out_height = end - begin;
      band.height = gathers_ ? end - begin : to - from;
      band.pad_top = from - first, band.pad_bottom = last - to;
      of_band[n] = {band, 1};
      for (std::int64_t image = 0; image < shape_.batch; ++image)
        parts_.push_back(
            {image * shape_.out_height + begin,
             image * shape_.out_height + end,
             static_cast<std::size_t>(image) * shape_.image_elements() + static_cast<std::size_t>(from) * in_row,
             static_cast<std::size_t>(image) * shape_.out_elements() + static_cast<std::size_t>(begin) * out_row,
             1,
             end - begin,
             &codes_[n],
             nullptr,
             {},
             {},
             {},
             {}});
    }
    return make_codes(of_band, static_cast<std::size_t>(bands_), type, any);
  }

  /// For two bands whose codes share no layout of the filters.
  bool cut_into_more_bands(dnnl_data_type_t type, weft::detail::dnnl_layout any) {
    if (bands_ == max_bands || shape_.out_height < max_bands) return false;
    parts_.clear();
    bands_ = max_bands;
    return cut_into_bands(type, any);
  }

  /// Prepares the conversion of filters between layouts; several threads share many filters.
  bool make_reorderings(weft::detail::dnnl_layout plain, weft::detail::dnnl_layout blocked) {
    // oneDNN blocks filters by 64, its divisors, or 48. Only whole blocks can be converted.
    if (shape_.filter_elements() > 65536)
      for (const std::int64_t block : {64, 48})
        if (shape_.filters % block == 0 && make_reorderings(plain, blocked, block)) return true;
    return make_reorderings(plain, blocked, shape_.filters);
  }
  bool make_reorderings(weft::detail::dnnl_layout plain, weft::detail::dnnl_layout blocked, std::int64_t block) {
    const std::int64_t blocks = shape_.filters / block;
    reorderings_ = detail::between(1, static_cast<std::size_t>(blocks), max_reorderings);
    const bool gather = kind_ == kind::filter_gradient;
    for (std::size_t i = 0; i < reorderings_; ++i) {
      reordering& r = reordering_[i];
      const auto n = static_cast<std::int64_t>(i), all = static_cast<std::int64_t>(reorderings_);
      const std::int64_t begin = blocks * n / all * block, end = blocks * (n + 1) / all * block;
      const std::int64_t extents[] = {end - begin, shape_.channels, shape_.window_height, shape_.window_width};
      const std::int64_t offsets[] = {begin, 0, 0, 0};
      const weft::detail::dnnl_description some(plain, extents, offsets), same(blocked, extents, offsets);
      if (!some.good() || !same.good()) return false;
      const dnnl_primitive_desc_t d = gather ? weft::detail::describe_reorder(same.get(), some.get())
                                             : weft::detail::describe_reorder(some.get(), same.get());
      if (!d || !r.code.make(d) || !r.plain.make(some.get(), nullptr) || !r.blocked.make(same.get(), nullptr) ||
          (!r.stream && !weft::detail::make_stream(r.stream)))
        return false;
    }
    return true;
  }

  // oneDNN 2.6 gathers the pixels of strided 1 x 1 windows in scratch memory. Its AVX2 code writes beyond the requested
  // size unless the channels fill its vectors.
  static bool writes_beyond_scratch(const convolution_shape& s) {
    constexpr std::int64_t widest_vector = 16;
    return s.window_height == 1 && s.window_width == 1 && (s.stride_height > 1 || s.stride_width > 1) &&
           s.channels % widest_vector != 0;
  }

  // Checks the name, since oneDNN silently falls back to code that is hundreds of times slower.
  static bool is_fast(const char* name) { return !std::strstr(name, "ref") && !std::strstr(name, "gemm:"); }

  /// Returns the filters in oneDNN's layout, or a part's gradient of the filters.
  std::byte* filters_of(const kernel_context& f, std::size_t number) {
    if (version_) return reinterpret_cast<std::byte*>(blocked_.data());
    const std::size_t first = kind_ == kind::filter_gradient ? number * filter_lines_ : 0;
    return f.workspace + of_filters_ + first * sizeof(line);
  }

  /// Returns true if windows are single pixels that skip some pixels, none of them in the padding. oneDNN's code for
  /// strides takes up to three times as long as its code for the remaining pixels.
  static bool skips_pixels(kind k, const convolution_shape& s) {
    return k == kind::forward && s.window_height == 1 && s.window_width == 1 &&
           (s.stride_height > 1 || s.stride_width > 1) && s.pad_top == 0 && s.pad_left == 0 &&
           (s.out_height - 1) * s.stride_height < s.height && (s.out_width - 1) * s.stride_width < s.width;
  }

  void reserve_gathered() {
    std::int64_t rows = 0;
    for (const part& p : parts_) rows = p.call_rows > rows ? p.call_rows : rows;
    const auto pixels = static_cast<std::size_t>(rows * shape_.out_width * shape_.channels);
    gathered_of_part_ = lines_of(pixels * size_of(type_));
    gathered_ = reserve_lines(gathered_of_part_ * parts_.size());
  }

  /// Copies the pixels that windows use, for the rows of one call.
  std::byte* gather(const kernel_context& f, std::size_t number, const std::byte* image) {
    const std::size_t pixel = static_cast<std::size_t>(shape_.channels) * size_of(type_),
                      step = pixel * static_cast<std::size_t>(shape_.stride_width),
                      row = pixel * static_cast<std::size_t>(shape_.width * shape_.stride_height);
    std::byte* const all = f.workspace + gathered_ + number * gathered_of_part_ * sizeof(line);
    std::byte* to = all;
    for (std::int64_t y = 0; y < parts_[number].call_rows; ++y)
      for (std::int64_t x = 0; x < shape_.out_width; ++x, to += pixel)
        std::memcpy(to, image + static_cast<std::size_t>(y) * row + static_cast<std::size_t>(x) * step, pixel);
    return all;
  }

  void run_part(const kernel_context& f, std::size_t i) {
    const weft::detail::one_openmp_thread guard;
    const part& p = parts_[i];
    for (std::int64_t n = 0; n < p.calls; ++n)
      convolve(f, i, p.first_in + static_cast<std::size_t>(n) * shape_.image_elements(),
               p.first_out + static_cast<std::size_t>(n) * shape_.out_elements());
    if (by_parts_) epilogue_->run_part(f, static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end), rows_);
  }

  /// Performs one call of a part, starting at the given elements of the images and of the results.
  void convolve(const kernel_context& f, std::size_t i, std::size_t images, std::size_t results) {
    part& p = parts_[i];
    const auto at = [&](std::uint32_t slot, std::size_t first) { return f.buffers[slot] + first * size_of(type_); };
    const dnnl_memory_t filters = p.filters.at(filters_of(f, i));
    dnnl_exec_arg_t arguments[4] = {{}, {}, {}, {DNNL_ARG_SCRATCHPAD, p.scratch.at(scratch_of(f, i))}};
    if (kind_ == kind::forward) {
      std::byte* const from = at(a_, images);
      arguments[0] = {DNNL_ARG_SRC, p.images.at(gathers_ ? gather(f, i, from) : from)};
      arguments[1] = {DNNL_ARG_WEIGHTS, filters};
      arguments[2] = {DNNL_ARG_DST, p.result.at(at(out_, results))};
    } else if (kind_ == kind::input_gradient) {
      arguments[0] = {DNNL_ARG_DIFF_SRC, p.images.at(at(out_, images))};
      arguments[1] = {DNNL_ARG_WEIGHTS, filters};
      arguments[2] = {DNNL_ARG_DIFF_DST, p.result.at(at(b_, results))};
    } else {
      arguments[0] = {DNNL_ARG_SRC, p.images.at(at(a_, images))};
      arguments[1] = {DNNL_ARG_DIFF_WEIGHTS, filters};
      arguments[2] = {DNNL_ARG_DIFF_DST, p.result.at(at(b_, results))};
    }
    execute("conv2d", p.code->get(), p.stream, 4, arguments);
  }

  void pack_filters(const kernel_context& f, std::byte* plain) {
    const std::uint64_t now = version_ ? version_->number() : 0;
    if (now != 0 && now == packed_) return;
    packed_ = 0;  // an error leaves them partly converted
    reorder(f, plain);
    packed_ = now;
  }

  void reorder(const kernel_context& f, std::byte* plain) {
    f.threads->parallel_for(reorderings_, [&](std::size_t i) {
      const weft::detail::one_openmp_thread guard;
      reordering& r = reordering_[i];
      const dnnl_memory_t outer = r.plain.at(plain), inner = r.blocked.at(filters_of(f, 0));
      const bool gather = kind_ == kind::filter_gradient;
      const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, gather ? inner : outer},
                                           {DNNL_ARG_TO, gather ? outer : inner}};
      execute("conv2d", r.code.get(), r.stream, 2, arguments);
    });
  }

  /// Adds the gradients of all parts to the first one, element by element in the order of the parts.
  void sum_parts(const kernel_context& f) {
    constexpr std::size_t block = 8192;
    const std::size_t elements = filter_bytes_ / sizeof(float), blocks = (elements + block - 1) / block;
    f.threads->parallel_for(blocks, [&](std::size_t n) {
      const std::size_t begin = n * block, end = begin + block < elements ? begin + block : elements;
      float* const sum = reinterpret_cast<float*>(filters_of(f, 0)) + begin;
      for (std::size_t i = 1; i < parts_.size(); ++i)
        weft::detail::add_floats(sum, reinterpret_cast<const float*>(filters_of(f, i)) + begin, end - begin);
    });
  }

  kind kind_;
  dtype type_;
  convolution_shape shape_, convolved_;  // the shape of the call, and the shape passed to oneDNN; see gather()
  bool gathers_ = false;
  std::uint32_t a_, b_, out_;
  const content_version* version_;  // the filters' version, if they have one
  std::uint64_t packed_ = 0;        // the version of the contents of blocked_; 0: none
  std::int64_t bands_ = 0;          // for each image; 0 if the batch is divided
  std::size_t rows_ = 0;            // of the result: images, or rows of pixels if images are divided
  bool by_parts_ = false;           // true if the epilogue runs for each part
  weft::detail::dnnl_code codes_[max_bands];
  reordering reordering_[max_reorderings];
  std::size_t reorderings_ = 0, filter_bytes_ = 0, filter_lines_ = 0;
  std::size_t of_filters_ = 0, gathered_ = 0;  // offsets in the workspace
  std::size_t gathered_of_part_ = 0;           // lines
  sequence<line> blocked_;                     // converted filters that are kept between runs
  sequence<part> parts_;
};

}  // namespace weft::device

WEFT_COLD_END

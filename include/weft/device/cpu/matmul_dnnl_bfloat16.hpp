// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <dnnl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <weft/device/cpu/dnnl_kernel.hpp>
#include <weft/device/cpu/matmul_dnnl.hpp>

WEFT_COLD_BEGIN
namespace weft::device {

/// A product of bfloat16 by oneDNN, on processors that multiply bfloat16 in hardware: several times as fast as in
/// float. These instructions treat subnormal numbers as zeros. Weft's threads share the rows or the columns of the
/// result; the division depends only on the shape.
class dnnl_bfloat16_matmul_kernel final : public dnnl_kernel {
 public:
  /// Returns null if the processor lacks bfloat16 or the product is too small to pay for a call. Otherwise takes
  /// ownership of the epilogue, which reads c and writes it in place.
  static kernel* make(const matmul_shape& s, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                      epilogue_kernel* epilogue) {
    if (s.m * s.n * s.k < 8192 || !weft::detail::dnnl_multiplies_bfloat16()) return nullptr;
    return prepared(new dnnl_bfloat16_matmul_kernel(s, a, b, c), epilogue);
  }
  ~dnnl_bfloat16_matmul_kernel() override {
    for (part& p : parts_) dnnl_stream_destroy(p.stream);
  }

  void run(const kernel_context& f) override {
    f.threads->parallel_for(parts_.size(), [&](std::size_t i) { run_part(f, i); });
    if (epilogue_) epilogue_->run(f);
  }

  std::string describe() const override {
    std::string text = str_cat({"matmul ", shape_.m, "x", shape_.k, "x", shape_.n});
    if (shape_.transpose_a) text += " a'";
    if (shape_.transpose_b) text += " b'";
    append(text, {", oneDNN ", whole_.name()});
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  struct part {
    std::size_t begin;
    weft::detail::dnnl_code* code;
    dnnl_stream_t stream = nullptr;
    weft::detail::dnnl_buffer a, b, c, scratch;
  };

  dnnl_bfloat16_matmul_kernel(const matmul_shape& s, std::uint32_t a, std::uint32_t b, std::uint32_t c)
      : shape_(s), a_(a), b_(b), c_(c), by_rows_(s.m >= s.n) {}

  bool prepare() override {
    const weft::detail::one_openmp_thread guard;  // primitives store the number of threads for which they were created
    if (!make_attributes()) return false;
    constexpr std::size_t worth_waking = std::size_t{1} << 23;  // multiply-adds: about 50 microseconds
    const std::size_t extent = by_rows_ ? shape_.m : shape_.n, work = shape_.m * shape_.n * shape_.k;
    const std::size_t wanted = work < 2 * worth_waking ? 1 : work < 16 * worth_waking ? work / worth_waking : 16;
    const std::size_t even = ((extent + wanted - 1) / wanted + 31) / 32 * 32, width = even < extent ? even : extent;
    const std::size_t count = (extent + width - 1) / width, last = extent - (count - 1) * width;
    if (!make(whole_, width) || (last != width && !make(last_, last))) return false;

    reserve_scratch(count, {&whole_, &last_});
    for (std::size_t i = 0; i < count; ++i) {
      part p{i * width, i + 1 == count && last != width ? &last_ : &whole_, nullptr, {}, {}, {}, {}};
      const weft::detail::dnnl_code& code = *p.code;
      if (!p.a.make(code.layout(dnnl_query_src_md), nullptr) ||
          !p.b.make(code.layout(dnnl_query_weights_md), nullptr) ||
          !p.c.make(code.layout(dnnl_query_dst_md), nullptr) ||
          !p.scratch.make(code.layout(dnnl_query_scratchpad_md), nullptr) || !weft::detail::make_stream(p.stream))
        return false;
      parts_.push_back(static_cast<part&&>(p));
    }
    return true;
  }

  /// Creates the code for a product of this many rows, or columns.
  bool make(weft::detail::dnnl_code& code, std::size_t extent) {
    const auto m = static_cast<std::int64_t>(shape_.m), n = static_cast<std::int64_t>(shape_.n);
    const auto k = static_cast<std::int64_t>(shape_.k), some = static_cast<std::int64_t>(extent);
    const std::int64_t rows = by_rows_ ? some : m, columns = by_rows_ ? n : some, one = 1;
    const bool ta = shape_.transpose_a, tb = shape_.transpose_b;
    const weft::detail::dnnl_description a({rows, k}, {ta ? one : k, ta ? m : one}, dnnl_bf16);
    const weft::detail::dnnl_description b({k, columns}, {tb ? one : n, tb ? k : one}, dnnl_bf16);
    const weft::detail::dnnl_description c({rows, columns}, {n, one}, dnnl_bf16);
    if (!a.good() || !b.good() || !c.good()) return false;
    dnnl_primitive_desc_t d = nullptr;
#if DNNL_VERSION_MAJOR >= 3
    if (dnnl_matmul_primitive_desc_create(&d, weft::detail::dnnl_processor(), a.get(), b.get(), nullptr, c.get(),
                                          attributes_) != dnnl_success)
      return false;
#else
    dnnl_matmul_desc_t described;
    if (dnnl_matmul_desc_init(&described, a.get(), b.get(), nullptr, c.get()) != dnnl_success ||
        dnnl_primitive_desc_create(&d, &described, attributes_, weft::detail::dnnl_processor(), nullptr) !=
            dnnl_success)
      return false;
#endif
    return code.make(d) && !std::strstr(code.name(), "ref");
  }

  void run_part(const kernel_context& f, std::size_t i) {
    const weft::detail::one_openmp_thread guard;
    part& p = parts_[i];
    const auto at = [&](std::uint32_t slot, std::size_t first) {
      return reinterpret_cast<const bfloat16*>(f.buffers[slot]) + first;
    };
    const std::size_t a = by_rows_ ? p.begin * (shape_.transpose_a ? 1 : shape_.k) : 0;
    const std::size_t b = by_rows_ ? 0 : p.begin * (shape_.transpose_b ? shape_.k : 1);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, p.a.at(at(a_, a))},
                                         {DNNL_ARG_WEIGHTS, p.b.at(at(b_, b))},
                                         {DNNL_ARG_DST, p.c.at(at(c_, p.begin * (by_rows_ ? shape_.n : 1)))},
                                         {DNNL_ARG_SCRATCHPAD, p.scratch.at(scratch_of(f, i))}};
    execute("matmul", p.code->get(), p.stream, 4, arguments);
  }

  matmul_shape shape_;
  std::uint32_t a_, b_, c_;
  bool by_rows_;
  weft::detail::dnnl_code whole_, last_;
  sequence<part> parts_;
};

}  // namespace weft::device

WEFT_COLD_END

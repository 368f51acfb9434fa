// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <dnnl.h>

#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
  #include <cpuid.h>
#endif

#include <weft/device/cpu/dispatch.hpp>

/// Wrappers for objects of oneDNN 2.6 or 3.x: memory descriptors, primitives, memory.
WEFT_COLD_BEGIN
namespace weft::detail {

// Memory descriptors are structures in oneDNN 2.6 and handles in 3.x.
#if DNNL_VERSION_MAJOR >= 3
using dnnl_layout = const_dnnl_memory_desc_t;
#else
using dnnl_layout = const dnnl_memory_desc_t*;
#endif

/// A descriptor of plain memory, or of memory whose layout oneDNN chooses.
class dnnl_description {
 public:
  dnnl_description(const std::int64_t (&extents)[4], dnnl_format_tag_t tag, dnnl_data_type_t type) {
#if DNNL_VERSION_MAJOR >= 3
    good_ = dnnl_memory_desc_create_with_tag(&it_, 4, extents, type, tag) == dnnl_success;
#else
    good_ = dnnl_memory_desc_init_by_tag(&it_, 4, extents, type, tag) == dnnl_success;
#endif
  }
  /// A matrix: its extents, and the strides of rows and columns.
  dnnl_description(const std::int64_t (&extents)[2], const std::int64_t (&steps)[2], dnnl_data_type_t type) {
#if DNNL_VERSION_MAJOR >= 3
    good_ = dnnl_memory_desc_create_with_strides(&it_, 2, extents, type, steps) == dnnl_success;
#else
    good_ = dnnl_memory_desc_init_by_strides(&it_, 2, extents, type, steps) == dnnl_success;
#endif
  }
  /// A part of the described memory.
  dnnl_description(dnnl_layout whole, const std::int64_t (&extents)[4], const std::int64_t (&offsets)[4]) {
#if DNNL_VERSION_MAJOR >= 3
    good_ = dnnl_memory_desc_create_submemory(&it_, whole, extents, offsets) == dnnl_success;
#else
    good_ = dnnl_memory_desc_init_submemory(&it_, whole, extents, offsets) == dnnl_success;
#endif
  }
  dnnl_description(const dnnl_description&) = delete;
  dnnl_description& operator=(const dnnl_description&) = delete;
#if DNNL_VERSION_MAJOR >= 3
  ~dnnl_description() { dnnl_memory_desc_destroy(it_); }
  dnnl_layout get() const { return it_; }
#else
  dnnl_layout get() const { return &it_; }
#endif
  bool good() const { return good_; }

 private:
  dnnl_memory_desc_t it_{};
  bool good_;
};

/// Returns the engine of the processor, which lives as long as the process.
inline dnnl_engine_t dnnl_processor() {
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t e = nullptr;
    dnnl_engine_create(&e, dnnl_cpu, 0);
    return e;
  }();
  return engine;
}

/// Returns true if this processor multiplies bfloat16 in hardware. These instructions treat subnormal numbers as zeros.
inline bool dnnl_multiplies_bfloat16() {
  return detected_isa() == isa::avx512 &&
         (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

/// Returns true if it multiplies bfloat16 faster than float. This holds with AMX. With AVX512-BF16 alone it holds too,
/// except on processors with AMX whose virtual machine hides it: these take twice as long as for float (measured on a
/// Sapphire Rapids). AVX512-FP16 identifies such processors.
inline bool dnnl_multiplies_bfloat16_fast() {
  if (!dnnl_multiplies_bfloat16()) return false;
  if ((dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx) return true;
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & (1u << 23));
#else
  return true;
#endif
}

/// A primitive and its descriptor; null if oneDNN has none.
class dnnl_code {
 public:
  dnnl_code() = default;
  dnnl_code(const dnnl_code&) = delete;
  dnnl_code& operator=(const dnnl_code&) = delete;
  ~dnnl_code() { release(); }

  /// Takes ownership of the descriptor. Returns true if the primitive was created.
  bool make(dnnl_primitive_desc_t description) {
    release();
    description_ = description;
    return dnnl_primitive_create(&primitive_, description) == dnnl_success;
  }
  dnnl_primitive_t get() const { return primitive_; }
  dnnl_layout layout(dnnl_query_t of) const { return dnnl_primitive_desc_query_md(description_, of, 0); }
  const char* name() const {
    const char* text = nullptr;
    dnnl_primitive_desc_query(description_, dnnl_query_impl_info_str, 0, &text);
    return text ? text : "";
  }

 private:
  void release() {
    if (primitive_) dnnl_primitive_destroy(primitive_);
    if (description_) dnnl_primitive_desc_destroy(description_);
    primitive_ = nullptr;
    description_ = nullptr;
  }

  dnnl_primitive_desc_t description_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
};

/// oneDNN's memory object; its address may change from run to run.
class dnnl_buffer {
 public:
  dnnl_buffer() = default;
  dnnl_buffer(const dnnl_buffer&) = delete;
  dnnl_buffer& operator=(const dnnl_buffer&) = delete;
  dnnl_buffer(dnnl_buffer&& other) noexcept : it_(other.it_), at_(other.at_) { other.it_ = nullptr; }
  ~dnnl_buffer() {
    if (it_) dnnl_memory_destroy(it_);
  }

  bool make(dnnl_layout layout, const void* at) {
    if (it_) dnnl_memory_destroy(it_);
    it_ = nullptr;
    at_ = at;
    return dnnl_memory_create(&it_, layout, dnnl_processor(), const_cast<void*>(at)) == dnnl_success;
  }
  /// Setting the address costs an allocation in oneDNN, so it is set only if it has changed.
  dnnl_memory_t at(const void* data) {
    if (data != at_) dnnl_memory_set_data_handle(it_, const_cast<void*>(data));
    at_ = data;
    return it_;
  }
  dnnl_memory_t get() const { return it_; }

 private:
  dnnl_memory_t it_ = nullptr;
  const void* at_ = nullptr;
};

inline std::size_t bytes_of(dnnl_layout l) { return l ? dnnl_memory_desc_get_size(l) : 0; }

inline bool make_stream(dnnl_stream_t& stream) {
  return dnnl_stream_create(&stream, dnnl_processor(), dnnl_stream_default_flags) == dnnl_success;
}

}  // namespace weft::detail

WEFT_COLD_END

// SPDX-License-Identifier: BSL-1.0
#include "cublaslt.hpp"

#include <cstring>

#include "element.hpp"

using standin::byte_access;
using standin::part;

struct cublasLtContext {};

namespace {

standin::cublaslt_library* library = nullptr;

// The contents of the library's opaque structures, of which nothing else knows.
struct __attribute__((may_alias)) product {
  cublasComputeType_t compute;
  cudaDataType_t scale, bias_type;
  std::int32_t transposes_a, transposes_b;
  cublasLtEpilogue_t epilogue;
  const void* bias;
};
struct __attribute__((may_alias)) matrix {
  cudaDataType_t type;
  std::int64_t rows, columns, step;
  std::int32_t count;
  std::int64_t offset;  // from one of a batch to the next
};
struct __attribute__((may_alias)) preference {
  std::uint64_t workspace;
  std::uint32_t alignment[4], schemes;
};
struct __attribute__((may_alias)) algorithm {
  std::int32_t number;
  std::uint32_t alignment;
};

template <class To, class Opaque>
To& in(Opaque* o) {
  static_assert(sizeof(To) <= sizeof(o->data));
  return *reinterpret_cast<To*>(o->data);
}
template <class To, class Opaque>
const To& in(const Opaque* o) {
  return *reinterpret_cast<const To*>(o->data);
}

cublasStatus_t bad(const std::string& what) {
  library->mistakes.push_back(what);
  return CUBLAS_STATUS_INVALID_VALUE;
}
weft::dtype element(cudaDataType_t t) {
  return t == CUDA_R_16F    ? weft::dtype::float16
         : t == CUDA_R_16BF ? weft::dtype::bfloat16
         : t == CUDA_R_64F  ? weft::dtype::float64
                            : weft::dtype::float32;
}
std::size_t bytes(const matrix& m) {
  return static_cast<std::size_t>((m.count - 1) * m.offset + (m.columns - 1) * m.step + m.rows) *
         weft::size_of(element(m.type));
}

cublasStatus_t check(const product& p, const matrix& a, const matrix& b, const matrix& c, const matrix& d) {
  const std::int64_t m = p.transposes_a ? a.columns : a.rows, k = p.transposes_a ? a.rows : a.columns;
  const std::int64_t n = p.transposes_b ? b.rows : b.columns;
  if ((p.transposes_b ? b.columns : b.rows) != k || d.rows != m || d.columns != n) return bad("extents differ");
  if (c.rows != d.rows || c.columns != d.columns || c.step != d.step) return bad("c and d differ");
  for (const matrix* x : {&a, &b, &c, &d})
    if (x->type != a.type || x->step < x->rows || x->count != a.count || x->count < 1)
      return bad("a matrix is not as it should be");
  if (d.count > 1 && d.offset < (d.columns - 1) * d.step + d.rows) return bad("results of a batch overlap");
  const bool wide = a.type == CUDA_R_64F;
  if ((p.scale == CUDA_R_64F) != wide || (p.compute == CUBLAS_COMPUTE_64F) != wide) return bad("kinds of arithmetic");
  if (p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F) return bad("TF32 of something else");
  const bool bias = p.epilogue == CUBLASLT_EPILOGUE_BIAS || p.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  if (bias && p.bias_type != a.type) return bad("a bias of another type");
  return CUBLAS_STATUS_SUCCESS;
}

template <class To>
cublasStatus_t put(To& to, const void* from, std::size_t size) {
  if (size != sizeof to) return bad("an attribute of another size");
  std::memcpy(&to, from, size);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

namespace standin {

cublaslt_library::cublaslt_library() { library = this; }
cublaslt_library::~cublaslt_library() { library = nullptr; }

}  // namespace standin

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t) { return "a status"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "what the stand-in says"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  *h = new cublasLtContext();
  return ++library->handles, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
  delete h;
  if (library) --library->handles;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, std::size_t, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  in<product>(d) = {compute, scale, CUDA_R_32F, 0, 0, CUBLASLT_EPILOGUE_DEFAULT, nullptr};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t size) {
  product& p = in<product>(d);
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return put(p.transposes_a, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return put(p.transposes_b, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return put(p.epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return put(p.bias, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return put(p.bias_type, value, size);
    default:
      return bad("an attribute of a product that the stand-in does not know");
  }
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t m, std::size_t, cudaDataType_t type,
                                                 std::uint64_t rows, std::uint64_t columns, std::int64_t step) {
  in<matrix>(m) = {type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), step, 1, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t m, cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, std::size_t size) {
  switch (which) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return put(in<matrix>(m).count, value, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return put(in<matrix>(m).offset, value, size);
    default:
      return bad("an attribute of a matrix that the stand-in does not know");
  }
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, std::size_t) {
  in<preference>(p) = {0, {256, 256, 256, 256}, CUBLASLT_REDUCTION_SCHEME_MASK};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t to,
                                                    cublasLtMatmulPreferenceAttributes_t which, const void* value,
                                                    std::size_t size) {
  preference& p = in<preference>(to);
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return put(p.workspace, value, size);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return put(p.schemes, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return put(p.alignment[0], value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return put(p.alignment[1], value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return put(p.alignment[2], value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return put(p.alignment[3], value, size);
    default:
      return bad("a preference that the stand-in does not know");
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t r, cublasLtMatmulPreference_t wish, int most,
                                              cublasLtMatmulHeuristicResult_t* to, int* found) {
  *found = 0;
  const cublasStatus_t s = check(in<product>(d), in<matrix>(a), in<matrix>(b), in<matrix>(c), in<matrix>(r));
  if (s != CUBLAS_STATUS_SUCCESS) return s;
  const preference& p = in<preference>(wish);
  const std::uint32_t alignment = p.alignment[0];
  for (const std::uint32_t other : p.alignment)
    if (other != alignment) return bad("operands of different alignment");
  for (int i = 0; i < static_cast<int>(library->times.size()) && *found < most; ++i) {
    const std::size_t room = static_cast<std::size_t>(i) * library->workspace;
    if (room > p.workspace) continue;
    cublasLtMatmulHeuristicResult_t& offer = to[(*found)++];
    offer = {};
    in<algorithm>(&offer.algo) = {i, alignment};
    offer.workspaceSize = room;
    offer.state = CUBLAS_STATUS_SUCCESS;
  }
  return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void* alpha, const void* a_data,
                              cublasLtMatrixLayout_t a_layout, const void* b_data, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c_data, cublasLtMatrixLayout_t c_layout, void* d_data,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* by, void* room,
                              std::size_t room_bytes, cudaStream_t stream) {
  const product p = in<product>(d);
  const matrix a = in<matrix>(a_layout), b = in<matrix>(b_layout), c = in<matrix>(c_layout), r = in<matrix>(d_layout);
  const algorithm chosen = in<algorithm>(by);
  if (const cublasStatus_t s = check(p, a, b, c, r); s != CUBLAS_STATUS_SUCCESS) return s;
  const std::size_t needed = static_cast<std::size_t>(chosen.number) * library->workspace;
  if (room_bytes < needed) return bad("too little workspace");
  const bool bias = p.epilogue == CUBLASLT_EPILOGUE_BIAS || p.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  const bool relu = p.epilogue == CUBLASLT_EPILOGUE_RELU || p.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  for (const void* at : {a_data, b_data, c_data, static_cast<const void*>(d_data), bias ? p.bias : nullptr})
    if (reinterpret_cast<std::uintptr_t>(at) % chosen.alignment)
      return bad("an address that is less aligned than said");
  const bool wide = p.scale == CUDA_R_64F;
  const double factor = wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  const double before = wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  library->multiplied.push_back(chosen.number);
  library->alignments.push_back(chosen.alignment);
  std::vector<byte_access> all = {part(a_data, bytes(a), false), part(b_data, bytes(b), false),
                                  part(d_data, bytes(r), true)};
  if (bias) all.push_back(part(p.bias, static_cast<std::size_t>(r.rows) * weft::size_of(element(p.bias_type)), false));
  if (needed) all.push_back(part(room, needed, true));
  const std::int64_t depth = p.transposes_a ? a.rows : a.columns;
  const auto run = [=] {
    for (std::int64_t e = 0; e < r.count * r.columns * r.rows; ++e) {
      const std::int64_t one = e / r.rows / r.columns, j = e / r.rows % r.columns, i = e % r.rows;
      double sum = 0;
      for (std::int64_t l = 0; l < depth; ++l)
        sum +=
            standin::read(element(a.type), a_data,
                          one * a.offset + (p.transposes_a ? i * a.step + l : l * a.step + i)) *
            standin::read(element(b.type), b_data, one * b.offset + (p.transposes_b ? l * b.step + j : j * b.step + l));
      double value = factor * sum;
      if (before != 0) value += before * standin::read(element(c.type), c_data, one * c.offset + j * c.step + i);
      if (bias) value += standin::read(element(p.bias_type), p.bias, i);
      standin::write(element(r.type), d_data, one * r.offset + j * r.step + i, relu && value < 0 ? 0 : value);
    }
  };
  const float time = library->times[static_cast<std::size_t>(chosen.number)];
  return standin::give_call(stream, all, run, time) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"

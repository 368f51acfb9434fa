// SPDX-License-Identifier: BSL-1.0
#include "nccl.hpp"

#include <cstring>
#include <memory>

#include "element.hpp"

using standin::part;

/// A rank of a group.
struct ncclComm {
  int rank, ranks;
  std::shared_ptr<int> group;  // the same of all its ranks
  bool finalized = false;
};

namespace {

standin::nccl_library* library = nullptr;

struct reduction {
  const void* from;
  void* to;
  std::size_t n;
  ncclDataType_t type;
  ncclRedOp_t how;
  ncclComm_t rank;
  cudaStream_t stream;
};
std::vector<reduction> waiting;
int depth = 0;  // the open calls of ncclGroupStart

ncclResult_t mistake(const std::string& what) {
  library->mistakes.push_back(what);
  return ncclInvalidUsage;
}

weft::dtype element(ncclDataType_t t) {
  return t == ncclFloat16    ? weft::dtype::float16
         : t == ncclBfloat16 ? weft::dtype::bfloat16
         : t == ncclFloat64  ? weft::dtype::float64
                             : weft::dtype::float32;
}

/// One call of every rank of a group. Each stream reads and writes the memory of its own GPU.
void reduce_together(const std::vector<reduction>& calls) {
  const weft::dtype type = element(calls[0].type);
  std::vector<double> sums(calls[0].n);
  for (const reduction& each : calls)
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += standin::read(type, each.from, static_cast<std::int64_t>(i));
  if (calls[0].how == ncclAvg)
    for (double& sum : sums) sum /= static_cast<double>(calls.size());
  const std::size_t bytes = sums.size() * (type == weft::dtype::float64 ? 8 : type == weft::dtype::float32 ? 4 : 2);
  for (const reduction& each : calls)
    standin::give_call(each.stream, {part(each.from, bytes, false), part(each.to, bytes, true)},
                       [sums, type, to = each.to] {
                         for (std::size_t i = 0; i < sums.size(); ++i)
                           standin::write(type, to, static_cast<std::int64_t>(i), sums[i]);
                       });
}

/// Finishes the calls that wait, as every call does outside of ncclGroupStart and ncclGroupEnd.
ncclResult_t finish_calls() {
  while (!waiting.empty()) {
    std::vector<reduction> together, others;
    std::vector<bool> seen(static_cast<std::size_t>(waiting[0].rank->ranks));
    for (const reduction& each : waiting) {
      const auto rank = static_cast<std::size_t>(each.rank->rank);
      const bool now = each.rank->group == waiting[0].rank->group && !seen[rank];
      if (now) seen[rank] = true;
      (now ? together : others).push_back(each);
    }
    waiting = std::move(others);
    if (together.size() < seen.size()) return waiting.clear(), mistake("not all ranks of a group reduce");
    for (const reduction& each : together)
      if (each.n != together[0].n || each.type != together[0].type || each.how != together[0].how)
        return waiting.clear(), mistake("the ranks of a group reduce what is not alike");
    reduce_together(together);
  }
  return ncclSuccess;
}

}  // namespace

namespace standin {

nccl_library::nccl_library() { library = this; }
nccl_library::~nccl_library() { library = nullptr; }

}  // namespace standin

extern "C" {

const char* ncclGetErrorString(ncclResult_t r) { return r == ncclSuccess ? "no error" : "an error"; }
const char* ncclGetLastError(ncclComm_t) { return library->mistakes.empty() ? "" : library->mistakes.back().c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id->internal, 7, sizeof id->internal);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* c, int ranks, ncclUniqueId id, int rank, ncclConfig_t* how) {
  for (const char each : id.internal)
    if (each != 7) return mistake("a group of an id that nobody has made");
  if (how->blocking != 0) return mistake("a group whose calls cannot be ended by a deadline");
  if (ranks != 1 || rank != 0) return mistake("ranks in other processes, which this stand-in has not");
  *c = new ncclComm{rank, ranks, std::make_shared<int>()};
  ++library->communicators;
  return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t* all, int count, const int* devices) {
  const auto group = std::make_shared<int>();
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < i; ++k)
      if (devices[k] == devices[i]) return mistake("a GPU is two ranks of a group");
    all[i] = new ncclComm{i, count, group};
    ++library->communicators;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) { return *state = ncclSuccess; }

ncclResult_t ncclCommFinalize(ncclComm_t c) {
  c->finalized = true;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
  if (c->ranks > 1 && depth == 0) return mistake("a rank of several is destroyed alone, and waits for the others");
  delete c;
  --library->communicators;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c) {
  delete c;
  --library->communicators;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() { return --depth == 0 ? finish_calls() : ncclSuccess; }

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t n, ncclDataType_t type, ncclRedOp_t how,
                           ncclComm_t c, cudaStream_t stream) {
  if (c->finalized) return mistake("a group that was finalized reduces");
  waiting.push_back({from, to, n, type, how, c, stream});
  return depth == 0 ? finish_calls() : ncclSuccess;
}
}

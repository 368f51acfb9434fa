// SPDX-License-Identifier: BSL-1.0
#include "cuda_runtime.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>

using namespace standin;

namespace standin {

/// The recording of a stream that began it, and of the streams that waited for it.
struct capture {
  cudaStream_t origin;
  bool broken = false;
  std::vector<work> all;
};

namespace {

cuda_runtime* current = nullptr;

void merge(progress& into, const progress& more) {
  for (const auto& [stream, stamp] : more)
    if (into[stream] < stamp) into[stream] = stamp;
}
std::size_t stamp_of(const progress& c, int stream) {
  const auto i = c.find(stream);
  return i == c.end() ? 0 : i->second;
}
bool overlap(const byte_access& a, const byte_access& b) {
  return (a.writes || b.writes) && a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

}  // namespace
}  // namespace standin

// CUDA's objects.
struct CUstream_st {
  int number, device;
  progress known{};  // the work that is done before the next piece
  std::shared_ptr<standin::capture> recording{};
  progress recorded_order{};  // the same within the recording
};
struct CUevent_st {
  int number, device;
  progress known{};
  std::shared_ptr<standin::capture> recording{};
  progress recorded_order{};
  float at = 0;  // milliseconds
};
struct CUgraphNode_st {
  CUgraph_st* graph;
  std::size_t index;
};
struct CUgraph_st {
  int number;
  std::vector<work> all{};
  std::vector<CUgraphNode_st> nodes{};
};
struct CUgraphExec_st {
  int number;
  std::vector<work> all{};
  cudaGraph_t graph = nullptr;  // it was made of this graph
};
struct CUmemPoolHandle_st {
  int number, device;
  std::uint64_t threshold = 0;
  std::set<int> reached_by{};
};

namespace standin {

cuda_runtime::cuda_runtime(settings s) : given(s) { current = this; }

cuda_runtime::~cuda_runtime() {
  current = nullptr;
  for (const auto& [at, b] : blocks) std::free(const_cast<std::byte*>(at));
  for (const auto& [at, bytes] : host_blocks) std::free(const_cast<std::byte*>(at));
  for (auto* s : streams) delete s;
  for (auto* e : events) delete e;
  for (auto* g : graphs) delete g;
  for (auto* r : recorded) delete r;
  for (auto* p : pools) delete p;
}

std::vector<std::size_t> cuda_runtime::find(const std::string& beginning) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < log.size(); ++i)
    if (log[i].rfind(beginning, 0) == 0) found.push_back(i);
  return found;
}

std::vector<std::string> cuda_runtime::left() const {
  std::vector<std::string> all;
  const auto add = [&](const char* what, const auto& objects) {
    for (const auto* o : objects) all.push_back(what + std::to_string(o->number));
  };
  add("stream ", streams);
  add("event ", events);
  add("graph ", graphs);
  add("recorded ", recorded);
  add("pool ", pools);
  for (const auto& [at, b] : blocks) all.push_back("block of " + std::to_string(b.bytes));
  for (const auto& [at, bytes] : host_blocks) all.push_back("host block of " + std::to_string(bytes));
  return all;
}

std::size_t cuda_runtime::reserved_bytes(int device) const {
  std::size_t bytes = 0;
  for (const auto& [at, b] : blocks)
    if (b.device == device) bytes += b.bytes;
  return bytes;
}

cudaError_t cuda_runtime::enter(const std::string& what) {
  log.push_back(what);
  return ++calls == failing_ ? refuse(failure_) : cudaSuccess;
}

std::map<const std::byte*, cuda_runtime::block>::iterator cuda_runtime::find_block(const void* p) {
  const auto* at = static_cast<const std::byte*>(p);
  auto i = blocks.upper_bound(at);
  if (i == blocks.begin()) return blocks.end();
  --i;
  return at < i->first + i->second.bytes ? i : blocks.end();
}

bool cuda_runtime::is_page_locked(const void* p, std::size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(p);
  auto i = host_blocks.upper_bound(at);
  if (i == host_blocks.begin()) return false;
  --i;
  return at + bytes <= i->first + i->second;
}

bool cuda_runtime::has_access(int device, const block& b) const {
  if (device == b.device) return true;
  return b.pool ? b.pool->reached_by.count(device) > 0 : given.peers && peers.count({device, b.device}) > 0;
}

void cuda_runtime::forget_accesses(const std::byte* at, std::size_t bytes) {
  const byte_access all{at, bytes, true};
  std::erase_if(past, [&](const past_access& p) { return overlap(p.what, all); });
}

cudaError_t cuda_runtime::take(std::size_t bytes, int device, cudaMemPool_t pool, cudaStream_t stream, void** data) {
  if (bytes == 0) return refuse(cudaErrorInvalidValue);
  bytes = (bytes + 511) / 512 * 512;
  if (stream) merge(stream->known, host), ++stream->known[stream->number];
  const auto stamp = stream ? stream->known[stream->number] : 0;
  for (auto& [at, b] : blocks)
    if (pool && b.pool == pool && b.released && b.bytes == bytes && b.stamp <= stamp_of(stream->known, b.stream)) {
      b.released = false, b.stream = stream->number, b.stamp = stamp;
      forget_accesses(at, b.bytes);
      *data = const_cast<std::byte*>(at);
      return cudaSuccess;
    }
  if (bytes > given.memory_bytes - reserved_bytes(device)) return refuse(cudaErrorMemoryAllocation);
  auto* const at = static_cast<std::byte*>(std::aligned_alloc(512, bytes));
  blocks[at] = {bytes, device, pool, false, stream ? stream->number : 0, stamp};
  if (reserved_bytes(device) > max_reserved_bytes[device]) max_reserved_bytes[device] = reserved_bytes(device);
  *data = at;
  return cudaSuccess;
}

void cuda_runtime::release(std::map<const std::byte*, block>::iterator i) {
  forget_accesses(i->first, i->second.bytes);
  std::free(const_cast<std::byte*>(i->first));
  blocks.erase(i);
}

void cuda_runtime::trim(cudaMemPool_t pool, std::size_t keep) {
  std::size_t reserved = 0;
  for (const auto& [at, b] : blocks)
    if (b.pool == pool) reserved += b.bytes;
  for (auto i = blocks.begin(); i != blocks.end() && reserved > keep;) {
    const auto next = std::next(i);
    const block& b = i->second;
    if (b.pool == pool && b.released && b.stamp <= stamp_of(host, b.stream)) {
      reserved -= b.bytes;
      release(i);
    }
    i = next;
  }
}

void cuda_runtime::synchronize(cudaStream_t s) {
  merge(host, s->known);
  for (auto* p : pools) trim(p, p->threshold);  // as the driver does then
}

void cuda_runtime::touch(cudaStream_t s, const std::vector<byte_access>& all) {
  merge(s->known, host);
  const std::size_t stamp = ++s->known[s->number];
  for (const byte_access& a : all) {
    const auto i = find_block(a.at);
    if (i != blocks.end()) {
      const block& b = i->second;
      const std::string who = "stream " + std::to_string(s->number);
      if (a.at + a.bytes > i->first + b.bytes) mistake(who + " works past the end of a block");
      if (b.released) mistake(who + " uses memory that was given back");
      if (b.stream && b.stamp > stamp_of(s->known, b.stream)) mistake(who + " uses memory before it is there");
      if (!has_access(s->device, b)) mistake(who + " cannot reach the memory of device " + std::to_string(b.device));
    }
    for (const past_access& p : past)
      if (overlap(p.what, a) && p.stamp > stamp_of(s->known, p.stream))
        mistake("stream " + std::to_string(s->number) + " and stream " + std::to_string(p.stream) +
                " use the same memory in no order");
  }
  for (const byte_access& a : all) past.push_back({a, s->number, stamp});
}

cudaError_t cuda_runtime::give(cudaStream_t s, work w) {
  if (!s->recording) {
    touch(s, w.accesses);
    return w.run(w);
  }
  w.stream = s->number;
  ++s->recorded_order[s->number];
  w.order = s->recorded_order;
  for (const work& before : s->recording->all)
    for (const byte_access& a : before.accesses)
      for (const byte_access& b : w.accesses)
        if (overlap(a, b) && stamp_of(before.order, before.stream) > stamp_of(w.order, before.stream))
          mistake("stream " + std::to_string(s->number) + " and stream " + std::to_string(before.stream) +
                  " use the same memory in no order of the recording");
  s->recording->all.push_back(std::move(w));
  return cudaSuccess;
}

cudaError_t give_call(cudaStream_t s, std::vector<byte_access> accesses, std::function<void()> run,
                      float milliseconds) {
  static std::vector<std::unique_ptr<std::function<void()>>> all;  // a recording may run it again
  all.push_back(std::make_unique<std::function<void()>>(std::move(run)));
  work w;
  w.run = [](const work& this_one) {
    (*static_cast<const std::function<void()>*>(this_one.from))();
    return cudaSuccess;
  };
  w.from = all.back().get();
  w.accesses = std::move(accesses);
  current->milliseconds += milliseconds;
  return current->give(s, std::move(w));
}

}  // namespace standin

namespace {

std::string text(cudaStream_t s) { return " stream " + std::to_string(s->number); }
std::string text(cudaEvent_t e) { return " event " + std::to_string(e->number); }
std::string text(std::size_t n) { return " " + std::to_string(n); }

/// Refuses a call that ends a recording that is in the making.
cudaError_t broken(cudaStream_t s, cudaError_t e) {
  s->recording->broken = true;
  return current->refuse(e);
}

cudaError_t run_copy(const work& w) { return std::memmove(w.to, w.from, w.bytes), cudaSuccess; }
cudaError_t run_clear(const work& w) { return std::memset(w.to, 0, w.bytes), cudaSuccess; }
cudaError_t run_doubling(const work& w) {
  for (std::size_t i = 0; i < w.bytes / sizeof(float); ++i) static_cast<float*>(w.to)[i] *= 2;
  return cudaSuccess;
}

using standin::part;

/// CUDA's calls destroy even where they report what went wrong before.
template <class Objects, class Object>
cudaError_t destroy(Objects& all, Object o, cudaError_t e) {
  if (!all.erase(o)) {
    current->mistake("something is destroyed that is not there");
    return current->refuse(cudaErrorInvalidResourceHandle);
  }
  delete o;
  return e;
}

}  // namespace

#define STANDIN_ENTER(what) \
  if (const cudaError_t failed = current->enter(what); failed != cudaSuccess) return failed

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t e = current ? current->last_error : cudaSuccess;
  if (current) current->last_error = cudaSuccess;
  return e;
}
const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }
const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfTheStandIn";
}

// ---- devices ----

cudaError_t cudaGetDeviceCount(int* count) {
  STANDIN_ENTER("cudaGetDeviceCount");
  *count = current->given.devices;
  return *count ? cudaSuccess : current->refuse(cudaErrorNoDevice);
}
cudaError_t cudaDriverGetVersion(int* version) {
  STANDIN_ENTER("cudaDriverGetVersion");
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current->current_device = device;  // and too often to be logged
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  STANDIN_ENTER("cudaGetDeviceProperties");
  *p = {};
  std::strcpy(p->name, "stand-in");
  p->totalGlobalMem = current->given.memory_bytes;
  p->multiProcessorCount = 1;
  p->major = 9;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  STANDIN_ENTER("cudaDeviceGetAttribute");
  if (which != cudaDevAttrMemoryPoolsSupported) return current->refuse(cudaErrorInvalidValue);
  *value = current->given.pools;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int from, int to) {
  STANDIN_ENTER("cudaDeviceCanAccessPeer" + text(std::size_t(from)) + text(std::size_t(to)));
  *can = current->given.peers;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int to, unsigned) {
  STANDIN_ENTER("cudaDeviceEnablePeerAccess" + text(std::size_t(to)));
  if (!current->given.peers) return current->refuse(cudaErrorPeerAccessUnsupported);
  current->peers.insert({current->current_device, to});
  return cudaSuccess;
}

// ---- memory ----

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  STANDIN_ENTER("cudaMemGetInfo");
  *total = current->given.memory_bytes;
  *free = *total - current->reserved_bytes(current->current_device);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, size_t bytes) {
  STANDIN_ENTER("cudaMalloc" + text(bytes));
  return current->take(bytes, current->current_device, nullptr, nullptr, data);
}
cudaError_t cudaFree(void* data) {
  const cudaError_t e = current->enter("cudaFree");
  const auto i = current->blocks.find(static_cast<std::byte*>(data));
  if (i == current->blocks.end() || i->second.pool) return current->mistake("cudaFree of what is not its own"), e;
  for (auto* s : current->streams) merge(current->host, s->known);  // it waits for the device
  current->release(i);
  return e;
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  STANDIN_ENTER("cudaHostAlloc" + text(bytes));
  *data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  current->host_blocks[static_cast<std::byte*>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  const cudaError_t e = current->enter("cudaFreeHost");
  const auto i = current->host_blocks.find(static_cast<std::byte*>(data));
  if (i == current->host_blocks.end()) return current->mistake("cudaFreeHost of what is not its own"), e;
  for (auto* s : current->streams) merge(current->host, s->known);
  current->forget_accesses(i->first, i->second);
  std::free(data);
  current->host_blocks.erase(i);
  return e;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* what, const void* at) {
  STANDIN_ENTER("cudaPointerGetAttributes");
  *what = {};
  const bool is_locked = current->is_page_locked(at, 1);
  what->type = is_locked                                          ? cudaMemoryTypeHost
               : current->find_block(at) != current->blocks.end() ? cudaMemoryTypeDevice
                                                                  : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* how) {
  STANDIN_ENTER("cudaMemPoolCreate device" + text(std::size_t(how->location.id)));
  if (how->allocType != cudaMemAllocationTypePinned || how->location.type != cudaMemLocationTypeDevice)
    return current->refuse(cudaErrorInvalidValue);
  if (!current->given.pools) return current->refuse(cudaErrorNotSupported);
  *pool = new CUmemPoolHandle_st{current->next_number++, how->location.id};
  current->pools.insert(*pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  const cudaError_t e = current->enter("cudaMemPoolDestroy");
  for (auto& [at, b] : current->blocks)
    if (b.pool == pool && !b.released) current->mistake("a pool is destroyed whose memory is in use");
  current->trim(pool, 0);
  return destroy(current->pools, pool, e);
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    STANDIN_ENTER("cudaMemPoolSetAccess of" + text(std::size_t(pool->device)) + " by" +
                  text(std::size_t(access[i].location.id)));
    if (access[i].flags != cudaMemAccessFlagsProtReadWrite || !current->given.peers)
      return current->refuse(cudaErrorInvalidDevice);
    pool->reached_by.insert(access[i].location.id);
  }
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  STANDIN_ENTER("cudaMemPoolSetAttribute");
  if (which != cudaMemPoolAttrReleaseThreshold) return current->refuse(cudaErrorInvalidValue);
  pool->threshold = *static_cast<std::uint64_t*>(value);
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  STANDIN_ENTER("cudaMemPoolGetAttribute");
  std::uint64_t reserved = 0, used = 0;
  for (const auto& [at, b] : current->blocks)
    if (b.pool == pool) reserved += b.bytes, used += b.released ? 0 : b.bytes;
  *static_cast<std::uint64_t*>(value) = which == cudaMemPoolAttrReservedMemCurrent ? reserved : used;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  STANDIN_ENTER("cudaMemPoolTrimTo" + text(keep));
  current->trim(pool, keep);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** data, size_t bytes, cudaMemPool_t pool, cudaStream_t s) {
  STANDIN_ENTER("cudaMallocFromPoolAsync" + text(bytes) + text(s));
  if (s->recording) current->mistake("an allocation becomes a part of a recording");
  return current->take(bytes, pool->device, pool, s, data);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t s) {
  const cudaError_t e = current->enter("cudaFreeAsync" + text(s));
  const auto i = current->blocks.find(static_cast<std::byte*>(data));
  if (i == current->blocks.end() || !i->second.pool || i->second.released)
    return current->mistake("cudaFreeAsync of what is not a pool's"), e;
  if (s->recording) current->mistake("a release becomes a part of a recording");
  merge(s->known, current->host);
  const byte_access all{i->first, i->second.bytes, true};
  for (const auto& p : current->past)
    if (overlap(p.what, all) && p.stamp > stamp_of(s->known, p.stream))
      current->mistake("memory is given back while stream " + std::to_string(p.stream) + " may use it");
  i->second.released = true;
  i->second.stream = s->number;
  i->second.stamp = ++s->known[s->number];
  return e;
}

// ---- streams and events ----

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  STANDIN_ENTER("cudaStreamCreateWithFlags");
  if (flags != cudaStreamNonBlocking) current->mistake("a stream that waits for the legacy default stream");
  *s = new CUstream_st{current->next_number++, current->current_device};
  current->streams.insert(*s);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  const cudaError_t e = current->enter("cudaStreamDestroy" + text(s));
  return destroy(current->streams, s, e);
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  STANDIN_ENTER("cudaStreamSynchronize" + text(s));
  if (s->recording) return broken(s, cudaErrorStreamCaptureUnsupported);
  current->synchronize(s);
  return cudaSuccess;
}
// All work is done when it is given; the host, which has asked, knows it.
cudaError_t cudaStreamQuery(cudaStream_t s) {
  STANDIN_ENTER("cudaStreamQuery" + text(s));
  if (s->recording) return broken(s, cudaErrorStreamCaptureUnsupported);
  current->synchronize(s);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  STANDIN_ENTER("cudaEventCreateWithFlags");
  *e = new CUevent_st{current->next_number++, current->current_device};
  current->events.insert(*e);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  STANDIN_ENTER("cudaEventElapsedTime");
  return *milliseconds = to->at - from->at, cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  STANDIN_ENTER("cudaEventSynchronize" + text(e));
  if (e->recording) return current->refuse(cudaErrorCapturedEvent);
  merge(current->host, e->known);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const cudaError_t e = current->enter("cudaEventDestroy");
  return destroy(current->events, event, e);
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  STANDIN_ENTER("cudaEventRecord" + text(e) + text(s));
  if (e->device != s->device) return current->refuse(cudaErrorInvalidResourceHandle);
  e->recording = s->recording;
  e->recorded_order = s->recorded_order;
  if (s->recording) return cudaSuccess;
  merge(s->known, current->host);
  e->known = s->known;
  e->at = current->milliseconds;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  STANDIN_ENTER("cudaStreamWaitEvent" + text(s) + text(e));
  if (s->recording && s->recording != e->recording) return broken(s, cudaErrorStreamCaptureIsolation);
  if (e->recording) {  // the stream takes part from now on
    s->recording = e->recording;
    merge(s->recorded_order, e->recorded_order);
  } else {
    merge(s->known, e->known);
  }
  return cudaSuccess;
}

// ---- work ----

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t s) {
  STANDIN_ENTER("cudaMemcpyAsync" + text(bytes) + text(s));
  work w{run_copy, to, from, bytes, {}, 0, {}};
  bool pageable = false;
  for (const byte_access& a : {part(to, bytes, true), part(from, bytes, false)})
    if (current->find_block(a.at) != current->blocks.end() || current->is_page_locked(a.at, bytes))
      w.accesses.push_back(a);
    else
      pageable = true;
  if (pageable && s->recording) return broken(s, cudaErrorStreamCaptureUnsupported);
  const cudaError_t e = current->give(s, w);
  if (pageable) current->synchronize(s);
  return e;
}
cudaError_t cudaMemsetAsync(void* to, int, size_t bytes, cudaStream_t s) {
  STANDIN_ENTER("cudaMemsetAsync" + text(bytes) + text(s));
  return current->give(s, {run_clear, to, nullptr, bytes, {part(to, bytes, true)}, 0, {}});
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int bytes) {
  STANDIN_ENTER("cudaFuncSetAttribute" + text(std::size_t(bytes)));
  return bytes <= 227 * 1024 ? cudaSuccess : current->refuse(cudaErrorInvalidValue);
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 threads, void** arguments, size_t, cudaStream_t s) {
  STANDIN_ENTER("cudaLaunchKernel" + text(std::size_t(grid.x)) + text(std::size_t(threads.x)) + text(s));
  if (kernel != &doubling_kernel) return current->refuse(cudaErrorInvalidDeviceFunction);
  if (threads.x > 1024) return current->refuse(cudaErrorInvalidConfiguration);
  doubling d;
  std::memcpy(&d, arguments[0], sizeof d);
  const std::size_t bytes = d.n * sizeof(float);
  return current->give(s, {run_doubling, d.data, nullptr, bytes, {part(d.data, bytes, true)}, 0, {}});
}

// ---- recordings ----

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  STANDIN_ENTER("cudaStreamBeginCapture" + text(s));
  if (mode != cudaStreamCaptureModeRelaxed) current->mistake("libraries may not take memory in this mode");
  if (s->recording) return broken(s, cudaErrorIllegalState);
  s->recording = std::make_shared<capture>();
  s->recording->origin = s;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  const cudaError_t failed = current->enter("cudaStreamEndCapture" + text(s));
  *graph = nullptr;
  if (!s->recording || s->recording->origin != s) return current->refuse(cudaErrorIllegalState);
  const auto ended = s->recording;
  bool joined = true;
  for (auto* other : current->streams)
    if (other->recording == ended) {
      for (const auto& [stream, stamp] : other->recorded_order)
        joined = joined && stamp <= stamp_of(s->recorded_order, stream);
      if (other != s) other->recording.reset(), other->recorded_order.clear();
    }
  s->recording.reset(), s->recorded_order.clear();
  if (failed != cudaSuccess) return failed;
  if (ended->broken) return current->refuse(cudaErrorStreamCaptureInvalidated);
  if (!joined) return current->refuse(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{current->next_number++, ended->all, {}};
  for (std::size_t i = 0; i < ended->all.size(); ++i) (*graph)->nodes.push_back({*graph, i});
  current->graphs.insert(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* work, cudaGraph_t graph, unsigned long long) {
  STANDIN_ENTER("cudaGraphInstantiate");
  *work = new CUgraphExec_st{current->next_number++, graph->all, graph};
  current->recorded.insert(*work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const cudaError_t e = current->enter("cudaGraphDestroy");
  return destroy(current->graphs, graph, e);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t work) {
  const cudaError_t e = current->enter("cudaGraphExecDestroy");
  return destroy(current->recorded, work, e);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  STANDIN_ENTER("cudaGraphGetNodes");
  for (std::size_t i = 0; nodes && i < *count && i < graph->nodes.size(); ++i) nodes[i] = &graph->nodes[i];
  *count = graph->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t n, cudaGraphNodeType* type) {
  STANDIN_ENTER("cudaGraphNodeGetType");
  const auto run = n->graph->all[n->index].run;
  *type = run == run_copy    ? cudaGraphNodeTypeMemcpy
          : run == run_clear ? cudaGraphNodeTypeMemset
                             : cudaGraphNodeTypeKernel;
  return cudaSuccess;
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t n, cudaMemcpy3DParms* what) {
  STANDIN_ENTER("cudaGraphMemcpyNodeGetParams");
  const work& w = n->graph->all[n->index];
  if (w.run != run_copy) return current->refuse(cudaErrorInvalidValue);
  *what = {};
  what->srcPtr.ptr = const_cast<void*>(w.from), what->dstPtr.ptr = w.to;
  what->extent = {w.bytes, 1, 1};
  return cudaSuccess;
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t all, cudaGraphNode_t n, void* to, const void* from,
                                               size_t bytes, cudaMemcpyKind) {
  STANDIN_ENTER("cudaGraphExecMemcpyNodeSetParams1D" + text(bytes));
  if (!current->graphs.count(all->graph) || n->graph != all->graph) {
    current->mistake("a recording is changed by a node of a graph that it was not made of, or that is gone");
    return current->refuse(cudaErrorInvalidValue);
  }
  work& w = all->all[n->index];
  if (w.run != run_copy || bytes == 0 || current->is_page_locked(from, bytes) != current->is_page_locked(w.from, 1))
    return current->refuse(cudaErrorInvalidValue);
  w.to = to, w.from = from, w.bytes = bytes;
  w.accesses = {part(to, bytes, true), part(from, bytes, false)};
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t s) {
  STANDIN_ENTER("cudaGraphUpload" + text(s));
  return s->recording ? broken(s, cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t all, cudaStream_t s) {
  STANDIN_ENTER("cudaGraphLaunch" + text(s));
  std::vector<byte_access> accesses;
  for (const work& w : all->all) accesses.insert(accesses.end(), w.accesses.begin(), w.accesses.end());
  current->touch(s, accesses);
  for (const work& w : all->all) w.run(w);
  return cudaSuccess;
}

}  // extern "C"

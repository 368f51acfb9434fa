// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

/// A CUDA runtime that a test links in NVIDIA's place: it runs on any machine with the toolkit's headers, logs what it
/// is asked, refuses what CUDA refuses, and fails where a test wants it to.
///
/// Work is done at once, in the order in which it is given. Vector clocks find what a GPU would make of it: of two
/// accesses to the same bytes, one of them a write, one must be ordered before the other, by their stream, by events or
/// by a wait of the host; and so must an allocation before its uses, and these before its release.
namespace standin {

/// How far each stream has come, as far as somebody knows.
using progress = std::map<int, std::size_t>;

struct byte_access {
  const std::byte* at;
  std::size_t bytes;
  bool writes;
};

/// A piece of work, done when it is given or when its graph is launched.
struct work {
  cudaError_t (*run)(const work&) = nullptr;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  std::vector<byte_access> accesses;
  int stream = 0;
  progress order;  // in its capture
};

struct capture;

/// The argument of the one kernel that there is: doubles n floats.
struct doubling {
  float* data;
  std::size_t n;
};
inline const char doubling_kernel = 0;  // its address stands for the kernel

class cuda_runtime {
 public:
  struct settings {
    int devices = 1;
    std::size_t memory_bytes = std::size_t{4} << 30;  ///< in each; counted, and taken from the host when it is used
    bool pools = true;                                ///< cudaDevAttrMemoryPoolsSupported
    bool peers = true;                                ///< whether devices can reach each other
  };

  explicit cuda_runtime(settings s);
  cuda_runtime() : cuda_runtime(settings()) {}
  cuda_runtime(const cuda_runtime&) = delete;
  cuda_runtime& operator=(const cuda_runtime&) = delete;
  ~cuda_runtime();

  /// The n-th call from now on fails, 1 being the next one. One that destroys does so all the same. Calls that cannot
  /// fail do not count.
  void fail(std::size_t n, cudaError_t with) { failing_ = calls + n, failure_ = with; }

  /// Calls since the beginning, "cudaMallocFromPoolAsync 1000 pool 1 stream 2", and how many.
  std::vector<std::string> log;
  std::size_t calls = 0;
  /// The numbers of calls in the log whose text begins like this.
  std::vector<std::size_t> find(const std::string& beginning) const;
  std::size_t count(const std::string& beginning) const { return find(beginning).size(); }

  /// Mistakes that CUDA would not have noticed.
  std::vector<std::string> mistakes;
  cudaError_t last_error = cudaSuccess;

  /// All that exists: "stream 1", "event 2", "graph 3", "recorded 4", "pool 5", "block of 100", "host block of 100".
  std::vector<std::string> left() const;
  /// The reserved bytes of a device: in pools, given back or not, and by cudaMalloc.
  std::size_t reserved_bytes(int device) const;
  std::map<int, std::size_t> max_reserved_bytes;
  float milliseconds = 0;  ///< that calls of libraries have taken

  // ---- for the functions of CUDA ----

  /// Logs a call; whether it fails, and with what.
  cudaError_t enter(const std::string& what);
  cudaError_t refuse(cudaError_t e) { return last_error = e; }
  void mistake(const std::string& what) { mistakes.push_back(what); }

  struct block {
    std::size_t bytes = 0;
    int device = 0;
    cudaMemPool_t pool = nullptr;
    bool released = false;
    int stream = 0;         // that took it, or released it
    std::size_t stamp = 0;  // when
  };
  struct past_access {
    byte_access what;
    int stream;
    std::size_t stamp;
  };

  cudaError_t take(std::size_t bytes, int device, cudaMemPool_t pool, cudaStream_t stream, void** data);
  void release(std::map<const std::byte*, block>::iterator at);
  /// Frees blocks of a pool that the host knows to be released, until it has no more than so much.
  void trim(cudaMemPool_t pool, std::size_t keep);
  void forget_accesses(const std::byte* at, std::size_t bytes);
  /// Gives work to a stream: records it or does it.
  cudaError_t give(cudaStream_t stream, work w);
  /// Checks what is accessed by a stream now.
  void touch(cudaStream_t stream, const std::vector<byte_access>& all);
  void synchronize(cudaStream_t stream);
  std::map<const std::byte*, block>::iterator find_block(const void* at);
  bool is_page_locked(const void* at, std::size_t bytes) const;
  bool has_access(int device, const block& b) const;

  settings given;
  int current_device = 0, next_number = 1;
  progress host;
  std::map<const std::byte*, block> blocks;
  std::map<const std::byte*, std::size_t> host_blocks;
  std::vector<past_access> past;
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> recorded;
  std::set<cudaMemPool_t> pools;
  std::set<std::pair<int, int>> peers;  // enabled: from, to

 private:
  std::size_t failing_ = 0;
  cudaError_t failure_ = cudaSuccess;
};

/// Gives a stream work that is none of the runtime's: a library's call, which takes so many milliseconds.
cudaError_t give_call(cudaStream_t stream, std::vector<byte_access> accesses, std::function<void()> run,
                      float milliseconds = 0);

inline byte_access part(const void* at, std::size_t bytes, bool writes) {
  return {static_cast<const std::byte*>(at), bytes, writes};
}

}  // namespace standin

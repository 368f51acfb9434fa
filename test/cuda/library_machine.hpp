// SPDX-License-Identifier: BSL-1.0
#pragma once

// The tests of libraries' calls share this: a machine of stand-ins, and numbers in its memory.

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <weft/cuda.hpp>

#include "cublaslt.hpp"
#include "cudnn.hpp"

namespace test {

/// A machine with a GPU and its libraries, installed as long as it lives. At its end nothing is left, and no mistake
/// was made.
struct machine {
  standin::cuda_runtime cuda;
  standin::cudnn_library cudnn;
  standin::cublaslt_library cublaslt;
  std::unique_ptr<weft::gpu::cuda_platform> gpus = std::make_unique<weft::gpu::cuda_platform>();
  weft::gpu::device& d = gpus->at(0);
  weft::owned<weft::gpu::queue> q = d.make_queue();

  machine() { weft::gpu::installed_platform = gpus.get(); }
  ~machine() {
    weft::gpu::installed_platform = nullptr;
    q = {};
    gpus.reset();
    for (const auto& all : {cuda.mistakes, cudnn.mistakes, cublaslt.mistakes, cuda.left()})
      for (const std::string& m : all) BOOST_ERROR(m);
    BOOST_CHECK_EQUAL(cudnn.descriptors, 0);
    BOOST_CHECK_EQUAL(cudnn.handles, 0);
    BOOST_CHECK_EQUAL(cublaslt.handles, 0);
  }
};

/// Halves of small integers: exact in every type, and in any order.
inline float number(std::size_t i) { return static_cast<float>(static_cast<int>(i * 7 % 11) - 5) / 2; }

/// Elements in memory of the GPU, which the host reads and writes here.
template <class T>
struct array {
  weft::gpu::device_memory memory;
  std::size_t elements;
  array(weft::gpu::device& d, std::size_t n) : memory(d, n * sizeof(T), "an array"), elements(n) {}
  T* data() const { return reinterpret_cast<T*>(memory.data()); }
};

}  // namespace test

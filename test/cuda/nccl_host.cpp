// SPDX-License-Identifier: BSL-1.0
// Sums over GPUs: between those of this process, and between tasks of a cluster, of which this process is the only one.
// Compiled by the host's compiler. With NCCL_STANDIN, stand-ins for CUDA and NCCL have three GPUs on any machine.
#include <chrono>
#include <vector>
#include <weft/cuda.hpp>
#include <weft/distributed/collective/nccl_all_reduce.hpp>
#include <weft/distributed/training/replicated_session.hpp>

#if defined(NCCL_STANDIN)
  #include <boost/test/unit_test.hpp>
  #include <cstdio>

  #include "standin/nccl.hpp"
#else
  #include "on_gpu.hpp"
#endif

using namespace weft;

#if defined(NCCL_STANDIN)
int main(int count, char** arguments) {
  standin::cuda_runtime cuda({.devices = 3});
  standin::nccl_library nccl;
  int result = 0;
  {
    gpu::cuda_platform gpus;
    gpu::installed_platform = &gpus;
    result = standin::run(count, arguments);
    gpu::installed_platform = nullptr;
  }
  for (const auto& all : {cuda.mistakes, nccl.mistakes, cuda.left()})
    for (const std::string& each : all) {
      std::printf("%s\n", each.c_str());
      result = 1;
    }
  if (nccl.communicators != 0) {
    std::printf("%d communicators are left\n", nccl.communicators);
    result = 1;
  }
  return result;
}
#endif

BOOST_AUTO_TEST_CASE(the_gpus_of_a_process_sum) {
  const int count = gpu::installed_platform->count();
  std::vector<int> ordinals;
  std::vector<owned<gpu::queue>> owners;
  std::vector<gpu::queue*> queues;
  std::vector<float*> data;
  const std::vector<float> ones(1000, 1);
  for (int i = 0; i < count; ++i) {
    auto& d = gpu::installed_platform->at(i);
    ordinals.push_back(i);
    owners.push_back(d.make_queue());
    queues.push_back(owners.back().get());
    data.push_back(reinterpret_cast<float*>(d.allocate(4000)));
    queues.back()->copy(data.back(), ones.data(), 4000);
  }
  gpu::nccl_devices group(ordinals);
  group.reduce(queues.data(), data.data(), 1000, gpu::nccl_reduction::sum);
  for (int i = 0; i < count; ++i) {
    std::vector<float> back(1000);
    queues[static_cast<std::size_t>(i)]->copy(back.data(), data[static_cast<std::size_t>(i)], 4000);
    queues[static_cast<std::size_t>(i)]->synchronize();
    BOOST_CHECK_EQUAL(back[0], static_cast<float>(count));
    BOOST_CHECK_EQUAL(back[999], static_cast<float>(count));
    gpu::installed_platform->at(i).deallocate(reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(i)]));
  }
}

BOOST_AUTO_TEST_CASE(a_task_alone_is_a_group) {
  cluster_spec cluster;
  cluster.add_job("worker", "127.0.0.1:42781");
  server here(cluster, "worker", 0);
  nccl_all_reduce group(here, gpu::installed_platform->at(0));
  BOOST_CHECK_EQUAL(group.size(), std::size_t{1});
  std::vector<double> x(300, 2.5);
  group.mean(std::span<double>(x));
  BOOST_CHECK_EQUAL(x[0], 2.5);
  group.sum(std::span<double>(x));
  BOOST_CHECK_EQUAL(x[299], 2.5);
}

BOOST_AUTO_TEST_CASE(a_replicated_session_trains_over_nccl) {
  graph g(1);
  auto x = placeholder<float, dims<4, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w", init::zeros{});
  auto loss = sum(matmul(x, w));
  auto train = gradient_descent{.learning_rate = 0.5}.minimize(loss);
  cluster_spec cluster;
  cluster.add_job("worker", "127.0.0.1:42783");
  server here(cluster, "worker", 0);
  replicated_session s(g, here, nccl_collective{});  // its own arithmetic on the CPU
  auto step = s.prepare(fetch(loss, train), feed(x));
  tensor<float, dims<4, 3>> ones;
  for (int k = 0; k < 12; ++k) ones.data()[k] = 1;
  step(ones);
  BOOST_CHECK_EQUAL(std::get<0>(step(ones)), -0.5f * 4 * 4 * 3 * 2);
}

// SPDX-License-Identifier: BSL-1.0
#include <sys/wait.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
#include <weft/tensor/block_pool.hpp>
#include <weft/tensor/storage.hpp>

using weft::host_allocator;
using weft::detail::block_pool;

BOOST_AUTO_TEST_CASE(blocks_of_any_size_are_aligned_and_apart) {
  std::vector<std::size_t> sizes{0, 1, 63, 64, 65, 1000};
  for (std::size_t size = block_pool::smallest / 2; size <= 4 * block_pool::largest; size *= 2)
    for (const std::size_t near : {size - 129, size - 65, size - 64, size - 63, size, size + 1, size + size / 2})
      sizes.push_back(near);
  for (int round = 0; round < 2; ++round) {
    std::vector<unsigned char*> blocks;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      blocks.push_back(static_cast<unsigned char*>(host_allocator::allocate(sizes[i])));
      BOOST_CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(blocks[i]) % weft::alignment, 0u);
      std::memset(blocks[i], static_cast<int>(i), sizes[i]);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::size_t wrong = 0;
      for (std::size_t k = 0; k < sizes[i]; ++k) wrong += blocks[i][k] != static_cast<unsigned char>(i);
      BOOST_CHECK_EQUAL(wrong, 0u);
      host_allocator::deallocate(blocks[i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(pooled_sizes_hold_what_they_are_for) {
  for (std::size_t bytes = block_pool::smallest + 1; bytes <= block_pool::largest; bytes += bytes < 70000 ? 1 : 997) {
    const unsigned index = block_pool::size_index(bytes);
    BOOST_REQUIRE(index < block_pool::sizes);
    BOOST_REQUIRE(block_pool::size_at(index) >= bytes && block_pool::size_at(index) % weft::alignment == 0);
    BOOST_REQUIRE(index == 0 || block_pool::size_at(index - 1) < bytes);
  }
  BOOST_CHECK_EQUAL(block_pool::size_at(block_pool::sizes - 1), block_pool::largest);
}

BOOST_AUTO_TEST_CASE(a_returned_block_is_used_again) {
  const unsigned index = block_pool::size_index(400'000);
  void* const first = block_pool::take(index);
  void* const second = block_pool::take(index);
  BOOST_CHECK_GE(std::abs(static_cast<char*>(second) - static_cast<char*>(first)), 400'000);
  block_pool::give(first, index);
  BOOST_CHECK_EQUAL(block_pool::take(index), first);
  block_pool::give(second, index);
  block_pool::give(first, index);
}

BOOST_AUTO_TEST_CASE(threads_take_and_return_at_once) {
  const auto work = [](unsigned char mark, std::size_t* wrong) {
    for (int i = 0; i < 300; ++i) {
      const std::size_t bytes = 70'000 + static_cast<std::size_t>(i % 7) * 50'000;
      weft::storage mine(bytes), other(100'000);
      std::memset(mine.data(), mark, bytes);
      std::memset(other.data(), mark + 1, 100'000);
      for (std::size_t k = 0; k < bytes; k += 997) *wrong += mine.data()[k] != std::byte{mark};
    }
  };
  std::size_t wrong[4] = {};
  std::vector<std::thread> threads;
  for (unsigned char t = 0; t < 4; ++t) threads.emplace_back(work, t, &wrong[t]);
  for (auto& t : threads) t.join();
  for (const std::size_t w : wrong) BOOST_CHECK_EQUAL(w, 0u);
}

BOOST_AUTO_TEST_CASE(a_forked_child_takes_blocks_whatever_other_threads_were_doing) {
  const unsigned index = block_pool::size_index(100'000);
  block_pool::give(block_pool::take(index), index);
  bool stop = false;
  std::thread busy([&] {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) block_pool::give(block_pool::take(index), index);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      for (int k = 0; k < 10; ++k) block_pool::give(block_pool::take(index + 1), index + 1);
      _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    BOOST_CHECK_EQUAL(status, 0);
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  busy.join();
}

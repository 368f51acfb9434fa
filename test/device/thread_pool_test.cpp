// SPDX-License-Identifier: BSL-1.0
#include <sys/wait.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>
#include <weft/device/cpu/thread_pool.hpp>

#include "errors.hpp"

using weft::thread_pool;

BOOST_AUTO_TEST_CASE(every_chunk_runs_exactly_once) {
  for (int threads = 1; threads <= 4; ++threads) {
    thread_pool pool(threads);
    BOOST_TEST(pool.size() == threads);
    for (std::size_t chunks : {0u, 1u, 2u, 3u, 7u, 64u, 1000u}) {
      std::vector<int> runs(chunks, 0);
      pool.parallel_for(chunks, [&](std::size_t chunk) { ++runs[chunk]; });
      for (int count : runs) BOOST_REQUIRE(count == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(many_small_calls_see_each_others_results) {
  for (int threads = 1; threads <= 4; ++threads) {
    thread_pool pool(threads);
    std::vector<long> sums(8, 0);
    for (int call = 0; call < 5000; ++call)
      pool.parallel_for(sums.size(), [&](std::size_t chunk) { sums[chunk] += sums[chunk] % 3 + 1; });
    for (long sum : sums) BOOST_REQUIRE(sum == sums[0]);
  }
}

BOOST_AUTO_TEST_CASE(workers_that_sleep_are_woken) {
  thread_pool pool(3);
  for (int call = 0; call < 20; ++call) {
    usleep(1000);
    std::atomic<int> runs{0};
    pool.parallel_for(5, [&](std::size_t) { ++runs; });
    BOOST_REQUIRE(runs == 5);
  }
}

BOOST_AUTO_TEST_CASE(work_is_really_shared) {
  thread_pool pool(2);
  std::atomic<int> arrived{0};
  // Each chunk waits for the other, so that one thread alone would never finish.
  pool.parallel_for(2, [&](std::size_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  BOOST_TEST(arrived == 2);
}

BOOST_AUTO_TEST_CASE(nested_calls_run_inline) {
  thread_pool outer(3), other(2);
  std::atomic<int> runs{0};
  outer.parallel_for(6, [&](std::size_t) {
    const auto self = std::this_thread::get_id();
    const auto count = [&](std::size_t) {
      if (std::this_thread::get_id() == self) ++runs;
    };
    outer.parallel_for(4, count);
    other.parallel_for(4, count);
  });
  BOOST_TEST(runs == 48);
}

BOOST_AUTO_TEST_CASE(callers_from_several_threads_do_not_disturb_each_other) {
  thread_pool pool(2);
  std::atomic<long> runs{0};
  const auto caller = [&] {
    for (int call = 0; call < 500; ++call) pool.parallel_for(9, [&](std::size_t) { ++runs; });
  };
  std::thread a(caller), b(caller);
  caller();
  a.join(), b.join();
  BOOST_TEST(runs == 3 * 500 * 9);
}

BOOST_AUTO_TEST_CASE(an_exception_reaches_the_caller_and_the_pool_lives_on) {
  for (int threads = 1; threads <= 4; ++threads) {
    thread_pool pool(threads);
    for (int call = 0; call < 200; ++call) {
      BOOST_REQUIRE_THROW(pool.parallel_for(50,
                                            [&](std::size_t chunk) {
                                              if (chunk % 7 == 3) throw std::runtime_error("chunk");
                                            }),
                          std::runtime_error);
      std::atomic<int> runs{0};
      pool.parallel_for(10, [&](std::size_t) { ++runs; });
      BOOST_REQUIRE(runs == 10);
    }
  }
}

BOOST_AUTO_TEST_CASE(workers_stay_on_the_cores_given) {
  const int core = weft::available_cores()[0];
  thread_pool pool(3, {core});
  const auto caller = std::this_thread::get_id();
  std::atomic<int> elsewhere{0};
  pool.parallel_for(100, [&](std::size_t) {
    if (std::this_thread::get_id() != caller && sched_getcpu() != core) ++elsewhere;
    std::this_thread::yield();
  });
  BOOST_TEST(elsewhere <= 2);  // a worker may begin before it is bound
}

BOOST_AUTO_TEST_CASE(a_pool_without_threads_is_refused) {
  BOOST_CHECK_EXCEPTION(thread_pool(0), weft::error, test::says(weft::error_code::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_forked_child_works_alone) {
  thread_pool pool(2);
  pool.parallel_for(4, [](std::size_t) {});
  const pid_t child = fork();
  if (child == 0) {
    int runs = 0;
    pool.parallel_for(4, [&](std::size_t) { ++runs; });
    pool.~thread_pool();
    _exit(runs == 4 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  BOOST_TEST(status == 0);
}

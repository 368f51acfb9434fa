// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <weft/device/gpu/body.hpp>
#include "emulated.hpp"

#include "errors.hpp"

using namespace weft;

namespace {

/// Every block writes the sum of its threads' numbers, and adds its own.
struct sum_body {
  static constexpr unsigned threads = 64;
  static constexpr int phases = 2;
  struct block_memory {
    float x[threads];
  };
  using thread_memory = gpu::nothing;
  float* to;
  float factor;
  template <int Phase>
  WEFT_HOST_DEVICE void run(const gpu::place& at, thread_memory&, block_memory& ours) const {
    if constexpr (Phase == 0) {
      ours.x[at.thread] = factor * static_cast<float>(at.thread);
    } else if (at.thread == 0) {
      float sum = 0;
      for (float x : ours.x) sum += x;
      to[at.block + at.blocks * at.block_y] = sum + static_cast<float>(at.block);
    }
  }
};

struct fixture {
  gpu::emulated_platform gpus{{.devices = 2, .memory_bytes = 1 << 20}};
  gpu::device& d = gpu::installed_platform->at(0);
  owned<gpu::queue> q = d.make_queue();
  gpu::function f = gpu::function_of<sum_body>("sum");
};

const auto is_internal = test::says(error_code::internal);

}  // namespace

BOOST_AUTO_TEST_CASE(it_is_installed_while_it_lives) {
  {
    gpu::emulated_platform gpus;
    BOOST_TEST(gpu::installed_platform == &gpus);
    BOOST_TEST(gpus.opened() == 0);
    BOOST_TEST(gpus.at(0).info().memory_bytes == 256u << 20);
    BOOST_TEST(gpus.opened() == 1);
    BOOST_CHECK_THROW(gpus.at(1), error);
  }
  BOOST_TEST(gpu::installed_platform == nullptr);
}

BOOST_FIXTURE_TEST_CASE(kernels_run_when_somebody_waits, fixture) {
  auto* to = reinterpret_cast<float*>(d.allocate(6 * sizeof(float)));
  auto* host = reinterpret_cast<float*>(d.allocate_host(6 * sizeof(float)));
  for (bool backwards : {false, true}) {
    gpu::emulate_backwards = backwards;
    sum_body b{to, 2};
    gpu::launch(*q, f, b, 3, 2);
    q->copy(host, to, 6 * sizeof(float));
    b.factor = 100;  // not seen: arguments are copied
    if (!backwards) BOOST_TEST(std::isnan(host[0]));
    q->synchronize();
    for (int i = 0; i < 6; ++i) BOOST_TEST(host[i] == 2 * 63 * 32 + i % 3);
  }
  gpu::emulate_backwards = false;
  BOOST_TEST(gpus.device(0).count().kernels == 2u);
  BOOST_TEST(gpus.device(0).count().copies == 2u);
  BOOST_TEST(gpus.device(0).count().pageable_copies == 0u);
  d.deallocate_host(reinterpret_cast<std::byte*>(host));
  d.deallocate(reinterpret_cast<std::byte*>(to));
  BOOST_TEST(gpus.device(0).count().live_bytes == 0u);
  BOOST_TEST(gpus.device(0).mistakes().empty());
}

BOOST_FIXTURE_TEST_CASE(recordings_replay_with_the_arguments_they_were_made_with, fixture) {
  auto* to = reinterpret_cast<float*>(d.allocate(2 * sizeof(float)));
  float host[2] = {};
  sum_body b{to, 1};
  q->begin_recording();
  gpu::launch(*q, f, b, 2);
  BOOST_CHECK_EXCEPTION(q->copy(host, to, sizeof host), error, is_internal);  // not page-locked
  BOOST_CHECK_EXCEPTION(q->synchronize(), error, is_internal);
  const auto r = q->end_recording();
  b.factor = 7;
  for (int i = 0; i < 3; ++i) {
    q->clear(to, 2 * sizeof(float));
    q->copy(host, to, sizeof host);
    BOOST_TEST(host[1] == 0);
    q->launch(*r);
    q->copy(host, to, sizeof host);
    BOOST_TEST(host[0] == 2016);
    BOOST_TEST(host[1] == 2017);
  }
  const auto& n = gpus.device(0).count();
  BOOST_TEST(n.recordings == 1u);
  BOOST_TEST(n.recording_launches == 3u);
  BOOST_TEST(n.launches == 1u);
  BOOST_TEST(n.kernels == 3u);
}

BOOST_FIXTURE_TEST_CASE(other_queues_join_a_recording, fixture) {
  auto* to = reinterpret_cast<float*>(d.allocate(2 * sizeof(float)));
  const auto other = d.make_queue();
  sum_body b{to, 1};
  q->begin_recording();
  other->wait_for(*q);
  gpu::launch(*other, f, b, 2);
  BOOST_CHECK_EXCEPTION(q->end_recording(), error, is_internal);
  q->begin_recording();
  other->wait_for(*q);
  gpu::launch(*other, f, b, 2);
  q->wait_for(*other);
  const auto r = q->end_recording();
  q->launch(*r);
  q->synchronize();
  BOOST_TEST(gpus.device(0).count().kernels == 1u);
}

BOOST_FIXTURE_TEST_CASE(queues_wait_for_each_other, fixture) {
  auto& d1 = gpus.at(1);
  auto* a = reinterpret_cast<float*>(d.allocate(sizeof(float)));
  auto* b = reinterpret_cast<float*>(d1.allocate(sizeof(float)));
  const auto q1 = d1.make_queue();
  auto* host = reinterpret_cast<float*>(d.allocate_host(sizeof(float)));
  *host = 5;
  q->copy(a, host, sizeof(float));
  q1->wait_for(*q);
  q1->copy(b, a, sizeof(float));
  q1->copy(host, b, sizeof(float));
  q1->synchronize();
  BOOST_TEST(*host == 5);
  d.deallocate_host(reinterpret_cast<std::byte*>(host));
}

BOOST_AUTO_TEST_CASE(queues_that_do_not_wait_for_each_other_work_in_either_order) {
  for (const bool early : {false, true})
    for (const bool recorded : {false, true})
      for (const bool waits : {false, true}) {
        gpu::emulated_platform gpus({.early = early});
        auto& d = gpus.device(0);
        const auto q = d.make_queue(), other = d.make_queue();
        float* const host = reinterpret_cast<float*>(d.allocate_host(3 * sizeof(float)));
        std::byte *const a = d.allocate(sizeof(float)), *const b = d.allocate(sizeof(float));
        host[0] = 1, host[1] = 2, host[2] = 3;
        q->copy(b, host, sizeof(float));
        q->synchronize();
        const auto work = [&] {
          other->wait_for(*q);
          q->copy(a, host + 1, sizeof(float));
          if (waits) other->wait_for(*q);
          other->copy(b, a, sizeof(float));  // wrong if it comes before the copy to a
          if (waits) q->wait_for(*other);
          q->copy(host + 2, b, sizeof(float));  // wrong if it comes before the copy to b
          q->wait_for(*other);
        };
        owned<gpu::recording> r;
        if (recorded) {
          q->begin_recording();
          work();
          r = q->end_recording();
          q->launch(*r);
          BOOST_TEST(host[2] == 3);
        } else {
          work();
        }
        q->synchronize();
        if (waits)
          BOOST_TEST(host[2] == 2);
        else if (early)
          BOOST_TEST(std::isnan(host[2]));
        else
          BOOST_TEST(host[2] == 1);
        r = {};
        d.deallocate_host(reinterpret_cast<std::byte*>(host));
        BOOST_TEST(d.mistakes().empty());
      }
}

BOOST_FIXTURE_TEST_CASE(memory_is_limited_poisoned_and_checked, fixture) {
  std::byte* const p = d.allocate(600 << 10);
  BOOST_TEST_REQUIRE((p != nullptr));
  BOOST_TEST((d.allocate(600 << 10) == nullptr));
  float x = 0;
  q->copy(&x, p, sizeof x);
  BOOST_TEST(std::isnan(x));
  BOOST_CHECK_EXCEPTION(q->copy(&x, p + (600 << 10) - 2, sizeof x), error, is_internal);
  BOOST_CHECK_EXCEPTION(q->clear(&x, sizeof x), error, is_internal);
  gpus.look([&] { p[600 << 10] = std::byte{1}; });
  d.deallocate(p);
  BOOST_TEST(gpus.device(0).mistakes().size() == 1u);
  BOOST_TEST((d.allocate(900 << 10) != nullptr));
}

BOOST_FIXTURE_TEST_CASE(memory_that_is_given_back_is_not_handed_out_while_a_queue_may_use_it, fixture) {
  auto* host = reinterpret_cast<float*>(d.allocate_host(2 * sizeof(float)));
  host[0] = 5, host[1] = 0;
  std::byte* const p = d.allocate(sizeof(float));
  q->copy(p, host, sizeof(float));
  const auto reader = gpus.at(1).make_queue();  // belongs to another GPU
  reader->wait_for(*q);
  reader->copy(host + 1, p, sizeof(float));
  d.deallocate(p);
  BOOST_TEST(gpus.device(0).is_busy());  // the host has waited for nothing
  BOOST_TEST(host[1] == 0);
  BOOST_CHECK_EXCEPTION(q->copy(p, host, sizeof(float)), error, is_internal);  // work that comes later has lost it
  std::byte* const next = d.allocate(sizeof(float));
  BOOST_TEST((next == p));
  BOOST_TEST(host[1] == 5);
  q->copy(host + 1, next, sizeof(float));
  q->synchronize();
  BOOST_TEST(std::isnan(host[1]));
  d.deallocate_host(reinterpret_cast<std::byte*>(host));
  BOOST_TEST(gpus.device(0).mistakes().empty());
}

BOOST_FIXTURE_TEST_CASE(memory_that_is_given_back_is_kept_within_the_shares_of_sessions, fixture) {
  const auto& n = gpus.device(0).count();
  const auto once = [&](std::size_t bytes) { d.deallocate(d.allocate(bytes)); };
  once(1000);
  BOOST_TEST(n.kept_bytes == 0u);
  d.open_share(3000);
  once(1000);
  BOOST_TEST(n.kept_bytes == 1000u);
  once(1000);
  BOOST_TEST(n.reuses == 1u);
  once(1500);
  BOOST_TEST(n.kept_bytes == 2500u);
  BOOST_TEST(d.free_bytes() == 1u << 20);  // kept memory is free
  once(2000);                              // kept memory makes room first
  BOOST_TEST(n.peak_reserved_bytes <= 3000u);
  BOOST_TEST(n.kept_bytes >= 2000u);
  d.open_share(100);
  d.close_share(3000);
  BOOST_TEST(n.kept_bytes == 0u);
  once(101);
  BOOST_TEST(n.kept_bytes == 0u);
  d.close_share(100);
  d.open_share(1 << 20);
  once(600 << 10);
  once(500 << 10);  // more than there is beside the other
  BOOST_TEST(n.kept_bytes == 500u << 10);
  d.close_share(1 << 20);
  BOOST_TEST(n.live_bytes == 0u);
  BOOST_TEST(gpus.device(0).mistakes().empty());
}

BOOST_FIXTURE_TEST_CASE(what_a_test_asks_for_fails, fixture) {
  gpus.fail_allocation(2);
  std::byte* const p = d.allocate(16);
  BOOST_TEST((p != nullptr));
  BOOST_TEST((d.allocate(16) == nullptr));
  BOOST_TEST((d.allocate(16) != nullptr));
  sum_body b{reinterpret_cast<float*>(p), 1};
  gpus.fail_launch(2);
  gpu::launch(*q, f, b, 2);
  BOOST_CHECK_EXCEPTION(gpu::launch(*q, f, b, 2), error, is_internal);
  gpu::launch(*q, f, b, 2);
  q->synchronize();
  gpus.fail_execution(1);
  gpu::launch(*q, f, b, 2);
  BOOST_CHECK_EXCEPTION(q->synchronize(), error, is_internal);
  BOOST_CHECK_EXCEPTION(q->synchronize(), error, is_internal);
}

// SPDX-License-Identifier: BSL-1.0
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>
#include <weft/transport/shared_memory.hpp>

#include "errors.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

void refused(const shared_offer& offer, std::size_t bytes) {
  BOOST_CHECK_EXCEPTION(shared_segment::open(offer, bytes), error, test::says(error_code::permission_denied));
}

/// An offer of some other open file.
shared_offer of_file(int descriptor, std::size_t bytes) {
  return {static_cast<std::uint64_t>(::getpid()), static_cast<std::uint64_t>(descriptor), bytes, {}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(both_see_the_same_bytes) {
  const auto here = shared_segment::create(10'000);
  const auto there = shared_segment::open(here.offer(), 10'000);
  BOOST_TEST(here.bytes().size() == 10'000u);
  BOOST_TEST(here.bytes().data() != there.bytes().data());
  BOOST_TEST(reinterpret_cast<std::uintptr_t>(there.bytes().data()) % 64 == 0u);
  here.bytes()[9'999] = std::byte{7};
  there.bytes()[0] = std::byte{8};
  BOOST_CHECK(there.bytes()[9'999] == std::byte{7});
  BOOST_CHECK(here.bytes()[0] == std::byte{8});
}

BOOST_AUTO_TEST_CASE(another_process_maps_it_and_leaves_nothing_when_killed) {
  const std::size_t files = entries("/proc/self/fd"), names = entries("/dev/shm");
  {
    const auto here = shared_segment::create(1 << 20);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto there = shared_segment::open(here.offer(), 1 << 20);
      const auto own = shared_segment::create(1 << 20);
      std::memcpy(there.bytes().data(), "written by another process", 27);
      for (;;) ::pause();
    }
    const auto end = std::chrono::steady_clock::now() + 10s;
    const auto* text = reinterpret_cast<const volatile char*>(here.bytes().data());
    while (text[25] != 's' && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    BOOST_TEST(text[25] == 's');
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    here.bytes()[0] = std::byte{1};
    BOOST_TEST(entries("/dev/shm") == names);
  }
  BOOST_TEST(entries("/proc/self/fd") == files);
}

BOOST_AUTO_TEST_CASE(what_is_not_exactly_the_offered_segment_is_refused) {
  const auto segment = shared_segment::create(5'000);
  refused(segment.offer(), 5'001);
  shared_offer other = segment.offer();
  other.bytes = 4'000'000;
  refused(other, 5'000);
  refused(other, 4'000'000);  // both say so, the memory does not
  other.bytes = 0;
  refused(other, 0);
  other.bytes = ~std::uint64_t{0};
  refused(other, ~std::size_t{0});
  other = segment.offer();
  other.nonce[1] ^= 1;
  refused(other, 5'000);
  other = segment.offer();
  other.process = 1;
  refused(other, 5'000);
  other.process = ~std::uint64_t{0};
  refused(other, 5'000);
  other = segment.offer();
  other.descriptor = 1'000'000;
  refused(other, 5'000);
}

BOOST_AUTO_TEST_CASE(other_files_are_refused_without_being_opened) {
  int pipe[2];
  BOOST_REQUIRE(::pipe(pipe) == 0);
  refused(of_file(pipe[0], 4'000), 4'000);
  const int plain = ::open("/proc/self/exe", O_RDONLY);
  refused(of_file(plain, 4'000), 4'000);
  // Memory of the same name whose owner could still shrink it under the peer's feet.
  const int unsealed = ::memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  BOOST_REQUIRE(::ftruncate(unsealed, 4'096) == 0);
  refused(of_file(unsealed, 4'000), 4'000);
  for (const int descriptor : {pipe[0], pipe[1], plain, unsealed}) ::close(descriptor);
}

BOOST_AUTO_TEST_CASE(nobody_opens_what_was_withdrawn) {
  const auto segment = shared_segment::create(100);
  const auto before = shared_segment::open(segment.offer(), 100);
  segment.withdraw();
  refused(segment.offer(), 100);
  segment.bytes()[0] = std::byte{1};
  BOOST_CHECK(before.bytes()[0] == std::byte{1});
}

BOOST_AUTO_TEST_CASE(a_detached_side_keeps_its_contents_and_sees_no_more) {
  const auto here = shared_segment::create(10'000);
  const auto there = shared_segment::open(here.offer(), 10'000);
  there.bytes()[5] = std::byte{1};
  const auto* const address = here.bytes().data();
  here.detach();
  there.bytes()[5] = std::byte{2};
  BOOST_TEST(here.bytes().data() == address);
  BOOST_CHECK(here.bytes()[5] == std::byte{1});
  here.bytes()[6] = std::byte{3};
  BOOST_CHECK(there.bytes()[6] == std::byte{0});
}

BOOST_AUTO_TEST_CASE(a_renewed_side_keeps_its_place_and_is_shared_anew) {
  const auto here = shared_segment::create(10'000);
  const auto there = shared_segment::open(here.offer(), 10'000);
  here.bytes()[5] = std::byte{1};
  here.withdraw();
  const auto* const address = here.bytes().data();
  here.detach();
  here.bytes()[6] = std::byte{2};
  const shared_offer before = here.offer();
  here.renew();
  BOOST_TEST(here.bytes().data() == address);
  BOOST_CHECK(here.bytes()[5] == std::byte{1});
  BOOST_CHECK(here.bytes()[6] == std::byte{2});
  BOOST_CHECK(!(here.offer() == before));
  const auto again = shared_segment::open(here.offer(), 10'000);
  here.bytes()[7] = std::byte{3};
  BOOST_CHECK(again.bytes()[7] == std::byte{3});
  BOOST_CHECK(there.bytes()[7] == std::byte{0});
}

// A process of another user learns of an offer: the system does not let it look.
BOOST_AUTO_TEST_CASE(another_user_cannot_attach) {
  if (::geteuid() != 0) return;  // nobody else may become another user
  const auto segment = shared_segment::create(5'000);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(61234) != 0 || ::setuid(61234) != 0) ::_exit(2);
    try {
      shared_segment::open(segment.offer(), 5'000);
    } catch (const error& refusal) {
      ::_exit(refusal.code() == error_code::permission_denied ? 0 : 3);
    }
    ::_exit(1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(memory_that_others_may_open_is_refused) {
  const int open_to_all = ::memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  BOOST_REQUIRE(::ftruncate(open_to_all, 8'192) == 0);
  BOOST_REQUIRE(::fchmod(open_to_all, 0666) == 0);
  BOOST_REQUIRE(::fcntl(open_to_all, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  BOOST_CHECK_EXCEPTION(shared_segment::open(of_file(open_to_all, 8'000), 8'000), error,
                        test::says(error_code::permission_denied, "other users can open"));
  ::close(open_to_all);
}

BOOST_AUTO_TEST_CASE(more_than_the_system_has_is_an_error) {
  BOOST_CHECK_THROW(shared_segment::create(0), error);
  BOOST_CHECK_THROW(shared_segment::create(~std::size_t{0} - 4096), error);
  BOOST_CHECK_THROW(shared_segment::create(std::size_t{1} << 45), error);
}

BOOST_AUTO_TEST_CASE(more_than_a_file_may_hold_is_an_error) {
  rlimit limit;
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  rlimit small = limit;
  small.rlim_cur = 64 << 10;
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  BOOST_CHECK_EXCEPTION(shared_segment::create(1 << 20), error, test::says(error_code::resource_exhausted));
  BOOST_CHECK_NO_THROW(shared_segment::create(1 << 10));
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

BOOST_AUTO_TEST_CASE(a_counter_wakes_who_polls_and_who_sleeps) {
  const auto segment = shared_segment::create(256);
  const auto same = shared_segment::open(segment.offer(), 256);
  auto& ping = *reinterpret_cast<shared_counter*>(segment.bytes().data());
  auto& pong = *reinterpret_cast<shared_counter*>(segment.bytes().data() + 128);
  auto& other_ping = *reinterpret_cast<shared_counter*>(same.bytes().data());
  auto& other_pong = *reinterpret_cast<shared_counter*>(same.bytes().data() + 128);
  const std::uint32_t first = 0x7fffff00u;  // passes the largest positive number on the way
  ping.publish(first);
  pong.publish(first);
  for (const wait_policy policy : {wait_policy{50us, true}, wait_policy{}}) {
    const auto start = std::chrono::steady_clock::now();
    std::thread other([&] {
      for (std::uint32_t i = 1; i <= 500; ++i) {
        while (!other_ping.poll(first + i, policy)) other_ping.sleep(first + i, 50ms);
        other_pong.publish(first + i);
      }
    });
    for (std::uint32_t i = 1; i <= 500; ++i) {
      ping.publish(first + i);
      while (!pong.poll(first + i, policy)) pong.sleep(first + i, 50ms);
    }
    other.join();
    BOOST_TEST((std::chrono::steady_clock::now() - start < 10s));
    ping.publish(first);
    pong.publish(first);
  }
  const auto start = std::chrono::steady_clock::now();
  ping.sleep(first + 1, 20ms);
  BOOST_TEST((std::chrono::steady_clock::now() - start < 5s));
  BOOST_TEST(!ping.reached(first + 1));
}

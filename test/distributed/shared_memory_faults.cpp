// SPDX-License-Identifier: BSL-1.0
// Ranks that sum in shared memory: processes that are killed at moments that follow from a seed, and a rank that lies
// about its segment or writes what it likes into the memory of all. A rank that survives ends in time with an error
// that names the rank that has failed, sums nothing wrong before, and nothing stays in /dev/shm.
//
//   WEFT_RANDOM_SECONDS=3600 WEFT_RANDOM_FROM=1000000 test_distributed_shared_memory_faults    goes on with other seeds
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/parameter/parameter_service.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

using byte_list = std::vector<std::byte>;

/// The names in /dev/shm, without the folders in which tests that run at the same time write their shards.
std::set<std::string> names_in_memory() {
  std::set<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm"))
    if (const std::string name = each.path().filename(); !name.starts_with("weft-shards-")) names.insert(name);
  return names;
}

std::string name_of(int rank) { return "/job:worker/task:" + std::to_string(rank); }

// ---- processes that are killed ----

/// Sums until something fails; returns how often, and what that was.
std::string sum_until_it_fails(const cluster_spec& cluster, int rank, std::size_t elements, milliseconds set_up) {
  std::string text = "before memory was shared: ";
  try {
    server here(cluster, "worker", rank);
    all_reduce group(here, 7, {}, set_up);
    const mutable_bytes block = group.shared_block(elements * sizeof(float), set_up);
    // A rank that is killed after its last message of the set-up leaves memory that nobody can open: then none is
    // shared.
    const bool shared = group.shares_memory() && !block.empty();
    text = shared ? "while memory was shared: " : "without shared memory: ";
    const std::span<float> in_block(reinterpret_cast<float*>(block.data()), shared ? elements : 0);
    std::vector<float> elsewhere(elements);
    const auto ranks = static_cast<float>(group.size());
    for (int call = 0;; ++call) {
      const std::span<float> data = call % 2 || !shared ? std::span<float>(elsewhere) : in_block;
      std::fill(data.begin(), data.end(), static_cast<float>(rank + call % 100));
      group.sum(data, 20s);
      const float due = ranks * (ranks - 1) / 2 + ranks * static_cast<float>(call % 100);
      if (std::any_of(data.begin(), data.end(), [&](float each) { return each != due; })) return "a wrong sum";
    }
  } catch (const error& problem) {
    return text + problem.what();
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(survivors_of_killed_ranks_name_one_and_no_memory_stays) {
  const char* const seconds = std::getenv("WEFT_RANDOM_SECONDS");
  const char* const from = std::getenv("WEFT_RANDOM_FROM");
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t first = from ? static_cast<std::uint64_t>(std::atoll(from)) : 0;
  constexpr milliseconds set_up = 4s;
  int shared = 0;
  std::uint64_t seed = first;
  for (; seed - first < 12 || (seconds && test::seconds_since(begin) < std::atof(seconds)); ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
    const int ranks = 2 + below(3);
    const std::size_t elements = below(2) ? 1000 : 700'000;  // on the ranks' boards at once, or by pieces
    std::set<int> victims;
    while (victims.empty() || (ranks > 2 && victims.size() < 2 && below(2))) victims.insert(below(ranks));
    const milliseconds at(below(3) == 0 ? below(12) : below(700));  // while they meet, or later
    const std::set<std::string> before = names_in_memory();
    const cluster_spec cluster = test::local_cluster(0, ranks);
    std::vector<test::process> all;
    for (int rank = 0; rank < ranks; ++rank)
      all.emplace_back([&, rank] { return sum_until_it_fails(cluster, rank, elements, set_up); });
    std::this_thread::sleep_for(at);
    for (const int rank : victims) all[static_cast<std::size_t>(rank)].signal(SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    std::string told = "seed " + std::to_string(seed) + ", killed after " + std::to_string(at.count()) + " ms:";
    for (const int rank : victims) told += " " + name_of(rank);
    std::vector<std::string> said;
    for (test::process& each : all) said.push_back(each.text());
    const double took = test::seconds_since(killed);
    for (int rank = 0; rank < ranks; ++rank)
      if (!victims.count(rank)) told += "\n  " + name_of(rank) + ": " + said[static_cast<std::size_t>(rank)];
    BOOST_TEST_CONTEXT(told) {
      bool any_shared = false;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::string& text = said[static_cast<std::size_t>(rank)];
        if (victims.count(rank)) continue;
        any_shared |= text.starts_with("while memory was shared: ");
        BOOST_TEST((text.starts_with("while ") || text.starts_with("before ") || text.starts_with("without ")));
        BOOST_TEST(std::any_of(victims.begin(), victims.end(),
                               [&](int victim) { return test::contains(text, name_of(victim)); }));
      }
      shared += any_shared;
      BOOST_TEST(took < (any_shared ? 5.0 : 5.0 + std::chrono::duration<double>(set_up).count()));
      std::set<std::string> left = names_in_memory();
      for (const std::string& each : before) left.erase(each);
      BOOST_TEST(left.empty());
    }
  }
  BOOST_TEST_MESSAGE(shared << " of " << seed - first << " clusters shared memory when one was killed");
  BOOST_TEST(shared > 2);
  if (seconds)
    std::printf("%llu clusters in %.1f s\n", static_cast<unsigned long long>(seed - first), test::seconds_since(begin));
}

// ---- a rank that lies ----

namespace {

/// Rank 1 of two: it says what it likes of its segment, and then echoes what it hears, or writes what it likes.
class liar {
 public:
  /// The lie made of a true offer of a segment of `bytes` bytes, and of the other's offer; empty: no offer at all.
  using lie = std::function<void(shared_offer& mine, const shared_offer& its)>;

  liar(const cluster_spec& cluster, lie tells, double failures, std::size_t real_bytes = detail::shared_reduce::room())
      : thread_([this, &cluster, tells, failures, real_bytes] {
          try {
            server here(cluster, "worker", 1);
            speak(here, tells, failures, real_bytes);
          } catch (const error&) {
            // the other has closed
          }
        }) {}
  ~liar() {
    over_ = true;
    thread_.join();
  }

  /// Writes at random places of both segments until the end; or takes part, and lies about weights and elements only.
  enum class writing { nothing, anywhere, lies };
  std::atomic<writing> writes{writing::nothing};

 private:
  void speak(server& here, const lie& tells, double failures, std::size_t real_bytes) {
    any_transport::stream to = here.open_channel(here.cluster().rank({"worker", 0}), "all_reduce", 10s).stream;
    const shared_segment mine = shared_segment::create(real_bytes);
    shared_segment its;
    for (;;) {
      frame_reader in;
      byte_list payload;
      in.expect(std::uint64_t{1} << 20);
      for (std::uint64_t turn = 0; !in.complete(); ++turn) {
        if (over_) return;
        if (writes == writing::anywhere) scribble(turn % 2 ? mine : its, turn);
        if (writes == writing::lies) lie_within(mine.bytes(), its.bytes(), turn);
        if (in.advance(to) == 0 && writes == writing::nothing) std::this_thread::sleep_for(100us);
        if (!in.needs_destination()) continue;
        payload.resize(static_cast<std::size_t>(in.header().payload_length));
        in.payload_to(mutable_bytes(payload));
      }
      frame_header header = in.header();
      header.flags = 0;
      if (header.kind == frame_kind::reduce && header.request == 1) {
        const shared_offer heard = detail::read_offer(payload);
        its = shared_segment::open(heard, detail::shared_reduce::room());
        shared_offer said = mine.offer();
        tells(said, heard);
        payload = detail::offer_bytes(said);
      } else if (header.kind == frame_kind::reduce && header.request == 2) {
        std::memcpy(payload.data(), &failures, sizeof failures);
      }
      frame_writer out;
      for (out.start(header, const_bytes(payload)); !out.idle() && !over_;) out.advance(to);
    }
  }

  void scribble(const shared_segment& into, std::uint64_t turn) {
    const mutable_bytes all = into.bytes();
    // Mostly where counters and weights lie.
    put(all, turn % 16 < 14 ? std::min<std::size_t>(all.size(), 512) : all.size());
  }

  /// A board begins with the counter, then in lines of their own come two calls: digest, weight, element, rank.
  void lie_within(mutable_bytes mine, const_bytes its, std::uint64_t turn) {
    for (const std::size_t call : {64u, 128u}) {
      std::memcpy(mine.data() + call, its.data() + call, 8);
      if (turn % 8 == 0) put(mine.subspan(call + 8), 24);
    }
    put(mine.subspan(192), mine.size() - 192);
    std::memcpy(mine.data(), its.data(), 4);
  }

  /// A word somewhere in the first `reach` bytes: any, a small one, or a number.
  void put(mutable_bytes into, std::size_t reach) {
    const double real = static_cast<double>(random_() % 100) - 50;
    const std::uint64_t words[] = {random_(), random_() % 64, std::bit_cast<std::uint64_t>(real)};
    std::memcpy(into.data() + random_() % (reach / 8) * 8, &words[random_() % 3], 8);
  }

  std::mt19937_64 random_{5};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

void sums_by_messages_beside(const char* what, const liar::lie& tells, double failures = 0,
                             std::size_t real_bytes = detail::shared_reduce::room()) {
  BOOST_TEST_CONTEXT(what) {
    const cluster_spec cluster = test::local_cluster(0, 2);
    liar other(cluster, tells, failures, real_bytes);
    server here(cluster, "worker", 0);
    all_reduce group(here, {}, {}, 10s);
    BOOST_TEST(!group.shares_memory());
    std::vector<float> data(100, 3);
    group.sum(std::span(data), 10s);
    BOOST_TEST((data == std::vector<float>(100, 6)));  // its echo is the same
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_rank_that_tells_the_truth_of_its_segment_is_believed) {
  const cluster_spec cluster = test::local_cluster(0, 2);
  liar other(cluster, [](auto&, auto&) {}, 0);
  server here(cluster, "worker", 0);
  all_reduce group(here, {}, {}, 10s);
  BOOST_TEST(group.shares_memory());
  // It says nothing there.
  std::vector<float> data(100, 3);
  BOOST_CHECK_EXCEPTION(group.sum(std::span(data), 200ms), error,
                        test::says(error_code::deadline_exceeded, name_of(1)));
}

BOOST_AUTO_TEST_CASE(a_rank_that_lies_about_its_segment_is_refused) {
  sums_by_messages_beside("none", [](shared_offer& mine, auto&) { mine = {}; });
  sums_by_messages_beside("a longer one", [](shared_offer& mine, auto&) { ++mine.bytes; });
  sums_by_messages_beside("a shorter one", [](shared_offer& mine, auto&) { mine.bytes /= 2; });
  sums_by_messages_beside("one without end", [](shared_offer& mine, auto&) { mine.bytes = ~std::uint64_t{0}; });
  sums_by_messages_beside(
      "one that is shorter than it says", [](shared_offer& mine, auto& its) { mine.bytes = its.bytes; }, 0, 4096);
  sums_by_messages_beside("another", [](shared_offer& mine, auto&) { mine.nonce[1] ^= 1; });
  sums_by_messages_beside("another file", [](shared_offer& mine, auto&) { mine.descriptor = 0; });
  sums_by_messages_beside("another process", [](shared_offer& mine, auto&) { mine.process = 1; });
}

// It would be read as what both have brought.
BOOST_AUTO_TEST_CASE(a_rank_that_offers_the_segment_of_another_rank_is_refused) {
  sums_by_messages_beside("the other's own", [](shared_offer& mine, const shared_offer& its) { mine = its; });
}

// The ranks add up how many have failed.
BOOST_AUTO_TEST_CASE(a_rank_that_takes_back_the_failure_of_another_is_not_believed) {
  for (const double failures : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    sums_by_messages_beside("none", [](shared_offer& mine, auto&) { mine = {}; }, failures);
  sums_by_messages_beside("a true one that it takes back", [](auto&, auto&) {}, 1);
}

BOOST_AUTO_TEST_CASE(a_rank_that_writes_what_it_likes_makes_wrong_sums_at_worst) {
  const cluster_spec cluster = test::local_cluster(0, 2);
  int went_well = 0, ended = 0;
  for (int turn = 0; turn < 9; ++turn) {
    liar other(cluster, [](auto&, auto&) {}, 0);
    server here(cluster, "worker", 0);
    all_reduce group(here, {}, {}, 10s);
    BOOST_REQUIRE(group.shares_memory());
    other.writes = turn % 3 == 0 ? liar::writing::anywhere : liar::writing::lies;
    std::vector<double> data(turn % 2 ? 30 : 300'000, 1);
    const auto began = std::chrono::steady_clock::now();
    for (int call = 0; call < 20; ++call) try {
        const mean_report made = group.mean(std::span(data), 100ms);
        if (!made.finite) BOOST_TEST(made.element < data.size());
        if (made.rank) BOOST_TEST(*made.rank < 2u);
        ++went_well;
      } catch (const error& problem) {
        CHECK_SAYS(problem.what(), "/job:worker/task:1");
        ++ended;
        if (problem.code() != error_code::deadline_exceeded) break;
      }
    BOOST_TEST(test::seconds_since(began) < 20);
  }
  BOOST_TEST(ended > 0);
  BOOST_TEST(went_well > 20);
  BOOST_TEST_MESSAGE(went_well << " sums came to an end, " << ended << " ended in words");
}

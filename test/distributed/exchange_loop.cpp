// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed/membership/exchange_loop.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

using server_type = basic_server<in_process>;

/// An exchange with worker 1, without a connection: nothing of it is on a wire.
template <bool Survives>
struct played_exchange {
  static constexpr bool survives_leaving = Survives;

  detail::peer_process peer;
  std::size_t moves = 0;    // bytes that each call of advance() moves
  std::size_t calls = 0;    // of advance()
  std::size_t needed = ~0;  // calls until it is complete

  std::size_t advance() {
    if (moves == 0) std::this_thread::sleep_for(1ms);
    ++calls;
    return moves;
  }
  bool is_complete() const { return calls >= needed; }
  error late() const { return error(error_code::deadline_exceeded, "test", "late"); }
  template <typename Visit>
  void for_each_stream(Visit) const {}
  template <typename Visit>
  void for_each_peer(Visit visit) const {
    visit(peer, true);
  }
};

/// Two workers that have met: the first waits for the second.
struct two_workers {
  in_process network;
  cluster_spec cluster = test::local_cluster(0, 2, network);
  server_type here{cluster, "worker", 0, {}, network};
  std::optional<server_type> other{std::in_place, cluster, "worker", 1, server_options{}, network};
  detail::exchange_loop loop{here, wait_policy{}};

  two_workers() { here.wait_ready(20s); }

  detail::peer_process peer() { return {1, here.members().incarnation(1)}; }

  template <typename Exchange>
  error_code run(Exchange& exchange, deadline until) {
    try {
      loop.run("test", until, exchange);
      return error_code{};
    } catch (const error& problem) {
      return problem.code();
    }
  }
};

BOOST_AUTO_TEST_CASE(an_exchange_ends_when_it_is_complete_even_at_its_deadline) {
  two_workers both;
  played_exchange<true> exchange{both.peer(), 1};
  exchange.needed = 1;
  BOOST_CHECK_NO_THROW(both.loop.run("test", deadline(0ms), exchange));
  BOOST_TEST(exchange.calls == 1u);
}

// Bytes that always move must not stretch the wait.
BOOST_AUTO_TEST_CASE(an_exchange_ends_at_its_deadline_while_bytes_move) {
  two_workers both;
  for (const std::size_t moves : {0u, 1u}) {
    played_exchange<true> exchange{both.peer(), moves};
    exchange.needed = 100'000'000;  // long after the deadline, and not never
    BOOST_TEST((both.run(exchange, 20ms) == error_code::deadline_exceeded));
    BOOST_TEST(exchange.calls < exchange.needed);
  }
}

BOOST_AUTO_TEST_CASE(an_exchange_ends_when_its_peer_has_left_unless_the_peer_may_still_answer) {
  two_workers both;
  played_exchange<false> handshake{both.peer()};
  played_exchange<true> request{both.peer()};
  both.other.reset();
  BOOST_TEST((both.run(handshake, 10s) == error_code::unavailable));
  BOOST_TEST((both.run(request, 200ms) == error_code::deadline_exceeded));
}

// A host may vanish right after its task has said goodbye: the connection brings nothing, and does not end.
BOOST_AUTO_TEST_CASE(an_exchange_ends_when_its_peer_is_silent_after_it_has_left) {
  two_workers both;
  played_exchange<true> request{both.peer()};
  both.other.reset();
  BOOST_TEST((both.run(request, 60s) == error_code::unavailable));
}

BOOST_AUTO_TEST_CASE(an_exchange_ends_when_its_server_stops) {
  two_workers both;
  played_exchange<true> request{both.peer()};
  std::thread stops([&] {
    std::this_thread::sleep_for(50ms);
    both.here.stop();
  });
  BOOST_TEST((both.run(request, 60s) == error_code::cancelled));
  stops.join();
}

// Each parameter server reports the loss in its own words, whichever comes first.
BOOST_AUTO_TEST_CASE(a_wait_for_the_same_tasks_is_reported_once) {
  in_process network;
  const cluster_spec cluster = test::local_cluster(0, 4, network);
  std::vector<std::string> reports;
  server_options options;
  options.on_wait = [&](const wait_change& change) { reports.push_back(to_string(change)); };
  options.device_filters = {"/job:worker/task:3"};  // the others are known by what servers report
  server_type here{cluster, "worker", 0, options, network}, partner{cluster, "worker", 3, {}, network};
  membership& members = here.members();
  here.wait_ready(20s);
  detail::exchange_loop loop{here, wait_policy{}};
  loop.report_waits("worker", 20s);
  const auto lose = [&](std::size_t rank, std::uint64_t incarnation, const std::string& seen_by) {
    members.hear_back(rank, incarnation);
    BOOST_REQUIRE(members.hear(rank, incarnation, task_state::lost, "has closed its connection, as " + seen_by));
  };
  struct reported_exchange : played_exchange<true> {
    const std::vector<std::string>* reports;
    std::size_t needed_reports;
    bool is_complete() const { return reports->size() >= needed_reports; }
  };
  const auto wait = [&](std::size_t needed_reports, deadline until) {
    reported_exchange exchange{{{3, members.incarnation(3)}}, &reports, needed_reports};
    loop.run("test", until, exchange);
  };
  lose(1, 11, "/job:ps/task:0");
  wait(1, 20s);
  lose(1, 12, "/job:ps/task:1");
  BOOST_CHECK_THROW(wait(2, 250ms), error);
  lose(2, 21, "/job:ps/task:0");
  wait(2, 20s);
  CHECK_SAYS(reports[0], "a replacement for /job:worker/task:1 (it has closed its connection, as /job:ps/task:0)");
  CHECK_SAYS(reports[1], "/job:worker/task:1 (it has closed its connection, as /job:ps/task:1), /job:worker/task:2 (");
}

}  // namespace

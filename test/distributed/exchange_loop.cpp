#include <boost/test/unit_test.hpp>
#include <chrono>
#include <optional>
#include <thread>
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
  detail::exchange_loop<server_type> loop{here, wait_policy{}};

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

}  // namespace

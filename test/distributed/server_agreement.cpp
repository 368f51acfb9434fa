// SPDX-License-Identifier: BSL-1.0
// Parameter servers that make one step together. A task that speaks by hand takes the place of one of two servers, and
// sends messages that belong to an earlier attempt of the step.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/parameter/parameter_server.hpp>
#include <weft/distributed/parameter/steps/squares_message.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

using server_type = basic_server<in_process>;
using byte_list = std::vector<std::byte>;

constexpr consistency_model in_steps{consistency::synchronous};
constexpr float infinite = std::numeric_limits<float>::infinity();

/// One variable on each of two servers. `clipped`: the servers exchange the squares of both gradients.
std::vector<parameter_spec> variables(bool clipped) {
  const update_rule rule{"gradient_descent", {1.0}};
  std::vector<parameter_spec> all{{"a", element_type::float32, 1, 0, rule}, {"b", element_type::float32, 1, 1, rule}};
  if (clipped)
    for (parameter_spec& each : all) {
      each.clipping.kind = detail::clip_kind::by_global_norm;
      each.clipping.highest = 100;
    }
  return all;
}

byte_list bytes_of(float x) {
  const auto bytes = std::as_bytes(std::span(&x, 1));
  return {bytes.begin(), bytes.end()};
}

/// One end of a channel, at which a test sends and receives frames by hand.
class by_hand {
 public:
  by_hand(server_type& here, int server, const char* channel)
      : stream_(here.open_channel(here.cluster().rank({"ps", server}), channel, 10s).stream) {}
  explicit by_hand(any_transport::stream accepted) : stream_(std::move(accepted)) {}

  void send(frame_kind kind, const byte_list& payload, std::uint64_t request = 0) {
    frame_header header;
    header.kind = kind;
    header.request = request;
    header.weight = 1;
    frame_writer out;
    out.start(header, const_bytes(payload));
    for (const deadline until(5s); !out.idle() && !until.expired();) out.advance(stream_);
  }
  /// Returns true once a frame of this kind arrives, whose payload is then in `came`. Ignores other frames.
  bool hears(frame_kind kind, std::chrono::milliseconds within) {
    for (const deadline until(within); !until.expired();) {
      frame_reader in;
      in.expect(std::uint64_t{1} << 20);
      while (!in.complete() && !until.expired()) {
        in.advance(stream_);
        if (!in.needs_destination()) continue;
        came.resize(static_cast<std::size_t>(in.header().payload_length));
        in.payload_to(mutable_bytes(came));
      }
      if (in.complete() && in.header().kind == kind) return true;
    }
    return false;
  }

  byte_list came;

 private:
  any_transport::stream stream_;
};

/// Two servers, of which only `real` is one, and a worker; both others are spoken for by hand.
struct half_a_cluster {
  in_process network;
  cluster_spec cluster = test::local_cluster(2, 1, network);
  std::thread serving;
  server_type worker, other;

  explicit half_a_cluster(int real)
      : serving([=, this] {
          server_type here(cluster, "ps", real, {}, network);
          static_cast<void>(here.join(20s, 30s));
        }),
        worker(cluster, "worker", 0, {}, network),
        other(cluster, "ps", 1 - real, {}, network) {}
  ~half_a_cluster() {
    worker.stop();
    other.stop();
    serving.join();
  }

  /// A worker of the real server, which has the first value of its variable.
  by_hand enrolled(int real) {
    by_hand client(worker, real, detail::parameter_channel);
    const training_terms terms(in_steps, wait_for{500ms});
    client.send(frame_kind::enroll, detail::enroll_message{terms, 7, variables(true)}.bytes());
    BOOST_REQUIRE(client.hears(frame_kind::acknowledge, 5s));
    client.send(frame_kind::initialise, bytes_of(0));
    BOOST_REQUIRE(client.hears(frame_kind::acknowledge, 5s));
    return client;
  }
  /// The connection of server 1 to server 0.
  by_hand accepted() {
    peer_channel opened;
    test::await("a connection of server 1", [&] { return other.take_channel(detail::decision_channel, opened); });
    return by_hand(std::move(opened.stream));
  }
  /// Returns true once server 1 holds gradients of step 0.
  static bool hears_held(by_hand& server) {
    while (server.hears(frame_kind::held, 5s))
      if (detail::held_message::read(server.came, 1).steps[0] == 0) return true;
    return false;
  }
};

}  // namespace

// Server 1 sends what it holds for the mean that server 0 refuses, and the message arrives after the refusal. The
// worker's next gradients have reached server 0 alone.
BOOST_AUTO_TEST_CASE(gradients_held_for_a_refused_mean_do_not_count) {
  half_a_cluster all(0);
  by_hand client = all.enrolled(0);
  by_hand server(all.other, 0, detail::decision_channel);
  const byte_list held = detail::held_message{0, 0, {0}}.bytes();
  client.send(frame_kind::push_pull, bytes_of(infinite));
  server.send(frame_kind::held, held);
  BOOST_REQUIRE(server.hears(frame_kind::decision, 5s));
  server.send(frame_kind::squares, detail::squares_message{0, 0, true, {1}}.bytes());
  BOOST_REQUIRE(server.hears(frame_kind::squares, 5s));
  BOOST_TEST(!detail::squares_message::read(server.came).is_finite);
  BOOST_REQUIRE(client.hears(frame_kind::failure, 5s));

  server.send(frame_kind::held, held);
  client.send(frame_kind::push_pull, bytes_of(2), 1);
  BOOST_TEST(!server.hears(frame_kind::decision, 300ms));
  server.send(frame_kind::held, detail::held_message{0, 1, {0}}.bytes());
  BOOST_REQUIRE(server.hears(frame_kind::decision, 5s));
  BOOST_TEST(detail::decision_message::read(server.came, 1).attempt == 1u);
  server.send(frame_kind::squares, detail::squares_message{0, 1, true, {1}}.bytes());
  BOOST_TEST(client.hears(frame_kind::values, 5s));
  BOOST_TEST((client.came == bytes_of(-2)));
}

// A decision about a refused mean is no decision about the mean of the next gradients.
BOOST_AUTO_TEST_CASE(a_decision_about_a_refused_mean_is_not_followed) {
  half_a_cluster all(1);
  by_hand client = all.enrolled(1);
  by_hand server = all.accepted();
  client.send(frame_kind::push_pull, bytes_of(1));
  BOOST_REQUIRE(all.hears_held(server));
  server.send(frame_kind::decision, detail::decision_message{0, 0, {0}}.bytes());
  BOOST_REQUIRE(server.hears(frame_kind::squares, 5s));
  server.send(frame_kind::squares, detail::squares_message{0, 0, false, {1}}.bytes());
  BOOST_REQUIRE(client.hears(frame_kind::failure, 5s));

  client.send(frame_kind::push_pull, bytes_of(2), 1);
  BOOST_REQUIRE(all.hears_held(server));
  BOOST_TEST(detail::held_message::read(server.came, 1).attempt == 1u);
  server.send(frame_kind::decision, detail::decision_message{0, 0, {0}}.bytes());
  BOOST_TEST(!server.hears(frame_kind::squares, 300ms));
  server.send(frame_kind::decision, detail::decision_message{0, 1, {0}}.bytes());
  BOOST_REQUIRE(server.hears(frame_kind::squares, 5s));
  BOOST_TEST(detail::squares_message::read(server.came).attempt == 1u);
  server.send(frame_kind::squares, detail::squares_message{0, 1, true, {4}}.bytes());
  BOOST_TEST(client.hears(frame_kind::values, 5s));
  BOOST_TEST((client.came == bytes_of(-2)));
}

// Server 0 knows the squares of a worker's first gradients, and the worker sends others for the same step.
BOOST_AUTO_TEST_CASE(gradients_whose_squares_were_sent_are_not_replaced) {
  half_a_cluster all(1);
  by_hand first = all.enrolled(1);
  by_hand server = all.accepted();
  first.send(frame_kind::push_pull, bytes_of(1));
  BOOST_REQUIRE(all.hears_held(server));
  server.send(frame_kind::decision, detail::decision_message{0, 0, {0}}.bytes());
  BOOST_REQUIRE(server.hears(frame_kind::squares, 5s));
  by_hand second = all.enrolled(1);
  second.send(frame_kind::push_pull, bytes_of(3));
  BOOST_TEST(!server.hears(frame_kind::squares, 300ms));
  server.send(frame_kind::squares, detail::squares_message{0, 0, true, {1}}.bytes());
  BOOST_TEST(second.hears(frame_kind::values, 5s));
  BOOST_TEST((second.came == bytes_of(-1)));
}

// The mean of `a` overflows, and that of `b` on the other server does not: neither server makes the step.
BOOST_AUTO_TEST_CASE(a_mean_that_overflows_on_one_server_is_made_on_none) {
  for (const bool clipped : {false, true})
    for (const loss_policy& on_loss : {loss_policy{}, loss_policy(wait_for{5s})}) {
      const training_terms terms(in_steps, on_loss);
      const auto said = test::run_tasks(2, 2, in_process{}, [&](server_type& here) {
        parameter_client client(here, variables(clipped), terms, 7, 10s);
        float a = 0, b = 0;
        const std::vector<mutable_bytes> now{std::as_writable_bytes(std::span(&a, 1)),
                                             std::as_writable_bytes(std::span(&b, 1))};
        const auto push = [&](float of_a, float of_b) {
          const std::vector<const_bytes> gradients{std::as_bytes(std::span(&of_a, 1)),
                                                   std::as_bytes(std::span(&of_b, 1))};
          client.push_pull(client.next_step(), gradients, now, 3s, 4);
        };
        if (here.index() == 0)
          client.initialise(std::vector<const_bytes>(now.begin(), now.end()), 10s);
        else
          client.initialise(10s);
        std::string problem;
        try {
          push(3e38f, 1);
        } catch (const error& refusal) {
          problem = refusal.what();
        }
        test::require_says_in_task(problem, "mean of the workers' gradients");
        push(2, 4);
        test::require_in_task(a == -2 && b == -4, "the values are those of the second gradients");
        client.done(5s);
      });
      for (const std::string& each : said) BOOST_TEST(each == "", each << (clipped ? " clipped" : ""));
    }
}

// A server that reads a message just before it waits answers it first: otherwise a third of the steps take 50 ms, the
// longest wait.
BOOST_AUTO_TEST_CASE(steps_wait_for_the_messages_of_servers_alone) {
  constexpr int steps = 200;
  int slow = 0;
  server_options options;
  options.waiting = wait_policy{};
  const auto said = test::run_tasks(
      2, 1, tcp{},
      [&](basic_server<tcp>& here) {
        parameter_client client(here, variables(true), training_terms(in_steps, wait_for{5s}), 7, 10s);
        float a = 0, b = 0;
        const float one = 1;
        const std::vector<mutable_bytes> now{std::as_writable_bytes(std::span(&a, 1)),
                                             std::as_writable_bytes(std::span(&b, 1))};
        const std::vector<const_bytes> gradients(2, std::as_bytes(std::span(&one, 1)));
        client.initialise(std::vector<const_bytes>(now.begin(), now.end()), 10s);
        for (int k = 0; k < steps; ++k) {
          const auto began = std::chrono::steady_clock::now();
          client.push_pull(client.next_step(), gradients, now, 10s, 4);
          if (test::seconds_since(began) > 0.04) ++slow;
        }
        client.done(5s);
      },
      options);
  BOOST_TEST(said[0] == "");
  BOOST_TEST(slow < steps / 10);
}

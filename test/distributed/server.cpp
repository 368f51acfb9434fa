#define BOOST_TEST_DYN_LINK
#define BOOST_TEST_MODULE server
#include <sys/resource.h>

#include <atomic>
#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>
#include <ctime>
#include <deque>
#include <memory>
#include <thread>
#include <weft/distributed/server.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::failure;

namespace {

using transports = boost::mpl::list<in_process, tcp>;

template <typename T>
using server_on = basic_server<T>;

/// Plays parameter server 0 of the cluster: calls `answer` with each connection that comes.
class played_server {
 public:
  template <typename Answer>
  played_server(const cluster_spec& cluster, Answer answer)
      : at_(tcp().listen(cluster.task_address("ps", 0))), thread_([this, answer] {
          for (; !over_; std::this_thread::sleep_for(1ms))
            if (tcp::stream stream; at_.accept(stream)) answer(taken_.emplace_back(std::move(stream)));
        }) {}
  ~played_server() {
    over_ = true;
    thread_.join();
  }

 private:
  tcp::listener at_;
  std::deque<tcp::stream> taken_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

using talk_type = detail::handshake<tcp::stream>;

cluster_secret secret() { return cluster_secret::of_user(); }

detail::handshake_nonce nonce() {
  detail::handshake_nonce random;
  fill_random(random);
  return random;
}

/// Goes on with a handshake until there is something to decide; whether there is.
bool meet(talk_type& talk) {
  try {
    for (const deadline until = 5s; talk.at() == talk_type::phase::talking && !until.expired();)
      if (talk.advance() == 0) std::this_thread::sleep_for(1ms);
  } catch (const error&) {
    return false;  // the other is gone
  }
  return talk.at() != talk_type::phase::talking;
}

std::vector<std::byte> receive(tcp::stream& from, frame_header& header) {
  frame_reader in;
  std::vector<std::byte> payload;
  in.expect(detail::most_control_bytes);
  while (!in.complete()) {
    if (in.advance(from) == 0) std::this_thread::sleep_for(1ms);
    if (!in.needs_destination()) continue;
    payload.resize(in.header().payload_length);
    in.payload_to(mutable_bytes(payload));
  }
  header = in.header();
  return payload;
}

/// As a task of another protocol version sends it.
void send_other_version(tcp::stream& to) {
  frame_header header;
  header.kind = frame_kind::hello;
  auto bytes = encode(header);
  bytes[4] = std::byte{77};
  const const_bytes all(bytes);
  to.write_some({&all, 1});
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(tasks_meet_and_part, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 2, network);
  auto ps = std::make_unique<server_on<T>>(cluster, "ps", 0, server_options{}, network);
  auto one = std::make_unique<server_on<T>>(cluster, "worker", 0, server_options{}, network);
  auto two = std::make_unique<server_on<T>>(cluster, "worker", 1, server_options{}, network);
  for (auto* each : {ps.get(), one.get(), two.get()}) each->wait_ready(10s);
  BOOST_TEST(two->name() == "/job:worker/task:1");
  BOOST_TEST(one->is_chief());
  BOOST_TEST(!two->is_chief());
  two.reset();
  one.reset();
  const auto report = ps->join();
  BOOST_TEST(report.finished.empty());
  BOOST_REQUIRE(report.lost.size() == 2u);
  BOOST_TEST(report.lost[1] == "/job:worker/task:1 has left the cluster without saying done");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(missing_tasks_are_listed, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 2, network);
  server_on<T> ps(cluster, "ps", 0, {}, network), one(cluster, "worker", 0, {}, network);
  const auto start = std::chrono::steady_clock::now();
  const std::string text = failure(error_code::deadline_exceeded, [&] { one.wait_ready(300ms); });
  CHECK_SAYS(text, "still waits for /job:worker/task:1;");
  BOOST_TEST(test::seconds_since(start) < 1.5);
  const std::string join = failure(error_code::deadline_exceeded, [&] { ps.join(200ms); });
  CHECK_SAYS(join, "/job:ps/task:0 still waits for /job:worker/task:1;");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(another_cluster_is_refused_in_words, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 1, network);
  auto other = cluster;
  other.add_job("evaluator", "127.0.0.1:1");
  server_on<T> ps(cluster, "ps", 0, {}, network), worker(other, "worker", 0, {}, network);
  const std::string text = failure(error_code::failed_precondition, [&] { worker.wait_ready(10s); });
  CHECK_SAYS(text, "were given different clusters");
  CHECK_SAYS(text, to_string(cluster));
  const std::string missing = failure(error_code::deadline_exceeded, [&] { ps.wait_ready(100ms); });
  CHECK_SAYS(missing, "/job:worker/task:0 (it came with another cluster");
}

BOOST_AUTO_TEST_CASE(another_protocol_version_is_refused_in_words) {
  const auto cluster = test::local_cluster(1, 1);
  {
    server ps(cluster, "ps", 0);
    tcp::stream other = tcp().connect(ps.address());
    send_other_version(other);
    frame_header header;
    receive(other, header);  // its own version is in every header
    BOOST_CHECK(header.kind == frame_kind::refuse);
  }
  const played_server other(cluster, send_other_version);
  server worker(cluster, "worker", 0);
  const std::string text = failure(error_code::failed_precondition, [&] { worker.wait_ready(10s); });
  CHECK_SAYS(text, "connect to /job:ps/task:0: the peer speaks protocol version 77, this task");
}

BOOST_AUTO_TEST_CASE(what_listens_in_a_tasks_place_is_told_with_the_missing) {
  const auto cluster = test::local_cluster(1, 1);
  server_options options;
  options.handshake = 200ms;
  {
    const played_server web(cluster, [](tcp::stream& to) {
      const std::string page(200, 'x');
      const const_bytes all = std::as_bytes(std::span(page));
      to.write_some({&all, 1});
    });
    server worker(cluster, "worker", 0, options);
    const std::string text = failure(error_code::deadline_exceeded, [&] { worker.wait_ready(500ms); });
    CHECK_SAYS(text, "still waits for /job:ps/task:0 (the peer does not speak Weft's protocol");
  }
  const played_server silent(cluster, [](tcp::stream&) {});
  server worker(cluster, "worker", 0, options);
  const std::string text = failure(error_code::deadline_exceeded, [&] { worker.wait_ready(500ms); });
  CHECK_SAYS(text, "still waits for /job:ps/task:0 (it takes a connection and does not answer)");
}

BOOST_AUTO_TEST_CASE(a_peer_that_closes_a_channel_in_the_handshake_is_named) {
  const auto cluster = test::local_cluster(1, 1);
  const played_server ps(cluster, [&](tcp::stream& to) {
    talk_type talk = talk_type::listening(std::move(to), secret().proof(), nonce(), "/job:ps/task:0");
    if (!meet(talk) || !talk.other()->channel.empty()) return;
    detail::introduction mine = *talk.other();
    std::swap(mine.from, mine.to);
    talk.welcome(mine);
    to = std::move(talk.stream());
  });
  server worker(cluster, "worker", 0);
  const std::string text = failure(error_code::unavailable, [&] { worker.open_channel(0, "parameters", 10s); });
  CHECK_SAYS(text, "connect to /job:ps/task:0: /job:ps/task:0 has closed its connection");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_task_twice_is_refused, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 1, network);
  server_on<T> ps(cluster, "ps", 0, {}, network), worker(cluster, "worker", 0, {}, network);
  worker.wait_ready(10s);
  const std::string text =
      failure(error_code::already_exists, [&] { server_on<T>(cluster, "worker", 0, {}, network); });
  CHECK_SAYS(text, to_string(worker.address()));
  CHECK_SAYS(text, "in use");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(stop_frees_the_port, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 1, network);
  for (int i = 0; i < 20; ++i) {
    server_on<T> ps(cluster, "ps", 0, {}, network), worker(cluster, "worker", 0, {}, network);
    worker.wait_ready(10s);
    ps.stop();
    ps.stop();
    BOOST_CHECK_NO_THROW(network.listen(cluster.task_address("ps", 0)));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(stop_ends_join, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 1, network);
  server_on<T> ps(cluster, "ps", 0, {}, network), worker(cluster, "worker", 0, {}, network);
  worker.wait_ready(10s);
  std::thread joined([&] { ps.join(); });
  std::this_thread::sleep_for(20ms);
  ps.stop();
  joined.join();
  BOOST_TEST(worker.join(1s).finished.size() == 1u);
}

BOOST_AUTO_TEST_CASE(port_zero_tells_the_real_port) {
  server here(cluster_spec{{"worker", "127.0.0.1:0"}}, "worker", 0);
  BOOST_TEST(here.address().port != 0);
  here.wait_ready(1s);
}

BOOST_AUTO_TEST_CASE(wrong_tasks_and_addresses_are_refused) {
  failure(error_code::not_found, [] { server(cluster_spec{{"ps", "127.0.0.1:0"}}, "worker", 0); });
  failure(error_code::not_found, [] { server(cluster_spec{{"ps", "127.0.0.1:0"}}, "ps", 1); });
  const std::string text = failure(error_code::permission_denied, [] {
    server(cluster_spec{{"ps", "127.0.0.1:0,192.168.0.1:2222"}}, "ps", 0);
  });
  CHECK_SAYS(text, "192.168.0.1:2222 is not a loopback address");
}

// UndefinedBehaviorSanitizer looks at objects through a pipe, and takes it for a fault where none can be opened.
#if !defined(__SANITIZE_ADDRESS__)
BOOST_AUTO_TEST_CASE(a_server_with_too_many_open_files_waits_for_fewer) {
  const auto cluster = test::local_cluster(1, 1);
  server ps(cluster, "ps", 0);
  tcp network;
  const auto processor_seconds = [] { return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC); };
  rlimit limit;
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  {
    std::vector<tcp::stream> calls;
    rlimit few = limit;
    few.rlim_cur = 64;
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    const std::string text = failure(error_code::resource_exhausted, [&] {
      for (;;) calls.push_back(network.connect(ps.address()));
    });
    CHECK_SAYS(text, "can be opened here: Too many open files");
    const double before = processor_seconds();
    std::this_thread::sleep_for(500ms);
    BOOST_TEST(processor_seconds() - before < 0.1);
    CHECK_SAYS(failure(error_code::deadline_exceeded, [&] { ps.wait_ready(1ms); }),
               "still waits for /job:worker/task:0 (accept: Too many open files)");
    // Whatever is the first that it lacks a descriptor for.
    for (calls.pop_back(); !calls.empty(); calls.pop_back()) {
      try {
        server(cluster, "worker", 0);
        break;
      } catch (const error& problem) {
        BOOST_CHECK(problem.code() == error_code::resource_exhausted);
        CHECK_SAYS(problem.what(), "Too many open files");
      }
    }
  }
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  server worker(cluster, "worker", 0);
  worker.wait_ready(10s);
}
#endif

BOOST_AUTO_TEST_CASE(strangers_do_no_harm) {
  const auto cluster = test::local_cluster(1, 1);
  server_options options;
  options.handshake = 100ms;
  server ps(cluster, "ps", 0, options);
  tcp network;
  std::vector<tcp::stream> strangers;
  for (int i = 0; i < 50; ++i) {
    strangers.push_back(network.connect(ps.address()));
    std::vector<std::byte> noise(static_cast<std::size_t>(i) * 10, static_cast<std::byte>(i));
    if (i % 3 == 0) {  // a proper header that announces far too much
      frame_header header;
      header.kind = frame_kind::hello;
      header.payload_length = std::uint64_t{1} << 60;
      const auto bytes = encode(header);
      noise.assign(bytes.begin(), bytes.end());
    }
    if (i % 3 == 1) {  // a proper frame with a senseless message
      frame_header header;
      header.kind = frame_kind::hello;
      frame_writer out;
      out.start(header, const_bytes(noise));
      out.advance(strangers.back());
      continue;
    }
    const const_bytes piece(noise);
    strangers.back().write_some({&piece, 1});
  }
  server worker(cluster, "worker", 0);
  worker.wait_ready(10s);
  ps.wait_ready(10s);
}

// SPDX-License-Identifier: BSL-1.0
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>
#include <ctime>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/distributed/parameter/parameter_service.hpp>

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
      : at_(any_transport(tcp()).listen(cluster.task_address("ps", 0))), thread_([this, answer] {
          for (; !over_; std::this_thread::sleep_for(1ms))
            if (any_transport::stream stream; at_.accept(stream)) answer(taken_.emplace_back(std::move(stream)));
        }) {}
  ~played_server() {
    over_ = true;
    thread_.join();
  }

 private:
  any_transport::listener at_;
  std::deque<any_transport::stream> taken_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

using talk_type = detail::handshake;

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

/// The introduction of a task to the first parameter server.
detail::introduction introduction_to_ps(const cluster_spec& cluster, const task_id& from, std::uint64_t incarnation) {
  detail::introduction said;
  said.library_version = distributed_version;
  said.cluster_hash = cluster.hash();
  said.cluster = to_string(cluster);
  said.from = from;
  said.to = {"ps", 0};
  said.incarnation = incarnation;
  return said;
}

std::vector<std::byte> receive(any_transport::stream& from, frame_header& header) {
  frame_reader in;
  std::vector<std::byte> payload;
  in.expect(detail::max_control_bytes);
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
void send_other_version(any_transport::stream& to) {
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
  BOOST_TEST(
      report.lost[1] ==
      "/job:worker/task:1 has left the cluster without finish() and has sent no request to this parameter server");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(missing_tasks_are_listed, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 2, network);
  const server_options with_all{.device_filters = {"/job:ps", "/job:worker"}};
  server_on<T> ps(cluster, "ps", 0, {}, network), one(cluster, "worker", 0, with_all, network);
  const auto start = std::chrono::steady_clock::now();
  const std::string text = failure(error_code::deadline_exceeded, [&] { one.wait_ready(300ms); });
  CHECK_SAYS(text, "still waits for /job:worker/task:1;");
  BOOST_TEST(test::seconds_since(start) < 1.5 + test::slack);
  for (const auto until : {-1s, std::chrono::seconds::min(), 0s}) {
    const std::string late = failure(error_code::deadline_exceeded, [&] { ps.join(20s, until); });
    CHECK_SAYS(late, "these workers have not called finish(): /job:worker/task:0, /job:worker/task:1");
  }
  const std::string join = failure(error_code::deadline_exceeded, [&] { ps.join(200ms); });
  CHECK_SAYS(join, "/job:ps/task:0 still waits for /job:worker/task:1;");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(workers_connect_to_servers_and_to_those_they_talk_to, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 3, network);
  server_on<T> ps(cluster, "ps", 0, {}, network), one(cluster, "worker", 0, {}, network),
      two(cluster, "worker", 1, {}, network);
  for (auto* each : {&one, &two}) each->wait_ready(10s);  // without worker 2
  const std::size_t first = cluster.rank({"worker", 0}), second = cluster.rank({"worker", 1});
  std::this_thread::sleep_for(50ms);
  BOOST_TEST((one.members().state(second) == task_state::awaited));
  BOOST_TEST((two.members().state(first) == task_state::awaited));
  {
    server_on<T> three(cluster, "worker", 2, {}, network);
    three.wait_ready(10s);
    ps.wait_ready(10s);
    three.set_failure(error(error_code::internal, "step", "no more"));
  }
  // A worker hears of the end of one that it has not met.
  const std::size_t third = cluster.rank({"worker", 2});
  for (const deadline until = 10s; one.members().state(third) == task_state::awaited;) {
    BOOST_REQUIRE(!until.expired());
    std::this_thread::sleep_for(1ms);
  }
  CHECK_SAYS(one.members().reason(third),
             "has left the cluster after an error: step: no more, as reported by /job:ps/task:0");
  // The two connect where both ask for it.
  auto opened = std::async(std::launch::async, [&] { return two.open_channel(first, "talk", 10s); });
  BOOST_TEST(one.accept_channel(second, "talk", 10s).rank == second);
  BOOST_TEST(opened.get().rank == first);
  BOOST_TEST((one.members().state(second) == task_state::alive));
}

BOOST_AUTO_TEST_CASE(device_filters_name_tasks) {
  const auto cluster = test::local_cluster(1, 11);
  CHECK_SAYS(failure(error_code::invalid_argument,
                     [&] { server(cluster, "worker", 0, {.device_filters = {"/job:ps", "/job:worker/task:11"}}); }),
             "the device filter '/job:worker/task:11' names no task of the cluster");
  server one(cluster, "worker", 0, {.device_filters = {"/job:worker/task:1"}});
  for (std::size_t rank = 0; rank < cluster.tasks().size(); ++rank)
    BOOST_TEST(one.members().connects_to(rank) == (cluster.tasks()[rank] == task_id{"worker", 1}));
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
  CHECK_SAYS(missing, "/job:worker/task:0 (it uses another cluster");
}

BOOST_AUTO_TEST_CASE(another_protocol_version_is_refused_in_words) {
  const auto cluster = test::local_cluster(1, 1);
  {
    server ps(cluster, "ps", 0);
    any_transport::stream other = any_transport(tcp()).connect(ps.address());
    send_other_version(other);
    frame_header header;
    receive(other, header);  // its own version is in every header
    BOOST_CHECK(header.kind == frame_kind::refuse);
  }
  const played_server other(cluster, send_other_version);
  server worker(cluster, "worker", 0);
  const std::string text = failure(error_code::failed_precondition, [&] { worker.wait_ready(10s); });
  CHECK_SAYS(text, "connect to /job:ps/task:0: the peer uses protocol version 77, this task");
}

BOOST_AUTO_TEST_CASE(what_listens_in_a_tasks_place_is_told_with_the_missing) {
  const auto cluster = test::local_cluster(1, 1);
  server_options options;
  options.handshake_timeout = 200ms;
  {
    const played_server web(cluster, [](any_transport::stream& to) {
      const std::string page(200, 'x');
      const const_bytes all = std::as_bytes(std::span(page));
      to.write_some({&all, 1});
    });
    server worker(cluster, "worker", 0, options);
    const std::string text = failure(error_code::deadline_exceeded, [&] { worker.wait_ready(500ms); });
    CHECK_SAYS(text, "still waits for /job:ps/task:0 (the peer does not speak Weft's protocol");
  }
  const played_server silent(cluster, [](any_transport::stream&) {});
  server worker(cluster, "worker", 0, options);
  const std::string text = failure(error_code::deadline_exceeded, [&] { worker.wait_ready(500ms); });
  CHECK_SAYS(text, "still waits for /job:ps/task:0 (it accepts connections but does not answer)");
}

BOOST_AUTO_TEST_CASE(a_peer_that_closes_a_channel_in_the_handshake_is_named) {
  const auto cluster = test::local_cluster(1, 1);
  const played_server ps(cluster, [&](any_transport::stream& to) {
    talk_type talk = talk_type::listening(std::move(to), secret().proof(), nonce(), "/job:ps/task:0");
    if (!meet(talk) || !talk.other()->channel.empty()) return;
    detail::introduction mine = *talk.other();
    std::swap(mine.from, mine.to);
    talk.welcome(mine);
    to = std::move(talk.stream());
  });
  server_options options;
  options.heartbeat_timeout = 20s;  // it says nothing else
  server worker(cluster, "worker", 0, options);
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

// Tasks that wait for all others wait for each other.
BOOST_AUTO_TEST_CASE_TEMPLATE(join_ends_with_the_chief, T, transports) {
  for (const int ps : {0, 1}) {
    T network;
    const auto cluster = test::local_cluster(ps, 3, network);
    server_on<T> chief(cluster, "worker", 0, {}, network);
    std::vector<std::string> ends(2);
    std::vector<std::thread> tasks;
    for (int index = 1; index < 3; ++index)
      tasks.emplace_back([&, index] {
        server_on<T> here(cluster, "worker", index, {}, network);
        const join_report report = here.join(20s, 20s);
        ends[static_cast<std::size_t>(index - 1)] =
            str_cat({report.lost.size(), " lost; ", report.finished.empty() ? "" : report.finished[0]});
      });
    std::optional<server_on<T>> server_of_parameters;
    if (ps > 0) server_of_parameters.emplace(cluster, "ps", 0, server_options(), network);
    for (int index = 1; index < 3; ++index) chief.connect_to(cluster.rank({"worker", index}));
    chief.wait_ready(20s);
    if (ps > 0) {
      server_of_parameters->wait_ready(20s);
      tasks.emplace_back([&] { server_of_parameters->join(20s, 20s); });
    }
    chief.stop();
    for (std::thread& each : tasks) each.join();
    for (const std::string& end : ends) BOOST_TEST(end == "0 lost; /job:worker/task:0");
  }
}

BOOST_AUTO_TEST_CASE(join_reports_a_chief_that_was_killed) {
  const auto cluster = test::local_cluster(0, 3);
  std::vector<test::process> tasks;
  for (int index = 1; index < 3; ++index)
    tasks.emplace_back([&cluster, index] {
      server here(cluster, "worker", index);
      const join_report report = here.join(20s, 20s);
      return report.lost.empty() ? std::string("nothing lost") : report.lost[0];
    });
  test::process chief([&cluster] {
    server here(cluster, "worker", 0);
    here.wait_ready(20s);
    ::raise(SIGKILL);
    return std::string();
  });
  chief.text();
  for (test::process& each : tasks) CHECK_SAYS(each.text(), "/job:worker/task:0 has closed its connection");
}

// A launcher sends SIGTERM to all tasks, and the chief saves a checkpoint before it leaves.
BOOST_AUTO_TEST_CASE(join_serves_after_a_signal_until_the_chief_has_left) {
  const auto cluster = test::local_cluster(0, 3);
  const test::shared<std::atomic<int>> signalled;
  std::vector<test::process> tasks;
  for (int index = 1; index < 3; ++index)
    tasks.emplace_back([&, index] {
      server_options options;
      if (index == 2) options.stop_patience = 0ms;
      server here(cluster, "worker", index, options);
      const stop_signals received;  // join() may install its handlers after the signal
      std::thread signals([&] {
        here.wait_ready(20s);
        ::raise(SIGTERM);  // blocks no other thread: the handler records it
        ++*signalled;
      });
      const join_report report = here.join(20s, 20s);
      signals.join();
      return str_cat({report.signal, " ", report.finished.size()});
    });
  server chief(cluster, "worker", 0);
  chief.wait_ready(20s);
  BOOST_TEST(tasks[1].text() == "15 0");
  chief.members().await_verdict(2, deadline(10s));
  CHECK_SAYS(chief.members().reason(2), "SIGTERM");
  test::await("signals", [&] { return *signalled == 2; });
  BOOST_TEST((chief.members().state(1) == task_state::alive));
  chief.stop();
  BOOST_TEST(tasks[0].text() == "15 1");
}

// Its peers accept only a new process in its place.
BOOST_AUTO_TEST_CASE(join_ends_in_a_task_that_was_stopped_for_too_long) {
  const auto cluster = test::local_cluster(0, 3);
  server_options options;
  options.heartbeat_interval = 50ms;
  options.heartbeat_timeout = 1s;
  test::process task([&] {
    server here(cluster, "worker", 1, options);
    const join_report report = here.join(20s, 20s);
    return report.interrupted ? std::string(report.interrupted->what()) : std::string("not interrupted");
  });
  server chief(cluster, "worker", 0, options), other(cluster, "worker", 2, options);
  chief.wait_ready(20s);
  task.signal(SIGSTOP);
  chief.members().await_verdict(1, deadline(20s));
  BOOST_TEST((chief.members().state(1) == task_state::lost));
  task.signal(SIGCONT);
  const std::string text = task.text();
  CHECK_SAYS(text, "declared /job:worker/task:1 lost");
  CHECK_SAYS(text, "start this task again");
}

BOOST_AUTO_TEST_CASE(port_zero_tells_the_real_port) {
  server here(cluster_spec{{"worker", "127.0.0.1:0"}}, "worker", 0);
  BOOST_TEST(here.address().port != 0);
  here.wait_ready(1s);
}

BOOST_AUTO_TEST_CASE(wrong_tasks_and_addresses_are_refused) {
  failure(error_code::not_found, [] { server(cluster_spec{{"ps", "127.0.0.1:0"}}, "worker", 0); });
  failure(error_code::not_found, [] { server(cluster_spec{{"ps", "127.0.0.1:0"}}, "ps", 1); });
  const std::string text = failure(error_code::permission_denied,
                                   [] { server(cluster_spec{{"ps", "127.0.0.1:0,192.168.0.1:2222"}}, "ps", 0); });
  CHECK_SAYS(text,
             "192.168.0.1:2222 is not a loopback address, and other hosts can join only with a secret or "
             "certificates; for all tasks, set WEFT_SECRET");
  const std::string any = failure(error_code::invalid_argument,
                                  [] { server(cluster_spec{{"ps", "127.0.0.1:2222,127.0.0.1:0"}}, "ps", 0); });
  CHECK_SAYS(any, "/job:ps/task:1 has port 0");
  server_options everywhere;
  everywhere.bind = endpoint{"0.0.0.0"};
  failure(error_code::permission_denied, [&] { server(cluster_spec{{"ps", "127.0.0.1:0"}}, "ps", 0, everywhere); });
}

BOOST_AUTO_TEST_CASE(options_that_the_transport_cannot_honour_are_rejected) {
  const auto serve = [](const server_options& options) {
    return failure(error_code::invalid_argument,
                   [&] { basic_server<in_process>(cluster_spec{{"ps", "127.0.0.1:0"}}, "ps", 0, options); });
  };
  server_options bound, listens;
  bound.bind = endpoint{"127.0.0.1"};
  listens.listening = std::make_shared<owned_descriptor>(-1);
  CHECK_SAYS(serve(bound), "server_options::bind is set, but the transport has no listen(where, bound)");
  CHECK_SAYS(serve(listens), "server_options::listening is set, but the transport has no listen(where, bound)");
}

BOOST_AUTO_TEST_CASE(a_secret_that_is_given_opens_the_way_to_other_hosts) {
  server_options options;
  options.secret = cluster_secret("known to all tasks alike");
  options.bind = endpoint{"0.0.0.0"};
  // Names of this machine, by which its tasks are known; only the second is asked for its own.
  const std::string all = test::free_addresses(tcp(), 2);
  const auto port = [&](std::size_t from) { return all.substr(all.find(':', from)); };
  std::array<char, 256> name{};
  BOOST_REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  const std::string first = port(0).substr(0, port(0).find(',')), second = port(all.find(','));
  const cluster_spec cluster{{"ps", "127.0.0.1" + first}, {"worker", name.data() + second}};
  server ps(cluster, "ps", 0, options);
  options.bind.reset();
  server worker(cluster, "worker", 0, options);
  worker.wait_ready(20s);
  ps.wait_ready(20s);
  BOOST_TEST(worker.address().host == name.data());
}

// UndefinedBehaviorSanitizer looks at objects through a pipe, and takes it for a fault where none can be opened.
#if !defined(__SANITIZE_ADDRESS__)
BOOST_AUTO_TEST_CASE(a_server_with_too_many_open_files_waits_for_fewer) {
  const auto cluster = test::local_cluster(1, 1);
  server ps(cluster, "ps", 0);
  any_transport network = tcp();
  const auto processor_seconds = [] { return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC); };
  rlimit limit;
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  {
    std::vector<any_transport::stream> calls;
    rlimit few = limit;
    few.rlim_cur = 64;
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    const std::string text = failure(error_code::resource_exhausted, [&] {
      for (;;) calls.push_back(network.connect(ps.address()));
    });
    CHECK_SAYS(text, ": Too many open files");
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
  options.handshake_timeout = 100ms;
  server ps(cluster, "ps", 0, options);
  any_transport network = tcp();
  std::vector<any_transport::stream> strangers;
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

// While one stranger is refused the handshake of another ends, and the connections move together.
BOOST_AUTO_TEST_CASE(each_stranger_is_sent_its_own_answer) {
  const auto cluster = test::local_cluster(1, 1);
  server ps(cluster, "ps", 0);
  any_transport network = tcp();
  const auto end = std::chrono::steady_clock::now() + 1s;
  unsigned version = 5;
  int answers = 0;
  while (std::chrono::steady_clock::now() < end) {
    std::vector<any_transport::stream> strangers;
    for (int i = 0; i < 24; ++i) {
      strangers.push_back(network.connect(ps.address()));
      frame_header header;
      header.kind = frame_kind::hello;
      auto bytes = encode(header);
      version = (version * 7919 + 1) % 65536;
      detail::put_little(bytes.data() + 4,
                         static_cast<std::uint16_t>(version == protocol_version ? protocol_version + 1 : version));
      const const_bytes all(bytes);
      strangers.back().write_some({&all, 1});
      if (i % 3 == 0) strangers.back().close();
    }
    for (any_transport::stream& each : strangers) {
      if (!each.is_open()) continue;
      frame_header header;
      try {
        receive(each, header);  // throws where the bytes are no frame of Weft's
      } catch (const error& problem) {
        BOOST_REQUIRE_MESSAGE(problem.code() == error_code::unavailable, problem.what());
        continue;  // others had taken its place
      }
      BOOST_REQUIRE(header.kind == frame_kind::refuse);
      ++answers;
    }
  }
  BOOST_TEST(answers > 100);
}

namespace {

bool appears(const std::vector<std::byte>& in, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return std::search(in.begin(), in.end(), bytes.begin(), bytes.end()) != in.end();
}

/// Everything that comes until the other side closes, or has nothing more to say.
std::vector<std::byte> hear(any_transport::stream& from, std::chrono::milliseconds time) {
  std::vector<std::byte> heard;
  std::array<std::byte, 4096> some;
  const mutable_bytes into(some);
  try {
    for (const deadline until = time; !until.expired();) {
      const std::size_t n = from.read_some({&into, 1});
      heard.insert(heard.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
      if (n == 0) std::this_thread::sleep_for(1ms);
    }
  } catch (const error&) {
    // closed
  }
  return heard;
}

server_options with_secret(const char* text) {
  server_options options;
  options.secret = cluster_secret(text);
  return options;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_stranger_learns_nothing_of_the_cluster) {
  const auto cluster = test::local_cluster(1, 1);
  server_options options;
  options.handshake_timeout = 300ms;
  server ps(cluster, "ps", 0, options);
  any_transport network = tcp();
  std::vector<std::byte> heard;
  std::vector<any_transport::stream> strangers;
  const auto listen = [&] {
    std::this_thread::sleep_for(50ms);
    for (any_transport::stream& each : strangers) {
      const auto said = hear(each, 1ms);
      heard.insert(heard.end(), said.begin(), said.end());
    }
    strangers.clear();
  };
  const auto send = [&](frame_kind kind, const std::vector<std::byte>& payload, int bit = -1) {
    any_transport::stream& stranger = strangers.emplace_back(network.connect(ps.address()));
    frame_header header;
    header.kind = kind;
    header.payload_length = payload.size();
    auto bytes = encode(header);
    if (bit >= 0) bytes[static_cast<std::size_t>(bit / 8)] ^= static_cast<std::byte>(1 << bit % 8);
    std::vector<std::byte> all(bytes.begin(), bytes.end());
    all.insert(all.end(), payload.begin(), payload.end());
    const const_bytes piece(all);
    stranger.write_some({&piece, 1});
    if (strangers.size() == 30) listen();
  };
  for (unsigned kind = 1; kind <= last_frame_kind; ++kind)
    for (const std::size_t size : {0u, 32u, 64u, 1000u})
      send(static_cast<frame_kind>(kind), std::vector<std::byte>(size, std::byte{7}));
  for (int bit = 0; bit < 64; ++bit) send(frame_kind::hello, std::vector<std::byte>(32), bit);
  listen();
  // A whole handshake, with another secret, in the name of a task.
  talk_type talk =
      talk_type::dialling(network.connect(ps.address()), cluster_secret("guessed by somebody").proof(), nonce());
  BOOST_REQUIRE(meet(talk));
  BOOST_TEST(!talk.proves("/job:ps/task:0"));
  detail::introduction lie = introduction_to_ps(cluster, {"worker", 0}, 5);
  lie.channel = detail::parameter_channel;
  talk.introduce(lie);
  BOOST_TEST(!meet(talk));
  BOOST_TEST(!heard.empty());
  for (const std::string& told : {to_string(ps.address()), std::to_string(ps.address().port), std::string("worker"),
                                  std::string("job"), std::string(distributed_version)})
    BOOST_TEST(!appears(heard, told));
  BOOST_CHECK(ps.members().state(1) == task_state::awaited);
}

BOOST_AUTO_TEST_CASE(tasks_with_different_secrets_do_not_meet) {
  const auto cluster = test::local_cluster(1, 1);
  server ps(cluster, "ps", 0, with_secret("one secret of many bytes"));
  server worker(cluster, "worker", 0, with_secret("another one of many bytes"));
  const std::string text = failure(error_code::unauthenticated, [&] { worker.wait_ready(10s); });
  CHECK_SAYS(text, "connect to /job:ps/task:0: the process listening at " + to_string(ps.address()) +
                       " does not have this task's secret");
  const std::string missing = failure(error_code::deadline_exceeded, [&] { ps.wait_ready(300ms); });
  CHECK_SAYS(missing, "a task with a secret other than this task's (from the program) was rejected");
  const std::string awaited = failure(error_code::deadline_exceeded, [&] { ps.join(100ms); });
  CHECK_SAYS(awaited, "a task with a secret other than this task's (from the program) was rejected");
}

BOOST_AUTO_TEST_CASE(a_task_that_listens_in_anothers_place_is_named) {
  const auto cluster = test::local_cluster(1, 2);
  const cluster_spec swapped{
      {"ps", to_string(cluster.task_address("worker", 0))},
      {"worker", to_string(cluster.task_address("ps", 0)) + "," + to_string(cluster.task_address("worker", 1))}};
  server other(swapped, "worker", 0), worker(cluster, "worker", 1);
  const std::string text = failure(error_code::failed_precondition, [&] { worker.wait_ready(10s); });
  CHECK_SAYS(text, "/job:worker/task:0 listens at " + to_string(cluster.task_address("ps", 0)));
}

// A handshake over a long way takes longer than shortest_stay.
BOOST_AUTO_TEST_CASE(many_connections_of_one_host_evict_no_handshake_of_another) {
  server_options options;
  options.max_strangers = 8;
  const auto cluster = test::local_cluster(1, 1);
  server ps(cluster, "ps", 0, options);
  const auto connected = [&](std::uint32_t from) {
    const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(from);
    BOOST_REQUIRE(::bind(one, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(ps.address().port);
    BOOST_REQUIRE(::connect(one, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    return one;
  };
  const auto is_open = [](int one) {
    char some[256];
    const ssize_t got = ::recv(one, some, sizeof some, MSG_DONTWAIT);
    return got > 0 || (got < 0 && errno == EAGAIN);
  };
  const int slow = connected(INADDR_LOOPBACK + 1);
  std::vector<int> flood;
  for (int i = 0; i < 40; ++i) flood.push_back(connected(INADDR_LOOPBACK));
  for (const deadline until = 10s; is_open(flood[20]) && !until.expired();) std::this_thread::sleep_for(1ms);
  BOOST_TEST(!is_open(flood[20]));  // others were evicted
  BOOST_TEST(is_open(slow));
  for (const int each : flood) ::close(each);
  ::close(slow);
}

// Nobody dials the task of higher rank, which does not start where its name is unknown.
BOOST_AUTO_TEST_CASE(a_wait_for_a_task_whose_host_is_unknown_says_so) {
  cluster_spec cluster;
  cluster.add_job("ps", test::free_addresses(tcp(), 1));
  cluster.add_job("worker", "no.such.host.invalid:2222");
  std::string reported;
  server_options options = with_secret("one secret of many bytes");
  options.on_wait = [&](const wait_change& change) { reported = to_string(change); };
  server ps(cluster, "ps", 0, options);
  const std::string text = failure(error_code::deadline_exceeded, [&] { ps.wait_ready(4s); });
  CHECK_SAYS(text, "/job:worker/task:0 (lookup: ");
  CHECK_SAYS(text, "no.such.host.invalid");
  CHECK_SAYS(reported, "waits up to 4 s for /job:worker/task:0 (lookup: ");
}

// One task was started with --ps 1 and the other without.
BOOST_AUTO_TEST_CASE(tasks_with_one_secret_and_different_jobs_are_told_so) {
  const auto cluster = test::local_cluster(1, 1);
  const cluster_spec of_workers{
      {"worker", to_string(cluster.task_address("ps", 0)) + "," + to_string(cluster.task_address("worker", 0))}};
  server ps(cluster, "ps", 0), worker(of_workers, "worker", 1);
  const std::string text = failure(error_code::failed_precondition, [&] { worker.wait_ready(10s); });
  CHECK_SAYS(text, "connect to /job:worker/task:0: the process listening at " + to_string(ps.address()) +
                       " has this task's secret (");
  CHECK_SAYS(text, "but is not a task of '" + to_string(of_workers) + "'");
  const std::string missing = failure(error_code::deadline_exceeded, [&] { ps.wait_ready(1s); });
  CHECK_SAYS(missing, "a task with the same secret expected a task other than /job:ps/task:0");
  CHECK_SAYS(missing, "give every task the same cluster");
}

BOOST_AUTO_TEST_CASE(strangers_that_take_every_place_keep_nobody_out) {
  const auto cluster = test::local_cluster(1, 1);
  const endpoint where = cluster.task_address("ps", 0);
  // 400 connections that say nothing, or begin to say something, and come again when they are dropped.
  test::process flood([&]() -> std::string {
    any_transport network = tcp();
    std::vector<any_transport::stream> held(400);
    std::array<std::byte, 64> some;
    const mutable_bytes into(some);
    const auto begun = encode({.kind = frame_kind::hello});
    for (const deadline until = 30s; !until.expired();)
      for (std::size_t i = 0; i < held.size(); ++i) try {
          if (held[i].is_open()) {
            held[i].read_some({&into, 1});
            continue;
          }
          held[i] = network.connect(where, 10ms);
          const const_bytes piece = const_bytes(begun).first(i % 64);
          held[i].write_some({&piece, 1});
        } catch (const error&) {
          held[i].close();
        }
    return "";
  });
  rlimit limit;
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlimit few = limit;
  few.rlim_cur = 128;
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  {
    server ps(cluster, "ps", 0);
    std::this_thread::sleep_for(1s);
    const auto start = std::chrono::steady_clock::now();
    server worker(cluster, "worker", 0);
    BOOST_CHECK_NO_THROW(worker.wait_ready(20s));
    BOOST_CHECK_NO_THROW(ps.wait_ready(20s));
    for (int i = 0; i < 20; ++i) {
      BOOST_CHECK_NO_THROW(worker.open_channel(0, "a channel", 10s));
      BOOST_CHECK_NO_THROW(ps.accept_channel(1, "a channel", 10s));
    }
    BOOST_TEST(test::seconds_since(start) < 20 + 10 * test::slack);
  }
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(channels_that_nobody_takes_up_are_few_and_do_not_stay, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 1, network);
  server_on<T> ps(cluster, "ps", 0, {}, network), worker(cluster, "worker", 0, {}, network);
  worker.wait_ready(10s);
  ps.wait_ready(10s);
  const std::string text = failure(error_code::resource_exhausted, [&] {
    for (int i = 0; i < 100; ++i) worker.open_channel(0, "channel " + std::to_string(i), 10s);
  });
  CHECK_SAYS(text, "/job:worker/task:0 has 16 channels that were not accepted; at most 16 can wait");
  BOOST_CHECK_NO_THROW(ps.accept_channel(1, "channel 3", 1s));
  BOOST_CHECK_NO_THROW(worker.open_channel(0, "one more", 300ms));
  // The task that opened it waits no longer.
  std::this_thread::sleep_for(700ms);
  BOOST_CHECK_NO_THROW(worker.open_channel(0, "in its place", 10s));
  failure(error_code::deadline_exceeded, [&] { ps.accept_channel(1, "one more", 100ms); });
  BOOST_CHECK_NO_THROW(ps.accept_channel(1, "in its place", 1s));
}

// A peer knows the secret, and begins again and again.
BOOST_AUTO_TEST_CASE(a_task_has_one_control_connection) {
  const auto cluster = test::local_cluster(1, 1);
  server ps(cluster, "ps", 0);
  any_transport network = tcp();
  std::vector<any_transport::stream> begun;
  for (int i = 0; i < 50; ++i) {
    talk_type talk = talk_type::dialling(network.connect(ps.address()), secret().proof(), nonce());
    BOOST_REQUIRE(meet(talk));
    talk.introduce(introduction_to_ps(cluster, {"worker", 0}, 4711));
    BOOST_REQUIRE(meet(talk));
    BOOST_REQUIRE(talk.other());
    begun.push_back(std::move(talk.stream()));
  }
  std::this_thread::sleep_for(100ms);
  const auto open = std::count_if(begun.begin(), begun.end(), [](any_transport::stream& each) {
    std::array<std::byte, 4096> some;
    const mutable_bytes into(some);
    try {
      while (each.read_some({&into, 1}) > 0) {
      }
      return true;
    } catch (const error&) {
      return false;
    }
  });
  BOOST_TEST(open == 1);
}

namespace {

detail::introduction worker_zero(const cluster_spec& cluster, const std::string& channel = {}) {
  detail::introduction said = introduction_to_ps(cluster, {"worker", 0}, 4711);
  said.channel = channel;
  return said;
}

talk_type dial(const server& at) {
  return talk_type::dialling(any_transport(tcp()).connect(at.address()), secret().proof(), nonce());
}

/// To a task that welcomes it.
void introduce(talk_type& talk, const detail::introduction& said) {
  talk.introduce(said);
  BOOST_REQUIRE(meet(talk));
  BOOST_REQUIRE(talk.other());
}

void send_heartbeat(any_transport::stream& to) {
  frame_header header;
  header.kind = frame_kind::heartbeat;
  frame_writer out;
  out.start(header);
  while (!out.idle()) out.advance(to);
}

}  // namespace

// A connection that its peer has given up, and whose last words are read after those of the next.
BOOST_AUTO_TEST_CASE(the_channel_that_was_opened_last_counts) {
  const auto cluster = test::local_cluster(1, 1);
  server ps(cluster, "ps", 0);
  talk_type control = dial(ps);
  BOOST_REQUIRE(meet(control));
  introduce(control, worker_zero(cluster));
  send_heartbeat(control.stream());
  ps.wait_ready(10s);
  talk_type before = dial(ps);
  BOOST_REQUIRE(meet(before));
  talk_type last = dial(ps);
  BOOST_REQUIRE(meet(last));
  introduce(last, worker_zero(cluster, "values"));
  introduce(before, worker_zero(cluster, "values"));
  auto taken = ps.accept_channel(1, "values", 10s);
  const const_bytes word = std::as_bytes(std::span("here", 4));
  last.stream().write_some({&word, 1});
  std::array<std::byte, 4> heard{};
  const mutable_bytes into(heard);
  const deadline until = 5s;
  std::size_t read = 0;
  while (read == 0 && !until.expired()) {
    BOOST_REQUIRE_NO_THROW(read = taken.stream.read_some({&into, 1}));
    std::this_thread::sleep_for(1ms);
  }
  BOOST_TEST(read == 4u);
}

// So is a control connection: the task that has opened both goes on with the later one.
BOOST_AUTO_TEST_CASE(the_control_connection_that_was_opened_last_counts) {
  const auto cluster = test::local_cluster(1, 1);
  server_options options;
  options.heartbeat_interval = 50ms;
  server ps(cluster, "ps", 0, options);
  talk_type before = dial(ps);
  BOOST_REQUIRE(meet(before));
  talk_type last = dial(ps);
  BOOST_REQUIRE(meet(last));
  introduce(last, worker_zero(cluster));
  introduce(before, worker_zero(cluster));
  send_heartbeat(last.stream());
  ps.wait_ready(10s);
  frame_header header;
  for (int heard = 0; heard < 4; ++heard) {
    BOOST_REQUIRE_NO_THROW(receive(last.stream(), header));
    BOOST_TEST((header.kind == frame_kind::heartbeat));
  }
  BOOST_TEST((ps.members().state(1) == task_state::alive));
}

BOOST_AUTO_TEST_CASE(who_says_nothing_after_the_handshake_is_told_why_it_is_dropped) {
  const auto cluster = test::local_cluster(1, 1);
  server_options options;
  options.heartbeat_timeout = 300ms;
  server ps(cluster, "ps", 0, options);
  talk_type silent = dial(ps);
  BOOST_REQUIRE(meet(silent));
  introduce(silent, worker_zero(cluster));
  frame_reader in;
  std::vector<std::byte> words;
  in.expect(detail::max_control_bytes);
  for (const deadline until = 5s; !until.expired();) {
    if (in.advance(silent.stream()) == 0) std::this_thread::sleep_for(1ms);
    if (in.needs_destination()) {
      words.resize(static_cast<std::size_t>(in.header().payload_length));
      in.payload_to(mutable_bytes(words));
    }
    if (!in.complete()) continue;
    if (in.header().kind != frame_kind::heartbeat) break;
    in.expect(detail::max_control_bytes);
  }
  BOOST_REQUIRE(in.complete());
  BOOST_REQUIRE(in.header().kind == frame_kind::refuse);
  CHECK_SAYS(detail::read_error(words, "control").what(), "has sent no heartbeat for ");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_loss_is_told_to_those_who_never_met_the_lost, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 3, network);
  server_on<T> ps(cluster, "ps", 0, {}, network);
  const std::size_t rank_of_lost = cluster.rank({"worker", 2});
  // Worker 2 comes and goes without a goodbye: its side of the handshake, played.
  using talk = detail::handshake;
  const cluster_secret same = detail::usual_secret(network);
  {
    talk lost = talk::dialling(any_transport(network).connect(ps.address()), same.proof(), nonce());
    const auto until = deadline(5s);
    while (lost.at() != talk::phase::over && !until.expired()) {
      lost.advance();
      if (lost.at() != talk::phase::challenged) continue;
      lost.introduce(introduction_to_ps(cluster, {"worker", 2}, 4711));
    }
    frame_header header;
    header.kind = frame_kind::heartbeat;
    frame_writer out;
    out.start(header);
    while (!out.idle()) out.advance(lost.stream());
    while (ps.members().state(rank_of_lost) != task_state::alive && !until.expired()) std::this_thread::sleep_for(1ms);
  }
  const server_options with_all{.device_filters = {"/job:ps", "/job:worker"}};
  server_on<T> first(cluster, "worker", 0, with_all, network), second(cluster, "worker", 1, with_all, network);
  const auto start = std::chrono::steady_clock::now();
  for (auto* each : {&first, &second}) {
    const std::string text = failure(error_code::unavailable, [&] { each->wait_ready(20s); });
    CHECK_SAYS(text, "/job:worker/task:2 has closed its connection unexpectedly");
    CHECK_SAYS(text, "as reported by /job:ps/task:0");
  }
  BOOST_TEST(test::seconds_since(start) < 3 + test::slack);
  // It was started again: who has only heard of the end of the first lets it in, and so does who has seen it.
  server_on<T> again(cluster, "worker", 2, with_all, network);
  again.wait_ready(10s);
  const auto until = deadline(10s);
  for (auto* each : {&ps, &first, &second})
    while (each->members().state(rank_of_lost) != task_state::alive && !until.expired())
      std::this_thread::sleep_for(1ms);
  BOOST_TEST(!until.expired());
}

// Worker 1 is played: it hears from the parameter server of worker 0's goodbye where worker 0 has not met it, and only
// there.
BOOST_AUTO_TEST_CASE(a_goodbye_is_told_to_those_who_do_not_hear_it) {
  for (const bool have_met : {false, true}) {
    const auto cluster = test::local_cluster(1, 2);
    server_options options;
    options.heartbeat_interval = 50ms;
    server ps(cluster, "ps", 0, options);
    if (have_met) options.device_filters = {"/job:ps", "/job:worker"};
    auto zero = std::make_unique<server>(cluster, "worker", 0, options);
    const auto meet_as_one = [&](const server& at, const task_id& to) {
      talk_type talk = dial(at);
      BOOST_REQUIRE(meet(talk));
      detail::introduction said = introduction_to_ps(cluster, {"worker", 1}, 4711);
      said.to = to;
      introduce(talk, said);
      send_heartbeat(talk.stream());
      return std::move(talk.stream());
    };
    any_transport::stream from_ps = meet_as_one(ps, {"ps", 0});
    std::optional<any_transport::stream> from_zero;
    if (have_met) from_zero = meet_as_one(*zero, {"worker", 0});
    ps.wait_ready(10s);
    zero->wait_ready(10s);
    zero.reset();
    frame_header header;
    if (have_met) {
      do receive(*from_zero, header);
      while (header.kind == frame_kind::heartbeat);
      BOOST_TEST((header.kind == frame_kind::goodbye));
    }
    // Until the parameter server has heard it, and some turns more.
    const auto until = deadline(5s);
    while (ps.members().state(1) == task_state::alive && !until.expired()) std::this_thread::sleep_for(1ms);
    bool was_told = false;
    for (int beats = 0; beats < 4 && !was_told;) {
      const std::vector<std::byte> payload = receive(from_ps, header);
      was_told = header.kind == frame_kind::notice && detail::notice::read(payload).left;
      beats += header.kind == frame_kind::heartbeat;
    }
    BOOST_TEST(was_told == !have_met);
  }
}

BOOST_AUTO_TEST_CASE(a_restart_does_not_hide_an_end) {
  const cluster_spec cluster{{"ps", "127.0.0.1:1"}, {"worker", "127.0.0.1:2,127.0.0.1:3"}};
  membership members(cluster, 0);
  BOOST_CHECK(members.state(1, 0) == task_state::awaited);
  members.set_alive(1, 11);
  BOOST_TEST(members.alive(1, 11));
  members.set_lost(1, "has fallen silent");
  members.set_alive(1, 12);  // at once
  BOOST_TEST(members.alive(1, 12));
  BOOST_TEST(!members.alive(1, 11));
  BOOST_CHECK(members.state(1, 11) == task_state::lost);
  CHECK_SAYS(members.diagnose(1, 11, "sum", "is gone").what(), "/job:worker/task:0 has fallen silent");
  members.set_alive(1, 13);  // nobody had noticed the end of the last one
  CHECK_SAYS(members.diagnose(1, 12, "sum", "is gone").what(), "/job:worker/task:0 was started again");
  BOOST_TEST(members.is_given_up(1, 12));
  BOOST_TEST(!members.is_given_up(1, 13));
}

BOOST_AUTO_TEST_CASE(who_joins_learns_of_an_end_that_a_restart_followed_at_once) {
  const in_process network;
  const auto cluster = test::local_cluster(0, 2, network);
  server_on<in_process> here(cluster, "worker", 0, {}, network), other(cluster, "worker", 1, {}, network);
  here.wait_ready(10s);
  other.wait_ready(10s);
  join_report report;
  std::thread joining([&] { report = here.join(10s, 10s); });
  std::this_thread::sleep_for(300ms);
  here.members().set_alive(1, 12);
  std::this_thread::sleep_for(300ms);
  other.stop();
  joining.join();
  BOOST_REQUIRE(report.lost.size() == 1u);
  BOOST_TEST(report.lost[0] == "/job:worker/task:1 was started again");
  BOOST_REQUIRE(report.finished.size() == 1u);
}

BOOST_AUTO_TEST_CASE(the_task_that_failed_is_named_not_the_one_that_told) {
  const cluster_spec cluster{{"ps", "127.0.0.1:1"}, {"worker", "127.0.0.1:2,127.0.0.1:3"}};
  {
    membership members(cluster, 0);
    members.set_alive(1, 11);
    members.set_left(1, "push_pull: /job:worker/task:1 was refused, for its seed is 4");
    CHECK_SAYS(
        members.diagnose(1, 11, "sum", "has gone", true).what(),
        "sum: /job:worker/task:0 has left the cluster after an error: push_pull: /job:worker/task:1 was refused");
  }
  membership members(cluster, 0);
  members.set_alive(1, 11);
  members.set_alive(2, 12);
  members.set_lost(2, "has fallen silent");
  members.set_left(1, "push_pull: /job:worker/task:1 has fallen silent");
  BOOST_TEST(members.diagnose(1, 11, "sum", "has gone", true).sentence() ==
             "/job:worker/task:1 has fallen silent; then /job:worker/task:0 has left the cluster");
}

// Dozens of tasks on one host would spend all of it on signs of life.
BOOST_AUTO_TEST_CASE(signs_of_life_become_fewer_where_a_host_has_many_tasks) {
  const auto timeout = [](int tasks, server_options options = {}) {
    std::string addresses;
    for (int i = 0; i < tasks; ++i) addresses += (i ? ",127.0.0.1:" : "127.0.0.1:") + std::to_string(i + 1);
    return basic_server<in_process>({{"worker", addresses}}, "worker", 0, options).heartbeat_timeout(1);
  };
  BOOST_TEST((timeout(8) == 1750ms));
  BOOST_TEST((timeout(200) == 7 * 4000ms));
  server_options asked;
  asked.heartbeat_interval = 100ms;
  BOOST_TEST((timeout(200, asked) == 700ms));
}

// A link may be down for seconds between hosts, and TCP needs as long again to resume.
BOOST_AUTO_TEST_CASE(a_task_of_another_host_may_be_silent_for_longer) {
  const std::string own = test::free_addresses(tcp(), 1);
  const auto timeouts = [&](server_options options) {
    options.secret = cluster_secret("between hosts a secret");
    const server here({{"worker", own + ",127.0.0.2:1,192.0.2.1:1"}}, "worker", 0, options);
    return std::pair(here.heartbeat_timeout(1), here.heartbeat_timeout(2));
  };
  BOOST_TEST((timeouts({}) == std::pair(1750ms, 10'000ms)));
  server_options asked;
  asked.heartbeat_timeout = 3s;
  BOOST_TEST((timeouts(asked) == std::pair(3000ms, 3000ms)));
  asked.heartbeat_timeout = 250ms;
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { timeouts(asked); }),
             "server_options::heartbeat_timeout is 250 ms and must exceed the 250 ms between two heartbeats");
  for (const auto time : {std::chrono::milliseconds(-1), std::chrono::milliseconds::max(),
                          std::chrono::milliseconds::min(), std::chrono::milliseconds(31'622'400'001)})
    for (const auto set : std::initializer_list<void (*)(server_options&, std::chrono::milliseconds)>{
             [](server_options& o, std::chrono::milliseconds t) { o.heartbeat_interval = t; },
             [](server_options& o, std::chrono::milliseconds t) { o.heartbeat_timeout = t; },
             [](server_options& o, std::chrono::milliseconds t) { o.handshake_timeout = t; },
             [](server_options& o, std::chrono::milliseconds t) { o.stalled = t; },
             [](server_options& o, std::chrono::milliseconds t) { o.idle_worker = t; },
             [](server_options& o, std::chrono::milliseconds t) { o.stop_patience = t; }}) {
      server_options options;
      set(options, time);
      CHECK_SAYS(failure(error_code::invalid_argument, [&] { timeouts(options); }), " to 31622400000 ms (366 days)");
    }
}

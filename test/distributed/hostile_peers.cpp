// SPDX-License-Identifier: BSL-1.0
// Peers at random: while a small run trains, strangers of every kind connect to its tasks and speak the protocol, from
// a seed: they stop in the middle, lie in one field, replay what they have overheard, flood, close a half, and prove
// another secret; some know the secret and are members of the cluster that have no part in the training. The run's
// result is bit for bit what it is without them, and nothing stays.
//
//   WEFT_RANDOM_SECONDS=3600 WEFT_RANDOM_FROM=1000000 test_distributed_hostile_peers      goes on with other seeds
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/distributed/parameter/parameter_server.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

using byte_list = std::vector<std::byte>;

/// The bytes that tasks have sent on connections that they opened, for strangers to send again.
struct overheard {
  std::mutex mutex;
  std::deque<byte_list> said;

  std::size_t begin() {
    std::lock_guard lock(mutex);
    said.emplace_back();
    return said.size() - 1;
  }
  void add(std::size_t which, const_bytes more) {
    std::lock_guard lock(mutex);
    constexpr std::size_t most = std::size_t{16} << 10;
    byte_list& all = said[which];
    const std::size_t n = std::min(more.size(), most - all.size());
    all.insert(all.end(), more.begin(), more.begin() + static_cast<std::ptrdiff_t>(n));
  }
  byte_list any(std::mt19937& random) {
    std::lock_guard lock(mutex);
    return said.empty() ? byte_list{} : said[random() % said.size()];
  }
};

/// TCP with somebody who listens in.
class tapped : public tcp {
 public:
  class stream : public tcp::stream {
   public:
    stream() = default;
    stream(tcp::stream from, std::shared_ptr<overheard> by)
        : tcp::stream(std::move(from)), by_(std::move(by)), which_(by_->begin()) {}
    std::size_t write_some(std::span<const const_bytes> from) {
      std::size_t moved = tcp::stream::write_some(from), left = moved;
      for (const const_bytes piece : from) {
        const std::size_t n = std::min(left, piece.size());
        if (by_ && n > 0) by_->add(which_, piece.first(n));
        left -= n;
      }
      return moved;
    }

   private:
    std::shared_ptr<overheard> by_;
    std::size_t which_ = 0;
  };

  stream connect(const endpoint& where, std::chrono::milliseconds time = std::chrono::milliseconds(250)) {
    return {tcp::connect(where, time), by_};
  }
  const std::shared_ptr<overheard>& by() const { return by_; }

 private:
  std::shared_ptr<overheard> by_ = std::make_shared<overheard>();
};
static_assert(transport<tapped>);

// ---- the run ----

const cluster_secret& true_secret() {
  static const cluster_secret secret("the secret of this run");
  return secret;
}

/// Servers, two workers, and a task that has no part in the training: of the highest rank, so that nobody dials it.
cluster_spec make_cluster() {
  const std::string all = test::free_addresses(tcp(), 4);
  std::vector<std::string> one;
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t end = std::min(all.find(',', at), all.size());
    one.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return {{"ps", one[0]}, {"worker", one[1] + "," + one[2]}, {"yonder", one[3]}};
}

const std::vector<parameter_spec>& variables() {
  static const std::vector<parameter_spec> both = {{"w", element_type::float32, 500, 0, {"momentum", {0.125, 0.75}}},
                                                   {"b", element_type::float64, 30, 0, {"gradient_descent", {0.25}}}};
  return both;
}
std::size_t bytes_of_all() { return variables()[0].bytes() + variables()[1].bytes(); }

struct values {
  std::vector<float> w = std::vector<float>(500);
  std::vector<double> b = std::vector<double>(30);

  std::vector<const_bytes> in() const { return {std::as_bytes(std::span(w)), std::as_bytes(std::span(b))}; }
  std::vector<mutable_bytes> out() {
    return {std::as_writable_bytes(std::span(w)), std::as_writable_bytes(std::span(b))};
  }
  friend bool operator==(const values& a, const values& b) {
    return std::memcmp(a.w.data(), b.w.data(), a.w.size() * sizeof(float)) == 0 &&
           std::memcmp(a.b.data(), b.b.data(), a.b.size() * sizeof(double)) == 0;
  }
};

/// The way to a point that is another one for each worker: what is learned depends on every step of both.
void gradient_at(const values& now, int worker, int step, values& gradient) {
  for (std::size_t i = 0; i < now.w.size(); ++i)
    gradient.w[i] = now.w[i] - static_cast<float>((i * 7 + static_cast<std::size_t>(worker * 31 + step)) % 97) / 97.0f;
  for (std::size_t i = 0; i < now.b.size(); ++i)
    gradient.b[i] = now.b[i] * 0.5 - static_cast<double>((i + static_cast<std::size_t>(worker + step)) % 11) / 11.0;
}

struct moments {
  std::atomic<int> here{0};           // tasks that have met the others
  std::atomic<bool> over{false};      // the run is
  std::atomic<bool> training{false};  // the first worker's variables have values
};

constexpr int steps = 40;
constexpr auto patience = 60s;

struct outcome {
  values of_first, of_second;
  std::vector<float> mean;
  std::string trouble;  // an error of any task
  join_report report;
};

server_options options_of(unsigned seed) {
  server_options options;
  options.device_filters = {"/job:ps", "/job:worker", "/job:yonder"};  // so that all have met before anybody lies
  options.secret = true_secret();
  options.heartbeat_timeout = 20s;  // machines under test are slow
  options.shared_memory = seed % 2 == 0;
  options.checksum = seed % 3 != 0;
  return options;
}

/// Trains on one server and two workers, who meanwhile sum something of their own.
outcome train(const cluster_spec& cluster, tapped network, unsigned seed, moments& when,
              std::chrono::milliseconds pause = 0ms) {
  outcome made;
  std::mutex mutex;
  const auto run = [&](const char* job, int index, auto work) {
    return std::thread([&, job, index, work] {
      try {
        basic_server<tapped> here(cluster, job, index, options_of(seed), network);
        here.members().wait_for(deadline(patience), [](const task_id& task) { return task.job != "yonder"; });
        ++when.here;
        work(here);
      } catch (const std::exception& problem) {
        std::lock_guard lock(mutex);
        made.trouble += std::string(job) + " " + std::to_string(index) + ": " + problem.what() + "\n";
      }
    });
  };
  const auto work = [&](basic_server<tapped>& here) {
    parameter_client client(here, variables(), consistency::synchronous, 7, patience);
    all_reduce group(here, 7, {}, patience);
    values now, gradient;
    std::vector<float> mean(3000);
    client.initialise(now.in(), patience);
    client.pull(now.out(), patience);
    for (int step = 0; step < steps; ++step) {
      gradient_at(now, here.index(), step, gradient);
      client.push_pull(step, gradient.in(), now.out(), patience);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gradient.w[i % gradient.w.size()];
      group.mean(std::span(mean), patience, step % 2 ? reduce_algorithm::ring : reduce_algorithm::automatic);
      if (pause > 0ms) std::this_thread::sleep_for(pause);
    }
    client.done(patience);
    std::lock_guard lock(mutex);
    (here.index() == 0 ? made.of_first : made.of_second) = now;
    if (here.index() == 0) made.mean = mean;
  };
  std::thread threads[] = {run("ps", 0, [&](auto& here) { made.report = here.join(patience, patience); }),
                           run("worker", 0, work), run("worker", 1, work)};
  for (std::thread& each : threads) each.join();
  when.over = true;
  return made;
}

int open_descriptors() {
  int count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  BOOST_REQUIRE(folder);
  while (::readdir(folder)) ++count;
  ::closedir(folder);
  return count;
}

// ---- strangers ----

/// How often something was achieved: a test of nothing would be no test.
struct tally {
  std::atomic<std::uint64_t> connections{0}, challenged{0}, turned_away{0}, refused{0}, welcomed{0}, frames{0},
      answered{0};
};

/// A socket as nobody of good manners uses it.
class rude_socket {
 public:
  rude_socket() = default;
  explicit rude_socket(const endpoint& where) : number_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(where.port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval some{0, 100'000};
    ::setsockopt(number_, SOL_SOCKET, SO_RCVTIMEO, &some, sizeof some);
    ::setsockopt(number_, SOL_SOCKET, SO_SNDTIMEO, &some, sizeof some);
    if (::connect(number_, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) close();
  }
  rude_socket(rude_socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  rude_socket& operator=(rude_socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~rude_socket() { close(); }

  bool is_open() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  /// With a reset: what was on its way is lost.
  void slam() {
    const linger now{1, 0};
    ::setsockopt(number_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void close_half(int which) { ::shutdown(number_, which); }
  void say(const_bytes bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(number_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  byte_list hear(std::size_t most) {
    byte_list all(most);
    const ssize_t n = ::recv(number_, all.data(), all.size(), 0);
    all.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return all;
  }

 private:
  int number_ = -1;
};

using talk_type = detail::handshake;
using phase = talk_type::phase;

detail::handshake_nonce nonce_of(std::mt19937& random) {
  detail::handshake_nonce made;
  for (std::byte& each : made) each = static_cast<std::byte>(random());
  return made;
}

byte_list frame(frame_header header, const_bytes payload, bool checked = true) {
  header.payload_length = payload.size();
  if (checked) {
    header.flags |= payload_checked;
    header.payload_crc = crc32c(payload);
  }
  const frame_header_bytes front = encode(header);
  byte_list all(front.begin(), front.end());
  all.insert(all.end(), payload.begin(), payload.end());
  return all;
}

byte_list random_bytes(std::mt19937& random, std::size_t size) {
  byte_list all(size);
  for (std::byte& each : all) each = static_cast<std::byte>(random());
  return all;
}

/// One byte of one of its frames changed; where `mends`, with checksums that are right again.
void lie_somewhere(byte_list& bytes, std::mt19937& random, bool mends) {
  if (bytes.empty()) return;
  std::size_t frame_at = 0;
  const std::size_t at = random() % 3 ? random() % std::min<std::size_t>(bytes.size(), 64) : random() % bytes.size();
  bytes[at] ^= static_cast<std::byte>(1 + random() % 255);
  while (mends && bytes.size() - frame_at >= frame_header_size) {
    const std::span rest = std::span(bytes).subspan(frame_at);
    const auto length = detail::get_little<std::uint64_t>(rest.data() + 24);
    if (length <= rest.size() - frame_header_size)
      detail::put_little(rest.data() + 12, crc32c(rest.subspan(frame_header_size, static_cast<std::size_t>(length))));
    detail::put_little(rest.data() + detail::header_crc_at, crc32c(rest.first(detail::header_crc_at)));
    if (length > rest.size() - frame_header_size) return;
    frame_at += frame_header_size + static_cast<std::size_t>(length);
  }
}

/// A frame that makes sense somewhere, perhaps not here.
byte_list any_frame(std::mt19937& random) {
  frame_header header;
  header.kind = static_cast<frame_kind>(1 + random() % last_frame_kind);
  header.request = random() % 50;
  header.step = static_cast<std::int64_t>(random() % 50) - 5;
  header.tag = random();
  header.flags = random() % 4 == 0 ? random() & known_frame_flags & ~static_cast<std::uint32_t>(payload_checked) : 0u;
  header.deadline_us = random() % 2 ? 0 : random();
  header.weight = random() % 4;
  byte_list payload;
  switch (random() % 5) {
    case 0:
      payload =
          detail::enroll_message{random() % 2 ? consistency::synchronous : consistency::asynchronous, 7, variables()}
              .bytes();
      break;
    case 1:
      payload = random_bytes(random, random() % 2 ? bytes_of_all() : random() % 300);
      break;
    case 2:
      payload = detail::error_bytes(static_cast<error_code>(1 + random() % 16), "a stranger says so");
      break;
    default:
      break;
  }
  byte_list all = frame(header, payload, random() % 4 != 0);
  if (random() % 4 == 0) lie_somewhere(all, random, random() % 2 == 0);
  return all;
}

/// Goes on with a handshake until there is something to decide, or it is over.
bool meet(talk_type& talk, const moments& when, tally& count) {
  try {
    for (const deadline until = 3s; talk.at() == phase::talking && !until.expired() && !when.over;)
      if (talk.advance() == 0) std::this_thread::sleep_for(1ms);
  } catch (const error& problem) {
    if (problem.code() == error_code::unauthenticated) ++count.turned_away;
    return false;
  }
  return talk.at() != phase::talking;
}

struct hostile {
  const cluster_spec& cluster;
  overheard& heard;
  moments& when;
  tally& count;
  std::mt19937 random;
  std::deque<rude_socket> held = {};  // connections that are kept open without a word

  task_id any_task() {
    const int which = static_cast<int>(random() % 3);
    return which == 0 ? task_id{"ps", 0} : task_id{"worker", which - 1};
  }
  endpoint address(const task_id& task) const { return cluster.task_address(task.job, task.index); }

  void run() {
    while (!when.over) {
      try {
        turn();
      } catch (const error&) {
        // nobody listens there, or no longer
      }
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 5));
    }
  }

  void turn() {
    const task_id whom = any_task();
    switch (random() % 16) {
      case 0:
      case 1:
        return flood(whom);
      case 2:
      case 3:
      case 4:
        return talk_to(whom, cluster_secret("the secret of another run"), introduction_to(whom));
      case 5:
      case 6:
        return lie_to(whom);
      case 7:
      case 8:
      case 9:
        return visit(whom);
      default:
        return speak_to(whom);
    }
  }

  /// Raw bytes: some that are right up to a point, some heard before, some of no sense.
  void speak_to(const task_id& whom) {
    rude_socket to(address(whom));
    if (!to.is_open()) return;
    ++count.connections;
    byte_list said;
    switch (random() % 6) {
      case 0:
        said = random_bytes(random, random() % 300);
        break;
      case 1:
        said = any_frame(random);
        break;
      case 2: {
        said = frame({.kind = frame_kind::hello}, nonce_of(random));
        lie_somewhere(said, random, random() % 4 != 0);
        break;
      }
      case 3:
        said = heard.any(random);
        break;
      case 4:
        said = heard.any(random);
        lie_somewhere(said, random, random() % 2 == 0);
        break;
      default: {  // a hello, and what the other answers in return, or a proof made of nothing
        to.say(frame({.kind = frame_kind::hello}, nonce_of(random)));
        const byte_list answer = to.hear(160);
        if (answer.size() == 160) ++count.challenged;
        byte_list who = introduction_to(whom).bytes();
        if (answer.size() == 160 && random() % 2)
          who.insert(who.end(), answer.end() - 32, answer.end());
        else
          who.resize(who.size() + 32);
        said = frame({.kind = random() % 4 ? frame_kind::introduce : frame_kind::challenge}, who);
      }
    }
    if (random() % 3 == 0) said.resize(random() % (said.size() + 1));
    to.say(said);
    if (random() % 3 == 0)
      for (auto more = random() % 20; more > 0; --more) to.say(any_frame(random));
    end(std::move(to));
  }

  void end(rude_socket to) {
    switch (random() % 6) {
      case 0:
        return to.slam();
      case 1:
        to.close_half(SHUT_WR);
        to.hear(1000);
        return;
      case 2:
        to.close_half(SHUT_RD);
        to.say(random_bytes(random, 1000));
        return;
      case 3:
        held.push_back(std::move(to));
        if (held.size() > 40) held.pop_front();
        return;
      case 4:
        to.hear(1000);
        return;
      default:
        return;
    }
  }

  void flood(const task_id& whom) {
    std::vector<rude_socket> many;
    for (auto i = 20 + random() % 80; i > 0 && !when.over; --i) {
      many.emplace_back(address(whom));
      if (!many.back().is_open()) return;
      ++count.connections;
      const byte_list hello = frame({.kind = frame_kind::hello}, nonce_of(random));
      many.back().say(const_bytes(hello).first(random() % (hello.size() + 1)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
    for (rude_socket& each : many)
      if (random() % 2) each.slam();
  }

  /// The words of a true task: a worker that the others wait for, perhaps.
  detail::introduction introduction_to(const task_id& whom) {
    detail::introduction said;
    said.library_version = distributed_version;
    said.cluster_hash = cluster.hash();
    said.cluster = to_string(cluster);
    said.from = {"worker", static_cast<int>(random() % 2)};
    said.to = whom;
    said.incarnation = random();
    if (random() % 2) said.channel = random() % 2 ? "parameters" : "all_reduce";
    return said;
  }

  /// Nobody of another secret is let in, whatever it says of itself.
  void talk_to(const task_id& whom, const cluster_secret& secret, const detail::introduction& said) {
    talk_type talk = talk_type::dialling(any_transport(tcp()).connect(address(whom)), secret.proof(), nonce_of(random));
    ++count.connections;
    if (!meet(talk, when, count) || talk.at() != phase::challenged) return;
    ++count.challenged;
    talk.introduce(said);
    if (random() % 4 == 0)
      talk.stream().close();
    else if (meet(talk, when, count))
      ++(talk.refusal() ? count.refused : count.welcomed);
  }

  /// A task that knows the secret and is wrong about one thing is refused.
  void lie_to(const task_id& whom) {
    detail::introduction said = introduction_to(whom);
    switch (random() % 8) {
      case 0:
        said.library_version = random() % 2 ? "0.1" : std::string(4096, '\x1b');
        break;
      case 1:
        said.cluster_hash ^= std::uint64_t{1} << random() % 64;
        break;
      case 2:
        said.to = {"worker", whom.job == "worker" ? 1 - whom.index : 0};
        break;
      case 3:
        said.to.index = static_cast<int>(random());
        break;
      case 4:
        said.from = whom;
        break;
      case 5:
        said.from.index = random() % 2 ? -1 - static_cast<int>(random() % 100) : std::numeric_limits<int>::max();
        break;
      case 6:
        said.from.job = random() % 2 ? "nobody" : "work\x1b[2Jer";
        break;
      default:
        said.from = {"ps", random() % 2 ? 1 : std::numeric_limits<int>::min()};
        break;
    }
    talk_to(whom, true_secret(), said);
  }

  /// A member of the cluster that has no part in the training, and no manners.
  void visit(const task_id& whom) {
    if (when.here < 3) return;  // its words about tasks that have not come would be believed
    talk_type talk =
        talk_type::dialling(any_transport(tcp()).connect(address(whom)), true_secret().proof(), nonce_of(random));
    ++count.connections;
    if (!meet(talk, when, count) || talk.at() != phase::challenged) return;
    detail::introduction said = introduction_to(whom);
    said.from = {"yonder", 0};
    said.waits_us = random() % 3 ? random() : ~std::uint64_t{0};
    if (random() % 4 == 0) said.channel = "channel " + std::to_string(random() % 30);
    talk.introduce(said);
    if (!meet(talk, when, count) || !talk.other()) return;
    any_transport::stream& to = talk.stream();
    const auto say = [&](const byte_list& bytes) {
      for (const_bytes left = bytes; !left.empty() && !when.over;) {
        const std::size_t n = to.write_some({&left, 1});
        if (n == 0) std::this_thread::sleep_for(1ms);
        left = left.subspan(n);
      }
      ++count.frames;
    };
    for (auto more = random() % 100; more > 0 && !when.over; --more) {
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          say(frame({.kind = frame_kind::heartbeat}, {}));
          break;
        case 3:
        case 4: {
          const int which = static_cast<int>(random() % 5);
          detail::notice lie{which < 3 ? any_task() : task_id{"worker", which - 4},
                             random(),
                             random() % 2 == 0,
                             random() % 2 == 0,
                             random() % 2 == 0,
                             "is dead"};
          say(frame({.kind = frame_kind::notice}, lie.bytes()));
          break;
        }
        case 5:
          std::this_thread::sleep_for(1ms);
          break;
        case 6:
          if (random() % 8 == 0)
            say(frame({.kind = frame_kind::goodbye}, detail::error_bytes(error_code::aborted, "so")));
          break;
        default:
          if (random() % 8 == 0) say(any_frame(random));
      }
    }
  }
};

unsigned first_seed() {
  const char* const from = std::getenv("WEFT_RANDOM_FROM");
  return from ? static_cast<unsigned>(std::strtoul(from, nullptr, 10)) : 1u;
}
double seconds() {
  const char* const given = std::getenv("WEFT_RANDOM_SECONDS");
  return given ? std::strtod(given, nullptr) / 3 : 3;
}

/// Until the time is over, and once at least.
template <typename Run>
unsigned seed_after_seed(Run run) {
  const auto start = std::chrono::steady_clock::now();
  unsigned seed = first_seed(), runs = 0;
  do {
    BOOST_TEST_INFO_SCOPE("WEFT_RANDOM_FROM=" << seed);
    const int before = open_descriptors();
    const auto began = std::chrono::steady_clock::now();
    const bool well = run(seed);
    BOOST_TEST(open_descriptors() == before);
    BOOST_TEST(test::seconds_since(began) < 120);
    if (!well) break;
    ++seed, ++runs;
  } while (test::seconds_since(start) < seconds());
  return runs;
}

}  // namespace

BOOST_AUTO_TEST_CASE(strangers_change_nothing_of_what_is_learned) {
  outcome alone;
  {
    moments when;
    alone = train(make_cluster(), {}, 1, when);
    BOOST_REQUIRE_EQUAL(alone.trouble, "");
  }
  tally count;
  const unsigned runs = seed_after_seed([&](unsigned seed) {
    const cluster_spec cluster = make_cluster();
    tapped network;
    moments when;
    std::vector<std::thread> strangers;
    for (unsigned i = 0; i < 3; ++i)
      strangers.emplace_back(
          [&, i] { hostile{cluster, *network.by(), when, count, std::mt19937(seed * 16 + i)}.run(); });
    const outcome made = train(cluster, network, seed, when, 3ms);
    for (std::thread& each : strangers) each.join();
    BOOST_TEST(made.trouble == "");
    BOOST_TEST((made.of_first == alone.of_first));
    BOOST_TEST((made.of_second == alone.of_second));
    BOOST_TEST((made.mean == alone.mean));
    BOOST_TEST(made.report.lost.empty());
    BOOST_TEST(made.report.finished.size() == 2u);
    BOOST_TEST(!made.report.interrupted);
    return made.trouble.empty() && made.of_first == alone.of_first && made.of_second == alone.of_second;
  });
  BOOST_TEST_MESSAGE(runs << " runs, " << count.connections << " connections, " << count.challenged << " challenged, "
                          << count.turned_away << " turned away, " << count.refused << " refused, " << count.frames
                          << " frames of insiders");
  BOOST_TEST(count.welcomed == 0u);
  BOOST_TEST(count.challenged > 0u);
  BOOST_TEST(count.turned_away > 0u);
  BOOST_TEST(count.refused > 0u);
  BOOST_TEST(count.frames > 0u);
}

// ---- a worker that lies ----

namespace {

/// Trains asynchronously: the first worker alone makes steps.
outcome train_beside(const cluster_spec& cluster, unsigned seed, moments& when, std::chrono::milliseconds pause) {
  outcome made;
  std::mutex mutex;
  const auto guarded = [&](auto what) {
    return std::thread([&, what] {
      try {
        what();
      } catch (const std::exception& problem) {
        std::lock_guard lock(mutex);
        made.trouble += std::string(problem.what()) + "\n";
      }
    });
  };
  std::thread ps = guarded([&] {
    server_options options = options_of(seed);
    options.min_workers = 1;  // the training goes on without the worker that is rejected
    server here(cluster, "ps", 0, options);
    made.report = here.join(patience, patience);
  });
  std::thread worker = guarded([&] {
    server here(cluster, "worker", 0, options_of(seed));
    parameter_client client(here, variables(), consistency::asynchronous, 7, patience);
    values now, gradient;
    client.initialise(now.in(), patience);
    client.pull(now.out(), patience);
    when.training = true;
    for (int step = 0; step < steps; ++step) {
      gradient_at(now, 0, step, gradient);
      client.push_pull(step, gradient.in(), now.out(), patience);
      if (pause > 0ms) std::this_thread::sleep_for(pause);
    }
    client.done(patience);
    made.of_first = now;
    when.over = true;
  });
  worker.join();
  when.over = true;
  ps.join();
  return made;
}

/// The parameter server waits for every worker, also for one that comes when the training is over.
void meet_ps(server& here) {
  here.members().wait_for(deadline(patience), [](const task_id& task) { return task.job == "ps"; });
}

/// The second worker: opens its channel again and again, and says on it whatever changes no value.
void lie_as_worker(const cluster_spec& cluster, unsigned seed, moments& when, tally& count) {
  std::mt19937 random(seed);
  server here(cluster, "worker", 1, options_of(seed));
  meet_ps(here);
  while (!when.training && !when.over) std::this_thread::sleep_for(1ms);
  const std::size_t rank = cluster.rank({"ps", 0});
  const std::vector<std::size_t> order = detail::wire_order(variables(), 0);
  const detail::segment_layout layout(variables(), order);
  const byte_list true_list = detail::enroll_message{consistency::asynchronous, 7, variables()}.bytes();
  byte_list not_finite(bytes_of_all());
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(not_finite.data() + bytes_of_all() - sizeof nan, &nan, sizeof nan);  // in "w", which comes last

  while (!when.over) try {
      any_transport::stream to = here.open_channel(rank, "parameters", 5s).stream;
      ++count.connections;
      byte_list answers(1 << 16);
      const auto say = [&](const byte_list& bytes) {
        const deadline until = 5s;
        const mutable_bytes into(answers);
        for (const_bytes left = bytes; !left.empty() && !when.over && !until.expired();) {
          const std::size_t n = to.write_some({&left, 1});
          left = left.subspan(n);
          if (n == 0 && to.read_some({&into, 1}) == 0) std::this_thread::sleep_for(1ms);
        }
        ++count.frames;
      };
      const auto listen = [&] {
        const mutable_bytes into(answers);
        for (const deadline until = 100ms; !until.expired();)
          if (to.read_some({&into, 1}) > 0) {
            ++count.answered;
            return;
          }
      };
      frame_header header;
      if (random() % 8) {
        header.kind = frame_kind::enroll;
        say(frame(header, true_list));
        if (random() % 4) listen();
      }
      shared_segment segment;
      for (auto more = 1 + random() % 12; more > 0 && !when.over; --more) {
        header = {};
        header.request = random();
        header.step = static_cast<std::int64_t>(random() % 60);
        header.deadline_us = random() % 2 ? 0 : random() % 100'000;
        byte_list payload;
        bool checked = random() % 2 == 0;
        switch (random() % 12) {
          case 0:
            header.kind = frame_kind::enroll;
            payload = true_list;
            payload[random() % payload.size()] ^= static_cast<std::byte>(1 + random() % 255);
            break;
          case 1:
            header.kind = frame_kind::push_pull;
            header.step = random() % 2 ? -1 - header.step : std::numeric_limits<std::int64_t>::min();
            payload.resize(bytes_of_all(), std::byte{1});
            break;
          case 2:
            header.kind = frame_kind::push_pull;
            payload = not_finite;
            break;
          case 3:
            header.kind = frame_kind::push_pull;
            payload.resize(random() % 2 ? random() % bytes_of_all() : bytes_of_all() + 1 + random() % 100,
                           std::byte{1});
            break;
          case 4: {  // a false checksum over what would be applied
            header.kind = frame_kind::push_pull;
            header.flags = payload_checked;
            payload.resize(bytes_of_all(), std::byte{1});
            header.payload_crc = crc32c(payload) ^ (1u << random() % 32);
            checked = false;
            break;
          }
          case 5:
            header.kind = random() % 2 ? frame_kind::pull : frame_kind::await_values;
            if (segment) header.flags = random() % 2 ? std::uint32_t{in_segment} : 0;
            break;
          case 6:
            header.kind = frame_kind::initialise;
            payload.resize(bytes_of_all(), std::byte{1});  // there are values already
            break;
          case 7:
            header.kind = frame_kind::share;
            try {
              const auto made = shared_segment::create(layout.bytes);
              shared_offer offer = made.offer();
              if (random() % 2) {
                offer.nonce[0] ^= random() % 2;
                offer.bytes += random() % 2;
                offer.descriptor += random() % 3;
              }
              payload = detail::offer_bytes(offer);
              std::memcpy(made.bytes().data() + layout.gradients[1], &nan, sizeof nan);
              segment = made;
            } catch (const error&) {
              payload = random_bytes(random, 40);
            }
            break;
          case 8:  // a gradient that is not finite in every segment that was shared, and is refused in others
            header.kind = frame_kind::push_pull;
            header.flags = in_segment;
            break;
          case 9:
            header.kind = frame_kind::done;
            break;
          case 10:
            say(random_bytes(random, 1 + random() % 200));
            continue;
          default: {
            header.kind = static_cast<frame_kind>(1 + random() % last_frame_kind);
            if (header.kind == frame_kind::push_pull || header.kind == frame_kind::share) continue;
            payload = random_bytes(random, random() % 100);
          }
        }
        byte_list whole = frame(header, payload, checked);
        const bool cut = random() % 8 == 0;  // and nothing after it, which would be taken for the rest
        if (cut) whole.resize(random() % whole.size());
        say(whole);
        if (cut) break;
        if (random() % 4) listen();
      }
    } catch (const error&) {
      // it has closed this connection: another one
    }
}

}  // namespace

// Through the connection and through shared memory: another worker's are refused, and the chief's then count.
BOOST_AUTO_TEST_CASE(first_values_come_from_the_chief_alone) {
  for (const unsigned seed : {1u, 2u}) {
    const cluster_spec cluster = test::local_cluster(1, 2);
    server_options options = options_of(seed);
    options.device_filters = {};
    server ps(cluster, "ps", 0, options), chief(cluster, "worker", 0, options), other(cluster, "worker", 1, options);
    std::thread serves([&] { ps.join(patience, patience); });
    {
      any_transport::stream to = other.open_channel(0, "parameters", 10s).stream;
      const auto ask = [&](frame_kind kind, const_bytes payload, std::uint32_t flags = 0) {
        frame_header header;
        header.kind = kind;
        header.flags = flags;
        frame_writer out;
        frame_reader in;
        byte_list answer;
        out.start(header, payload);
        in.expect(detail::max_control_bytes);
        for (const deadline until = 10s; !in.complete() && !until.expired();) {
          if (out.advance(to) + in.advance(to) == 0) std::this_thread::sleep_for(1ms);
          if (!in.needs_destination()) continue;
          answer.resize(static_cast<std::size_t>(in.header().payload_length));
          in.payload_to(mutable_bytes(answer));
        }
        BOOST_REQUIRE(in.complete());
        return in.header().kind == frame_kind::failure ? detail::read_error(answer, "").sentence() : std::string();
      };
      const byte_list ones(bytes_of_all(), std::byte{1});
      BOOST_TEST(ask(frame_kind::enroll, detail::enroll_message{consistency::asynchronous, 7, variables()}.bytes()) ==
                 "");
      if (options.shared_memory) {
        const detail::segment_layout layout(variables(), detail::wire_order(variables(), 0));
        const shared_segment made = shared_segment::create(layout.bytes);
        BOOST_TEST(ask(frame_kind::share, detail::offer_bytes(made.offer())) == "");
        CHECK_SAYS(ask(frame_kind::initialise, {}, in_segment), "/job:worker/task:1 is not the chief");
      }
      CHECK_SAYS(ask(frame_kind::initialise, ones), "/job:worker/task:1 is not the chief");
      CHECK_SAYS(ask(frame_kind::push_pull, ones), "the variables have no values yet");
    }
    values first, now;
    for (std::size_t i = 0; i < first.w.size(); ++i) first.w[i] = static_cast<float>(i) - 7;
    for (std::size_t i = 0; i < first.b.size(); ++i) first.b[i] = 0.25 * static_cast<double>(i);
    parameter_client client(chief, variables(), consistency::asynchronous, 7, patience);
    client.initialise(first.in(), patience);
    client.pull(now.out(), patience);
    BOOST_CHECK(now == first);
    client.initialise(values().in(), patience);  // as a chief that came back: nothing changes
    BOOST_TEST(client.was_duplicate());
    client.pull(now.out(), patience);
    BOOST_CHECK(now == first);
    ps.stop();
    serves.join();
  }
}

BOOST_AUTO_TEST_CASE(a_worker_that_lies_changes_nothing_for_another) {
  values alone;
  {
    moments when;
    const cluster_spec cluster = make_cluster();
    std::thread other([&] {
      server here(cluster, "worker", 1, options_of(1));
      meet_ps(here);
      while (!when.over) std::this_thread::sleep_for(1ms);
    });
    const outcome made = train_beside(cluster, 1, when, 0ms);
    other.join();
    BOOST_REQUIRE_EQUAL(made.trouble, "");
    alone = made.of_first;
  }
  tally count;
  const unsigned runs = seed_after_seed([&](unsigned seed) {
    const cluster_spec cluster = make_cluster();
    moments when;
    std::string trouble;
    std::thread liar([&] {
      try {
        lie_as_worker(cluster, seed, when, count);
      } catch (const std::exception& problem) {
        trouble = problem.what();
      }
    });
    const outcome made = train_beside(cluster, seed, when, 5ms);
    liar.join();
    BOOST_TEST(trouble == "");
    BOOST_TEST(made.trouble == "");
    BOOST_TEST((made.of_first == alone));
    BOOST_TEST((!made.report.finished.empty() && made.report.finished[0] == "/job:worker/task:0"));
    return trouble.empty() && made.trouble.empty() && made.of_first == alone;
  });
  BOOST_TEST_MESSAGE(runs << " runs, " << count.connections << " connections, " << count.frames << " requests, "
                          << count.answered << " answers");
  BOOST_TEST(count.frames > 100u);
  BOOST_TEST(count.answered > 0u);
}

// ---- a server and a rank that lie ----

namespace {

/// Takes what comes, for a while or until a whole frame is here; returns its header.
std::optional<frame_header> next_frame(any_transport::stream& from, const moments& when) {
  frame_reader in;
  byte_list payload;
  in.expect(std::uint64_t{1} << 20);
  for (const deadline until = 300ms; !in.complete(); std::this_thread::yield()) {
    if (until.expired() || when.over) return {};
    in.advance(from);
    if (!in.needs_destination()) continue;
    payload.resize(static_cast<std::size_t>(in.header().payload_length));
    in.payload_to(mutable_bytes(payload));
  }
  return in.header();
}

void say_all(any_transport::stream& to, const_bytes left, const moments& when) {
  for (const deadline until = 300ms; !left.empty() && !until.expired() && !when.over;)
    left = left.subspan(to.write_some({&left, 1}));
}

/// A parameter server that mostly answers as it should.
void answer_with_lies(server& here, std::mt19937& random, moments& when, tally& count) {
  const std::size_t rank = here.cluster().rank({"worker", 0});
  while (!when.over) try {
      any_transport::stream to = here.accept_channel(rank, "parameters", 100ms).stream;
      ++count.connections;
      while (const std::optional<frame_header> asked = next_frame(to, when)) {
        frame_header answer;
        answer.request = asked->request;
        answer.kind = frame_kind::acknowledge;
        answer.tag = random() % 4 ? 0 : random();
        byte_list payload;
        if (asked->kind == frame_kind::pull || asked->kind == frame_kind::push_pull) {
          answer.kind = frame_kind::values;
          answer.flags = asked->flags & in_segment;
          if (!answer.flags) payload.resize(bytes_of_all());
        } else if (asked->kind == frame_kind::share && random() % 2) {
          answer.kind = frame_kind::failure;
          payload = detail::error_bytes(error_code::unimplemented, "no");
        }
        bool checked = random() % 2 == 0;
        switch (random() % 40) {
          case 0:
            answer.kind = static_cast<frame_kind>(1 + random() % last_frame_kind);
            break;
          case 1:
            payload.resize(random() % 70'000);
            break;
          case 2:
            answer.request += 1 + random() % 3;
            break;
          case 3:
            answer.flags ^= 1u << random() % 4;
            break;
          case 4:
            answer.tag = ~std::uint64_t{0} >> random() % 2;
            answer.step = std::numeric_limits<std::int64_t>::min();
            break;
          case 5:
            answer.kind = frame_kind::failure;
            payload = random_bytes(random, random() % 40);
            break;
          case 6:
            answer.kind = frame_kind::failure;
            payload = detail::error_bytes(static_cast<error_code>(1 + random() % 16), "\x1b[2J");
            break;
          default:
            break;
        }
        byte_list whole = frame(answer, payload, checked);
        if (random() % 16 == 0) lie_somewhere(whole, random, random() % 2 == 0);
        const bool cut = random() % 32 == 0;
        if (cut) whole.resize(random() % whole.size());
        say_all(to, whole, when);
        ++count.frames;
        if (cut) break;
      }
    } catch (const error&) {
      // nobody has come, or it has gone
    }
}

/// The second rank of a sum, which opens the channel.
void sum_with_lies(server& here, std::mt19937& random, moments& when, tally& count) {
  const std::size_t rank = here.cluster().rank({"worker", 0});
  while (!when.over) try {
      any_transport::stream to = here.open_channel(rank, "all_reduce", 1s).stream;
      ++count.connections;
      // An honest rank says what has the same header as what it hears.
      for (std::optional<frame_header> heard; (heard = next_frame(to, when)); ++count.frames) {
        frame_header header = *heard;
        header.flags = 0;
        if (random() % 32 == 0) header.step += static_cast<std::int64_t>(random() % 3) - 1;
        if (random() % 32 == 0) header.tag ^= random() % 2;
        byte_list payload(static_cast<std::size_t>(header.payload_length));
        if (header.kind != frame_kind::group && random() % 2) payload = random_bytes(random, payload.size());
        if (random() % 32 == 0) payload = random_bytes(random, random() % 10'000);
        byte_list whole = frame(header, payload, random() % 2 == 0);
        if (random() % 16 == 0) lie_somewhere(whole, random, random() % 2 == 0);
        say_all(to, whole, when);
      }
    } catch (const error&) {
      // it has closed
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(who_is_lied_to_by_a_server_or_a_rank_ends_in_words) {
  tally count;
  std::atomic<std::uint64_t> ended{0}, went_well{0};
  const unsigned runs = seed_after_seed([&](unsigned seed) {
    const cluster_spec cluster = make_cluster();
    moments when;
    std::string trouble;
    const auto lies = [&](const char* job, int index, auto how) {
      return std::thread([&, job, index, how] {
        std::mt19937 random(seed * 2 + static_cast<unsigned>(index));
        server here(cluster, job, index, options_of(seed));
        how(here, random, when, count);
      });
    };
    std::thread ps = lies("ps", 0, answer_with_lies), rank = lies("worker", 1, sum_with_lies);
    try {
      server here(cluster, "worker", 0, options_of(seed));
      const auto attempt = [&](auto action) {
        const auto began = std::chrono::steady_clock::now();
        try {
          action();
          ++went_well;
        } catch (const error& problem) {
          // It names who has lied, or repeats its words.
          if (!test::contains(problem.what(), "\\x1b[2J")) CHECK_SAYS(problem.what(), "/job:");
          for (const char c : std::string(problem.what())) BOOST_TEST(static_cast<unsigned char>(c) >= 0x20);
          ++ended;
        }
        BOOST_TEST(test::seconds_since(began) < 20);
      };
      for (int turn = 0; turn < 10; ++turn) {
        attempt([&] {
          parameter_client client(here, variables(), consistency::asynchronous, 7, 1s);
          values now, gradient;
          client.initialise(now.in(), 300ms);
          for (int step = 0; step < 4; ++step) {
            client.push_pull(step, gradient.in(), now.out(), 300ms);
            client.pull(now.out(), 300ms);
          }
          client.done(300ms);
        });
        attempt([&] {
          all_reduce group(here, 7, {}, 500ms);
          std::vector<double> some(1 + static_cast<std::size_t>(turn) * 300);
          for (int step = 0; step < 3; ++step)
            group.mean(std::span(some), 200ms,
                       step % 2 ? reduce_algorithm::ring : reduce_algorithm::recursive_doubling);
        });
      }
    } catch (const std::exception& problem) {
      trouble = problem.what();
    }
    when.over = true;
    ps.join();
    rank.join();
    BOOST_TEST(trouble == "");
    return trouble.empty();
  });
  BOOST_TEST_MESSAGE(runs << " runs, " << count.frames << " frames, " << went_well << " went well, " << ended
                          << " ended in words");
  BOOST_TEST(ended > 0u);
  BOOST_TEST(went_well > 0u);
}

// A rank that tells of an element that nobody has.
BOOST_AUTO_TEST_CASE(a_rank_that_names_an_element_out_of_reach_is_not_believed) {
  const cluster_spec cluster = make_cluster();
  moments when;
  std::thread rank([&] {
    server here(cluster, "worker", 1, options_of(1));
    try {
      any_transport::stream to = here.open_channel(cluster.rank({"worker", 0}), "all_reduce", patience).stream;
      for (std::optional<frame_header> heard; (heard = next_frame(to, when));) {
        byte_list payload(static_cast<std::size_t>(heard->payload_length));
        const double far = 1e96;
        for (std::size_t at = 0; heard->kind != frame_kind::group && at + sizeof far <= payload.size();
             at += sizeof far)
          std::memcpy(payload.data() + at, &far, sizeof far);
        heard->flags = 0;
        say_all(to, frame(*heard, payload), when);
      }
    } catch (const error&) {
      // it has closed
    }
  });
  {
    server here(cluster, "worker", 0, options_of(1));
    all_reduce group(here, 7, {}, patience);
    std::vector<double> some(4, std::numeric_limits<double>::quiet_NaN());
    const mean_report made = group.mean(std::span(some), 2s, reduce_algorithm::recursive_doubling);
    BOOST_TEST(!made.finite);
    BOOST_TEST(made.element < some.size());
  }
  when.over = true;
  rank.join();
}

// The greeting of a rank that meets the others has an end.
BOOST_AUTO_TEST_CASE(a_greeting_that_goes_on_behind_its_end_is_refused) {
  for (const std::size_t more : {0u, 1u, 300u}) {
    const cluster_spec cluster = make_cluster();
    moments when;
    std::thread rank([&] {
      server here(cluster, "worker", 1, options_of(1));
      try {
        any_transport::stream to = here.open_channel(cluster.rank({"worker", 0}), "all_reduce", patience).stream;
        for (std::optional<frame_header> heard; (heard = next_frame(to, when));) {
          byte_list payload(static_cast<std::size_t>(heard->payload_length));
          if (heard->kind == frame_kind::group) {
            payload = detail::group_message{}.bytes();
            payload.resize(payload.size() + more);
          }
          heard->flags = 0;
          say_all(to, frame(*heard, payload), when);
        }
      } catch (const error&) {
        // it has closed
      }
    });
    {
      server here(cluster, "worker", 0, options_of(1));
      const auto meet = [&] { all_reduce group(here, 7, {}, patience); };
      if (more == 0)
        BOOST_CHECK_NO_THROW(meet());
      else
        BOOST_CHECK_EXCEPTION(meet(), error, test::says(error_code::invalid_argument, "/job:worker/task:1: "));
    }
    when.over = true;
    rank.join();
  }
}

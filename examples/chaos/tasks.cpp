// SPDX-License-Identifier: BSL-1.0
#include "tasks.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace {

volatile std::sig_atomic_t interrupted = 0;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

/// A port of this machine that is free, and stays bound: a task may listen at it, as it allows addresses to be used
/// again.
std::pair<int, std::uint16_t> free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  socklen_t size = sizeof at;
  if (socket < 0 || ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    fail("no port is free");
  return {socket, ntohs(at.sin_port)};
}

}  // namespace

bool is_interrupted() { return interrupted != 0; }

void heed_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = 1; };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
}

// ---- the second network ----

second_network::second_network() {
  const std::string number = std::to_string(::getpid());
  name_ = "weft-chaos-" + number;
  cable_ = "wch" + number;
  if (::geteuid() != 0) {
    lack_ = "needs root";
    return;
  }
  if (!run("ip netns add " + name_)) {
    lack_ = "`ip netns add` is not permitted here";
    return;
  }
  const std::string there = "ip -n " + name_ + " ";
  for (const std::string& each :
       {"ip link add " + cable_ + " type veth peer name " + cable_ + "b netns " + name_,
        "ip addr add " + std::string(this_side()) + "/30 dev " + cable_, "ip link set " + cable_ + " up",
        there + "addr add " + other_side() + "/30 dev " + cable_ + "b", there + "link set " + cable_ + "b up",
        there + "link set lo up"})
    if (!run(each)) {
      lack_ = "`" + each + "` is not permitted here";
      return;
    }
  // Tasks on two networks take part only if they know a secret.
  std::array<unsigned char, 32> random;
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    fail("cannot read random bytes");
  std::string secret;
  for (const unsigned each : random) secret += "0123456789abcdef"[each / 16], secret += "0123456789abcdef"[each % 16];
  ::setenv("WEFT_SECRET", secret.c_str(), 1);
}

second_network::~second_network() {
  if (::geteuid() != 0) return;
  run("ip link del " + cable_);
  run("ip netns del " + name_);
}

bool second_network::run(const std::string& command) const {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}

void second_network::connect(bool connected) const {
  if (!run("ip link set " + cable_ + (connected ? " up" : " down"))) throw std::runtime_error("cannot cut the network");
}

void second_network::enter() const {
  const int there = ::open(("/run/netns/" + name_).c_str(), O_RDONLY | O_CLOEXEC);
  if (there < 0 || ::setns(there, CLONE_NEWNET) != 0) fail("cannot enter the other network");
  ::close(there);
}

// ---- the processes ----

tasks::tasks(const cluster_plan& plan, std::int64_t steps, std::chrono::microseconds pause, const second_network* other)
    : plan_(plan), steps_(steps), pause_(pause), other_(other) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("cannot open a pipe");
  listen_ = ends[0], tell_ = ends[1];
  for (int i = 0; i < plan.servers + plan.workers; ++i) {
    const auto [socket, port] = free_port();
    held_.push_back(socket);
    const bool away = other && i + 1 == plan.servers + plan.workers;
    std::string& list = i < plan.servers ? servers_ : workers_;
    list += (list.empty() ? "" : ",") +
            std::string(!other ? "127.0.0.1"
                        : away ? other->other_side()
                               : other->this_side()) +
            ":" + std::to_string(port);
  }
  if (plan.has_shards) {
    std::string name = std::filesystem::temp_directory_path() / "chaos-XXXXXX";
    if (!::mkdtemp(name.data())) fail("cannot create a folder for shards");
    shards_ = name;
  }
  for (int i = 0; i < plan.servers; ++i) start(true, i);
  for (int i = 0; i < plan.workers; ++i) start(false, i);
}

tasks::~tasks() {
  for (const task_process& each : processes_)
    if (!each.is_over) ::kill(each.id, SIGKILL), ::waitpid(each.id, nullptr, 0);
  std::error_code ignored;
  if (!shards_.empty()) std::filesystem::remove_all(shards_, ignored);
  for (const int each : held_) ::close(each);
  ::close(listen_), ::close(tell_);
}

int tasks::start(bool server, int index) {
  task_place place;
  place.servers = servers_;
  place.workers = workers_;
  place.shards = shards_;
  place.is_server = server;
  place.index = index;
  place.process = static_cast<int>(processes_.size());
  place.tell = tell_;
  task_process started;
  started.is_server = server;
  started.index = index;
  started.started = nanoseconds_now();
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  started.id = ::fork();
  if (started.id < 0) fail("cannot start a process");
  if (started.id == 0) {
    ::setpgid(0, 0);  // Ctrl-C is the driver's
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
    try {
      if (other_ && !server && index + 1 == plan_.workers) other_->enter();
    } catch (const std::exception& why) {
      std::fprintf(stderr, "%s\n", why.what());
      ::_exit(1);
    }
    ::_exit(be_task(plan_, place, steps_, pause_));
  }
  processes_.push_back(started);
  return place.process;
}

int tasks::process_of(bool is_server, int index) const {
  for (std::size_t i = processes_.size(); i-- > 0;)
    if (processes_[i].is_server == is_server && processes_[i].index == index) return static_cast<int>(i);
  return -1;
}

void tasks::signal(int process, int number) { ::kill(processes_[static_cast<std::size_t>(process)].id, number); }

void tasks::take(const event& e) {
  events_.push_back(e);
  task_process& of = processes_[static_cast<std::size_t>(e.process)];
  switch (e.kind) {
    case event::step:
      if (of.first_step == 0) of.first_step = e.time;
      at_ = std::max(at_, e.at);
      break;
    case event::finished:
      of.has_finished = true;
      of.digest = e.text;
      of.accuracy = e.number;
      break;
    case event::failed:
      of.failure = e.text;
      break;
    default:
      break;
  }
}

void tasks::reap() {
  for (task_process& each : processes_)
    if (!each.is_over && ::waitpid(each.id, &each.status, WNOHANG) == each.id) each.is_over = true;
}

bool tasks::await(std::chrono::milliseconds time, const std::function<bool()>& done) {
  const std::int64_t until = nanoseconds_now() + time.count() * 1'000'000;
  for (;;) {
    reap();  // first, so that what an ended process has told is taken before `done` sees its end
    for (pollfd ready{listen_, POLLIN, 0}; ::poll(&ready, 1, 0) == 1;) {
      event e;
      if (::read(listen_, &e, sizeof e) != sizeof e) fail("cannot read an event");
      take(e);
    }
    if (is_interrupted()) throw std::runtime_error("interrupted");
    if (done()) return true;
    if (nanoseconds_now() >= until) return false;
    pollfd ready{listen_, POLLIN, 0};
    ::poll(&ready, 1, 5);
  }
}

std::string tasks::failure() const {
  for (const task_process& each : processes_) {
    if (!each.is_over || each.is_hit || each.status == 0) continue;
    return (each.is_server ? "parameter server " : "worker ") + std::to_string(each.index) + " has ended" +
           (each.failure.empty() ? " with status " + std::to_string(each.status) : ": " + each.failure);
  }
  return {};
}

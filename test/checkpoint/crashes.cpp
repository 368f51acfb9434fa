// SPDX-License-Identifier: BSL-1.0
// Processes that save are killed at every one of their system calls: before it, and after it. The checkpoint that is
// there then is the one before or the new one, whole, and the next process goes on from it.

#include <boost/test/unit_test.hpp>

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <weft/checkpoint/saver.hpp>
#include <weft/checkpoint/weights.hpp>
#include <weft/weft.hpp>

#include "data/files.hpp"
#include "sanitized.hpp"

using namespace weft;

namespace {

/// A model of which every value says the step that it is of.
struct model {
  graph g;
  variable_node<float, dims<1000>> a = variable<float, dims<1000>>(g, "a", 0);
  variable_node<double, dims<30>> b = variable<double, dims<30>>(g, "b", 0);
  variable_node<std::int64_t, dims<>> count = variable<std::int64_t>(g, "count", 0, variable_kind::counter);
  session s{g, {.threads = 1}};
  std::int64_t position = 0;

  void be_at(std::int64_t step) {
    tensor<float, dims<1000>> of_a;
    for (std::size_t i = 0; i < of_a.elements(); ++i) of_a.data()[i] = static_cast<float>(step);
    tensor<double, dims<30>> of_b;
    for (std::size_t i = 0; i < of_b.elements(); ++i) of_b.data()[i] = static_cast<double>(step);
    s.set(a, of_a);
    s.set(b, of_b);
    s.set(count, step);
    s.set_step_number(step);
    position = step;
  }
  /// The step that it is at; nothing if it is a mixture.
  std::optional<std::int64_t> at() {
    const std::int64_t step = s.get(count);
    bool same = position == step && s.step_number() == step;
    const auto of_a = s.get(a);
    const auto of_b = s.get(b);
    for (const float x : of_a) same = same && x == static_cast<float>(step);
    for (const double x : of_b) same = same && x == static_cast<double>(step);
    return same ? std::optional(step) : std::nullopt;
  }
};

/// Runs `work` in a process of its own and kills it at its stop of this number: each system call of each of its threads
/// is two, on the way in and on the way out. Returns whether it was killed; false once it ends before.
template <class Work>
bool killed_at(int stop, Work work) {
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(3);
    ::raise(SIGSTOP);
    try {
      work();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      ::_exit(2);
    }
    ::_exit(0);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_REQUIRE(WIFSTOPPED(status));
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  for (int stops = 0;;) {
    const pid_t who = ::waitpid(-1, &status, __WALL);
    BOOST_REQUIRE(who > 0);
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (who != child) continue;
      BOOST_REQUIRE(WIFEXITED(status));
      BOOST_REQUIRE(WEXITSTATUS(status) == 0);
      return false;
    }
    if (WSTOPSIG(status) == (SIGTRAP | 0x80) && stops++ == stop) {
      ::kill(child, SIGKILL);
      while (::waitpid(-1, &status, __WALL) > 0) continue;
      return true;
    }
    ::ptrace(PTRACE_SYSCALL, who, nullptr, nullptr);
  }
}

/// Under a sanitizer each process takes ten times as long: there, every third stop, now on the way in, now on the way
/// out.
constexpr int stride = test::sanitized ? 3 : 1;

bool may_trace() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  const bool may = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!may) BOOST_TEST_MESSAGE("skipped: this system does not let a process trace its child");
  return may;
}

void killed_at_every_call(const saver_options& options) {
  if (!may_trace()) return;
  const folder f;
  const std::string at = f.path / "training";
  {
    model m;
    m.be_at(1);
    saver keeper(options);
    keeper.add("position", m.position);
    for (int step = 1; step <= options.max_to_keep; ++step) m.be_at(step), keeper.save(m.s, at, step);
  }
  std::int64_t last = options.max_to_keep;
  int fresh = 0, old = 0;
  for (int stop = 0;; stop += stride) {
    // A process begins with what is there, trains a step and saves.
    const bool killed = killed_at(stop, [&] {
      model m;
      saver keeper(options);
      keeper.add("position", m.position);
      keeper.restore(m.s, *latest_checkpoint(at));
      m.be_at(*m.at() + 1);
      keeper.save(m.s, at, *m.at());
      keeper.wait();
    });
    const std::optional<std::string> latest = latest_checkpoint(at);
    BOOST_REQUIRE(latest.has_value());
    model m;
    saver keeper(options);
    keeper.add("position", m.position);
    const std::int64_t step = keeper.restore(m.s, *latest).step;
    BOOST_REQUIRE((m.at() == step));
    BOOST_REQUIRE((step == last || step == last + 1));
    ++(step == last ? old : fresh);
    last = step;
    // All others that are there are whole too.
    for (const checkpoint_info& c : list_checkpoints(at)) {
      BOOST_REQUIRE((keeper.restore(m.s, c.path).step == c.step));
      BOOST_REQUIRE((m.at() == c.step));
    }
    // The next process clears up what the one before has left.
    m.be_at(++last);
    keeper.save(m.s, at, last);
    keeper.wait();
    std::ptrdiff_t folders = 0;
    for (const auto& each : std::filesystem::directory_iterator(at)) {
      if (!each.is_directory()) continue;  // the lock
      ++folders;
      BOOST_TEST(std::distance(std::filesystem::directory_iterator(each.path()), {}) == options.shards + 2);
    }
    BOOST_REQUIRE(folders == options.max_to_keep);
    if (!killed) break;
  }
  BOOST_TEST_MESSAGE("killed " << old << " times before the new checkpoint was there, " << fresh << " times after");
  BOOST_TEST(old > 30 / stride);
  BOOST_TEST(fresh > 5 / stride);
}

}  // namespace

BOOST_AUTO_TEST_CASE(killed_while_saving) {
  killed_at_every_call({.shards = 2, .max_to_keep = 2, .background = false});
}

BOOST_AUTO_TEST_CASE(killed_while_a_thread_saves) { killed_at_every_call({.shards = 2, .max_to_keep = 2}); }

BOOST_AUTO_TEST_CASE(killed_while_saving_one_step_again) {
  if (!may_trace()) return;
  const folder f;
  const std::string at = f.path / "training";
  std::int64_t last = 1;
  const auto save = [&](std::int64_t value) {
    model m;
    m.be_at(value);
    saver keeper({.background = false});
    keeper.add("position", m.position);
    keeper.save(m.s, at, 5);
  };
  save(last);
  for (int stop = 0;; stop += stride) {
    const bool killed = killed_at(stop, [&] { save(last + 1); });
    model m;
    saver keeper;
    keeper.add("position", m.position);
    keeper.restore(m.s, at + "/checkpoint-5");
    const std::optional<std::int64_t> value = m.at();
    BOOST_REQUIRE(value.has_value());
    BOOST_REQUIRE((*value == last || *value == last + 1));
    last = *value;
    if (!killed) break;
  }
  BOOST_TEST(last > 5);
}

BOOST_AUTO_TEST_CASE(killed_while_weights_are_saved) {
  if (!may_trace()) return;
  const folder f;
  const std::string path = f.path / "w.safetensors";
  const auto save = [&](std::int64_t value) {
    model m;
    m.be_at(value);
    save_weights(path, m.s);
  };
  float last = 1;
  save(1);
  for (int stop = 0;; stop += stride) {
    const bool killed = killed_at(stop, [&] { save(static_cast<std::int64_t>(last) + 1); });
    const auto a = safetensors_file(path).read<float, dims<1000>>("a");
    const auto b = safetensors_file(path).read<double, dims<30>>("b");
    BOOST_REQUIRE((a(0) == last || a(0) == last + 1));
    for (const float x : a) BOOST_REQUIRE(x == a(0));
    for (const double x : b) BOOST_REQUIRE(x == static_cast<double>(a(0)));
    last = a(0);
    if (!killed) break;
  }
  BOOST_TEST(last > 2.0f);
}

// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/distributed/remote/service/parked_runs.hpp>
#include <weft/distributed/remote/service/request_limits.hpp>
#include <weft/distributed/remote/service/run_scheduler.hpp>
#include <weft/distributed/remote/service/run_turns.hpp>
#include <weft/distributed/remote/service/service_request.hpp>

#include "errors.hpp"

using namespace weft;
using namespace std::chrono_literals;
using detail::parked_bytes;

namespace {

using mailbox = detail::mailbox;
using bytes = std::vector<std::byte>;
constexpr std::size_t overhead = mailbox::value_overhead;

bytes counted(std::size_t n) {
  bytes all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<std::byte>(i + 1);
  return all;
}
/// The next n bytes of a value have come; returns where they were written.
std::byte* come(mailbox::arrival& value, const bytes& all, std::size_t from, std::size_t n) {
  std::byte* where = nullptr;
  value.read([&](std::byte* place) {
    where = place;
    if (place) std::memcpy(place, all.data() + from, n);
    return n;
  });
  return where;
}

/// A step that waits for value 7, on a thread.
struct waiting {
  bytes memory;
  error_code code{};
  std::string said;
  std::atomic<bool> waits{false}, is_over{false};
  std::thread thread;

  waiting(mailbox& box, std::size_t size, deadline until) : memory(size) {
    thread = std::thread([this, &box, until] {
      code = test::code_of(
          [&] {
            box.take(
                7, memory.data(), memory.size(), until, "task 1", [] {},
                [this](auto) {
                  waits = true;
                  return false;
                });
          },
          &said);
      is_over = true;
    });
    while (!waits && !is_over) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(5ms);
  }
  ~waiting() { end(); }
  void end() {
    if (thread.joinable()) thread.join();
  }
  bool has(const std::byte* place) const { return place >= memory.data() && place < memory.data() + memory.size(); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_value_that_is_waited_for_is_read_in_place) {
  const auto box = std::make_shared<mailbox>();
  parked_bytes none(0);
  const bytes all = counted(100);
  waiting step(*box, 100, 20s);
  mailbox::arrival value = mailbox::open(box, 7, 100, none);
  BOOST_TEST(come(value, all, 0, 60) == step.memory.data());
  BOOST_TEST(come(value, all, 60, 40) == step.memory.data() + 60);
  BOOST_TEST(!step.is_over);
  value.finish();
  step.end();
  BOOST_TEST(step.said == "");
  BOOST_TEST((step.memory == all));
}

BOOST_AUTO_TEST_CASE(a_value_that_comes_early_moves_to_its_place) {
  const auto box = std::make_shared<mailbox>();
  parked_bytes parked(1000);
  const bytes all = counted(100);
  mailbox::arrival value = mailbox::open(box, 7, 100, parked);
  come(value, all, 0, 30);
  BOOST_TEST(parked.now() == 100u + overhead);
  waiting step(*box, 100, 20s);
  BOOST_TEST(come(value, all, 30, 70) == step.memory.data() + 30);
  BOOST_TEST(parked.now() == 0u);
  value.finish();
  step.end();
  BOOST_TEST(step.said == "");
  BOOST_TEST((step.memory == all));
  // One that is whole before it is asked for, and a second one of its number.
  mailbox::put(mailbox::open(box, 7, 100, parked), all);
  mailbox::put(mailbox::open(box, 7, 1, parked), bytes(1));
  BOOST_TEST(parked.now() == 100u + overhead);
  waiting later(*box, 100, 20s);
  later.end();
  BOOST_TEST((later.memory == all));
  BOOST_TEST(parked.now() == 0u);
}

BOOST_AUTO_TEST_CASE(nobody_writes_to_a_step_that_has_given_up) {
  const auto box = std::make_shared<mailbox>();
  parked_bytes parked(1000);
  const bytes all = counted(100);
  {
    waiting step(*box, 100, 200ms);
    mailbox::arrival value = mailbox::open(box, 7, 100, parked);
    come(value, all, 0, 30);
    // The step's time ends in the middle of a read.
    bool returned_early = false;
    value.read([&](std::byte* place) {
      BOOST_TEST(step.has(place));
      std::this_thread::sleep_for(400ms);
      returned_early = step.is_over;
      return std::size_t{10};
    });
    BOOST_TEST(!returned_early);
    step.end();
    BOOST_TEST((step.code == error_code::deadline_exceeded));
    BOOST_TEST(come(value, all, 40, 60) == nullptr);
    value.finish();
  }
  // And in the middle of the move to its place.
  const auto other = std::make_shared<mailbox>();
  mailbox::arrival value = mailbox::open(other, 7, 100, parked);
  come(value, all, 0, 30);
  {
    waiting step(*other, 100, 20s);
    other->fail(error(error_code::aborted, "step", "somebody else has failed"));
    step.end();
    BOOST_TEST((step.code == error_code::aborted));
  }
  BOOST_TEST(come(value, all, 30, 70) == nullptr);
}

// A mailbox is closed while a value arrives in the memory of a step that waits: the step's memory is not written to
// after the step has ended, neither if the value arrives in place nor if its first bytes were moved there.
BOOST_AUTO_TEST_CASE(a_closed_mailbox_forgets_the_memory_of_its_steps) {
  const bytes all = counted(100);
  for (const bool arrives_early : {false, true}) {
    const auto box = std::make_shared<mailbox>();
    parked_bytes parked(1000);
    mailbox::arrival value;
    if (arrives_early) {
      value = mailbox::open(box, 7, 100, parked);
      come(value, all, 0, 10);
    }
    {
      waiting step(*box, 100, 20s);
      if (!arrives_early) value = mailbox::open(box, 7, 100, parked);
      BOOST_TEST(step.has(come(value, all, 0, 30)));
      box->close();
      step.end();
      BOOST_TEST((step.code == error_code::aborted));
      CHECK_SAYS(step.said, "the run has ended");
    }
    BOOST_TEST(come(value, all, 40, 60) == nullptr);
    value.finish();
  }
}

BOOST_AUTO_TEST_CASE(values_of_another_size_and_too_many_of_them) {
  parked_bytes parked(150 + overhead);
  {
    const auto box = std::make_shared<mailbox>();
    waiting step(*box, 100, 20s);
    const mailbox::arrival value = mailbox::open(box, 7, 99, parked);
    box->fail(error(error_code::internal, "test", "the size was not looked at"));
    step.end();
    CHECK_SAYS(step.said, "a value from task 1 has 99 bytes, not 100");
  }
  BOOST_TEST(parked.now() == 0u);
  {
    const auto box = std::make_shared<mailbox>();
    mailbox::put(mailbox::open(box, 1, 100, parked), counted(100));
    BOOST_TEST(!box->failure());
    mailbox::put(mailbox::open(box, 2, 100, parked), counted(100));
    BOOST_REQUIRE(box->failure());
    CHECK_SAYS(box->failure()->sentence(),
               "values that wait for their steps exceed " + std::to_string(150 + overhead) + " bytes");
    BOOST_TEST(parked.now() == 100u + overhead);
    box->close();
    BOOST_TEST(parked.now() == 0u);
    mailbox::put(mailbox::open(box, 3, 100, parked), counted(100));
    BOOST_TEST(parked.now() == 0u);
  }
  // Values without bytes count, too.
  const auto box = std::make_shared<mailbox>();
  std::uint32_t n = 0;
  while (n < 100 && !box->failure()) mailbox::put(mailbox::open(box, n++, 0, parked), {});
  BOOST_TEST(n < 5);
}

BOOST_AUTO_TEST_CASE(a_connection_that_ends_leaves_room_for_the_value_to_come_again) {
  const auto box = std::make_shared<mailbox>();
  parked_bytes parked(1000);
  const bytes all = counted(100);
  {
    mailbox::arrival value = mailbox::open(box, 7, 100, parked);
    come(value, all, 0, 30);
  }
  BOOST_TEST(parked.now() == 0u);
  waiting step(*box, 100, 20s);
  {
    mailbox::arrival value = mailbox::open(box, 7, 100, parked);
    come(value, bytes(100), 0, 30);
  }
  mailbox::put(mailbox::open(box, 7, 100, parked), all);
  step.end();
  BOOST_TEST(step.said == "");
  BOOST_TEST((step.memory == all));
}

namespace {

using runs = detail::parked_runs;
constexpr auto nobody_is_gone = [](const detail::peer_process&) { return false; };
constexpr auto all_are_gone = [](const detail::peer_process&) { return true; };
constexpr detail::peer_process client{3, 77}, task{1, 5};

}  // namespace

// A run that waits keeps its mailbox when a later run of its session ends; one that nobody has asked for does not.
BOOST_AUTO_TEST_CASE(runs_keep_their_mailboxes_until_they_end) {
  runs all;
  all.ask({7, 1}, client);
  const auto waits = all.find({7, 1}, client, true, nobody_is_gone);
  const auto early = all.find({7, 2}, task, false, nobody_is_gone);
  all.ask({7, 3}, client);
  all.end({7, 3}, client);
  BOOST_TEST(all.find({7, 1}, task, false, nobody_is_gone) == waits);
  BOOST_TEST(!waits->failure());
  BOOST_TEST(early->failure().has_value());
  BOOST_TEST(all.find({7, 2}, task, false, nobody_is_gone) == nullptr);
  BOOST_TEST(all.find({7, 3}, task, false, nobody_is_gone) == nullptr);
  all.end({7, 1}, client);
  BOOST_TEST(all.find({7, 1}, task, false, nobody_is_gone) == nullptr);
  // A request that arrives after its run was cancelled makes no mailbox.
  all.ask({7, 2}, client);
  BOOST_TEST(all.size() == 0u);
}

BOOST_AUTO_TEST_CASE(runs_that_nobody_asks_for_have_a_limit) {
  runs all;
  std::uint64_t session = 0;
  for (; session < runs::max_of_client; ++session) all.find({session, 1}, client, true, nobody_is_gone);
  BOOST_CHECK_THROW(all.find({session, 1}, client, true, nobody_is_gone), error);
  // Others are not affected. A task sends what clients make it send: its oldest run goes.
  const auto oldest = all.find({session, 1}, task, false, nobody_is_gone);
  std::this_thread::sleep_for(1ms);
  for (std::size_t n = 0; n < runs::max_of_task; ++n) all.find({++session, 1}, task, false, nobody_is_gone);
  BOOST_TEST(oldest->failure().has_value());
  BOOST_TEST(all.size() == runs::max_of_client + runs::max_of_task);
  all.drop_orphans(all_are_gone);
  BOOST_TEST(all.size() == 0u);
}

BOOST_AUTO_TEST_CASE(each_client_has_limits_of_its_own) {
  parked_bytes parked(1000);
  detail::request_limits limits(parked);
  std::vector<detail::request_limits::ticket> held;
  for (std::size_t n = 0; n < detail::request_limits::max_requests; ++n) held.push_back(limits.admit(client, 1));
  BOOST_CHECK_THROW(limits.admit(client, 1), error);
  held.push_back(limits.admit(task, 1));
  BOOST_CHECK_THROW(limits.admit(task, 1000), error);
  BOOST_TEST(parked.now() == held.size());
  held.erase(held.begin());
  held.push_back(limits.admit(client, 1));
  held.clear();
  BOOST_TEST(parked.now() == 0u);
}

// A failure of the task itself is a cause: others have to be cancelled. One that follows a cancellation is not.
BOOST_AUTO_TEST_CASE(a_mailbox_tells_failures_from_cancellations) {
  parked_bytes parked(1);
  const auto fails = std::make_shared<mailbox>(), ends = std::make_shared<mailbox>();
  mailbox::put(mailbox::open(fails, 1, 8, parked), counted(8));
  fails->cancel(error(error_code::aborted, "step", "too late"));
  BOOST_TEST((fails->failure().value().code() == error_code::resource_exhausted));
  BOOST_TEST(!fails->was_cancelled());
  ends->cancel(error(error_code::aborted, "step", "another task failed"));
  ends->fail(error(error_code::internal, "step", "too late"));
  BOOST_TEST((ends->failure().value().code() == error_code::aborted));
  BOOST_TEST(ends->was_cancelled());
}

BOOST_AUTO_TEST_CASE(runs_end_with_the_connection_of_their_client) {
  runs all;
  all.ask({7, 1}, client);
  all.ask({8, 1}, task);
  const auto asked = all.find({7, 1}, task, false, nobody_is_gone);  // passed on by a task
  const auto early = all.find({9, 1}, client, true, nobody_is_gone);
  const auto other = all.find({8, 1}, client, true, nobody_is_gone);
  all.cancel_of(client, error(error_code::unavailable, "step", "the client is gone"));
  BOOST_TEST(asked->was_cancelled());
  BOOST_TEST(early->was_cancelled());
  BOOST_TEST(!other->failure());
  BOOST_TEST(all.is_over({7, 1}));
  BOOST_TEST(!all.is_over({8, 1}));
  BOOST_TEST(!all.is_over({10, 1}));
  all.end({8, 1}, task);
  BOOST_TEST(all.is_over({8, 1}));
}

// ---- turns, and the scheduler of runs ----

namespace {

using detail::run_progress;
using detail::run_scheduler;
using detail::run_state;
using detail::run_turns;
using detail::service_request;

/// Waits for another thread. Returns false if that takes too long.
template <typename Condition>
bool becomes_true(Condition holds) {
  for (const deadline until(60s); !holds(); std::this_thread::sleep_for(1ms))
    if (until.expired()) return false;
  return true;
}

/// Executes requests by recording their numbers. Number 0 computes until `is_released`.
struct recorder final : run_scheduler::owner {
  struct counted_state final : run_scheduler::session_state {
    int runs = 0;
  };

  mutable std::mutex mutex;
  std::vector<std::int64_t> executed, forwarded, dropped, cancelled;
  int computing = 0, most_computing = 0, runs_of_session = 0;
  std::atomic<bool> is_released{false}, has_begun{false}, has_met{false};
  std::atomic<int> refusals{0};
  run_scheduler scheduler{*this};

  ~recorder() {
    is_released = true;
    scheduler.stop();
    scheduler.join_sessions();
  }
  static service_request request(std::int64_t number, frame_kind kind = frame_kind::reset) {
    frame_header header;
    header.kind = kind;
    header.tag = 9;
    header.step = number;
    return {client, header, {}};
  }
  static service_request run(std::int64_t number, bool waits) {
    service_request made = request(number, frame_kind::run_step);
    detail::run_message message;
    message.client_rank = static_cast<std::uint32_t>(client.rank);
    message.client_incarnation = client.incarnation;
    message.waits = waits;
    made.message = std::make_shared<const detail::run_message>(message);
    return made;
  }
  std::vector<std::int64_t> all_of(const std::vector<std::int64_t>& which) const {
    const std::lock_guard lock(mutex);
    return which;
  }

  void note_queued(const service_request&) override {}
  bool is_own(const detail::peer_process&) const override { return true; }
  bool forward(service_request& next) override {
    if (next.header.step == 0 && !has_met) {
      ++refusals;
      return false;
    }
    const std::lock_guard lock(mutex);
    forwarded.push_back(next.header.step);
    return true;
  }
  void execute(service_request& next, std::unique_ptr<run_scheduler::session_state>* state) override {
    {
      const std::lock_guard lock(mutex);
      most_computing = std::max(most_computing, ++computing);
      executed.push_back(next.header.step);
      if (state) {
        if (!*state) *state = std::make_unique<counted_state>();
        runs_of_session = ++static_cast<counted_state&>(**state).runs;
      }
    }
    has_begun = true;
    const bool pauses = next.header.step == 0 && next.message && next.message->waits;
    if (pauses) wait_with_pause(next);
    if (next.header.step == 0 && !pauses) becomes_true([&] { return is_released.load(); });
    const std::lock_guard lock(mutex);
    --computing;
  }
  void wait_with_pause(service_request& next) {
    {
      const std::lock_guard lock(mutex);
      --computing;
    }
    scheduler.turns().pause(next.progress);
    becomes_true([&] { return is_released.load(); });
    scheduler.turns().resume(next.progress);
    const std::lock_guard lock(mutex);
    most_computing = std::max(most_computing, ++computing);
  }
  void end_cancelled(const service_request& next) override {
    const std::lock_guard lock(mutex);
    cancelled.push_back(next.header.step);
  }
  void drop(const service_request& next, const detail::peer_process&) override {
    const std::lock_guard lock(mutex);
    dropped.push_back(next.header.step);
  }
  bool receive(std::chrono::milliseconds) override { return false; }
  void wake() override {}
  void clean_up() override {}
};

using numbers = std::vector<std::int64_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_waits_lets_another_one_compute) {
  run_turns turns;
  run_progress waits, other;
  turns.begin(waits);
  BOOST_TEST((turns.state_of(waits) == run_state::running));
  turns.pause(waits);
  BOOST_TEST((turns.state_of(waits) == run_state::paused));
  turns.begin(other);  // would never return if the turn had not been given up
  BOOST_TEST((turns.state_of(other) == run_state::running));
  std::atomic<bool> is_back{false};
  std::thread first([&] {
    turns.resume(waits);
    is_back = true;
  });
  turns.end(other);
  BOOST_TEST((turns.state_of(other) == run_state::ended));
  first.join();
  BOOST_TEST(is_back);
  BOOST_TEST((turns.state_of(waits) == run_state::running));
  turns.end(waits);
}

// A thread of a run asks for the turn while another thread of the run begins to wait: the turn is not given away twice.
BOOST_AUTO_TEST_CASE(threads_of_one_run_pause_it_together) {
  run_turns turns;
  run_progress of_two, other, third;
  turns.begin(of_two);
  turns.pause(of_two);
  turns.begin(other);
  std::atomic<bool> is_back{false};
  std::thread first([&] {
    turns.resume(of_two);  // returns without the turn, since the run waits again
    is_back = true;
  });
  BOOST_TEST(becomes_true([&] { return turns.state_of(of_two) == run_state::queued; }));
  turns.pause(of_two);
  BOOST_TEST(becomes_true([&] { return is_back.load(); }));
  first.join();
  BOOST_TEST((turns.state_of(of_two) == run_state::paused));
  BOOST_TEST((turns.state_of(other) == run_state::running));
  std::atomic<bool> has_begun{false};
  std::thread next([&] {
    turns.begin(third);
    has_begun = true;
  });
  std::this_thread::sleep_for(5ms);
  BOOST_TEST(!has_begun);  // `other` still has the turn
  turns.end(other);
  next.join();
  turns.end(third);
  turns.resume(of_two);
  BOOST_TEST((turns.state_of(of_two) == run_state::running));
  turns.end(of_two);
}

BOOST_AUTO_TEST_CASE(requests_are_executed_one_after_the_other) {
  recorder all;
  all.scheduler.start();
  all.scheduler.add(all.request(0));
  BOOST_TEST(becomes_true([&] { return all.has_begun.load(); }));
  for (std::int64_t n = 1; n < 5; ++n)
    all.scheduler.add(n == 3 ? all.request(3, frame_kind::cancel_step) : all.request(n));
  all.scheduler.add_to_session(all.run(7, true));
  BOOST_TEST(all.scheduler.has_waiting());
  BOOST_TEST(!all.scheduler.others_have_waited(client, 0s));
  all.scheduler.note_stalled(2s);
  BOOST_TEST(all.scheduler.others_have_waited(task, 2s));
  BOOST_TEST(!all.scheduler.others_have_waited(task, 3s));
  BOOST_TEST((all.all_of(all.executed) == numbers{0}));
  all.is_released = true;
  BOOST_TEST(becomes_true([&] { return all.all_of(all.executed).size() == 5; }));
  numbers in_turn = all.all_of(all.executed);
  std::erase(in_turn, 7);
  BOOST_TEST((in_turn == numbers{0, 1, 2, 4}));
  BOOST_TEST((all.all_of(all.cancelled) == numbers{3}));
  BOOST_TEST(all.most_computing == 1);
}

BOOST_AUTO_TEST_CASE(a_run_that_waits_for_a_queue_holds_up_its_session_alone) {
  recorder all;
  all.scheduler.start();
  all.scheduler.add_to_session(all.run(0, true));
  BOOST_TEST(becomes_true([&] { return all.has_begun.load(); }));
  all.scheduler.add_to_session(all.run(1, true));
  all.scheduler.add(all.request(2));
  BOOST_TEST(becomes_true([&] { return all.all_of(all.executed).size() == 2; }));
  BOOST_TEST((all.all_of(all.executed) == numbers{0, 2}));
  all.is_released = true;
  BOOST_TEST(becomes_true([&] { return all.all_of(all.executed).size() == 3; }));
  BOOST_TEST((all.all_of(all.executed) == numbers{0, 2, 1}));
  BOOST_TEST(all.runs_of_session == 2);
  BOOST_TEST(all.most_computing == 1);
}

BOOST_AUTO_TEST_CASE(runs_of_a_session_that_ends_are_dropped) {
  recorder all;
  all.scheduler.start();
  all.scheduler.add_to_session(all.run(0, true));
  BOOST_TEST(becomes_true([&] { return all.has_begun.load(); }));
  all.scheduler.add_to_session(all.run(1, true));
  all.scheduler.end_session(9);
  all.is_released = true;
  BOOST_TEST(becomes_true([&] { return all.all_of(all.dropped).size() == 1; }));
  BOOST_TEST((all.all_of(all.dropped) == numbers{1}));
  BOOST_TEST((all.all_of(all.executed) == numbers{0}));
  all.scheduler.add_to_session(all.run(2, true));  // the client has begun the session again
  BOOST_TEST(becomes_true([&] { return all.all_of(all.executed).size() == 2; }));
  BOOST_TEST(all.runs_of_session == 1);
}

BOOST_AUTO_TEST_CASE(a_run_whose_tasks_are_not_there_yet_lets_others_pass) {
  recorder all;
  all.scheduler.forward(all.run(0, false));
  all.scheduler.forward(all.run(1, false));
  all.scheduler.forward(all.run(2, false));
  all.scheduler.start();
  BOOST_TEST(becomes_true([&] { return all.all_of(all.forwarded).size() == 2 && all.refusals > 1; }));
  all.has_met = true;
  BOOST_TEST(becomes_true([&] { return all.all_of(all.forwarded).size() == 3; }));
  BOOST_TEST((all.all_of(all.forwarded) == numbers{1, 2, 0}));
}

BOOST_AUTO_TEST_CASE(runs_of_a_client_that_is_gone_are_not_forwarded) {
  recorder all;
  all.scheduler.forward(all.run(1, false));
  all.scheduler.drop_forwarded(task);  // another one
  all.scheduler.drop_forwarded(client);
  all.scheduler.forward(all.run(2, false));
  all.scheduler.start();
  BOOST_TEST(becomes_true([&] { return !all.all_of(all.forwarded).empty(); }));
  BOOST_TEST((all.all_of(all.forwarded) == numbers{2}));
}

BOOST_AUTO_TEST_CASE(sessions_with_queues_have_a_limit_for_each_client) {
  recorder all;
  all.scheduler.start();
  const auto add = [&](std::uint64_t session, const detail::peer_process& of) {
    service_request next = all.run(1, true);
    detail::run_message message = *next.message;
    message.client_rank = static_cast<std::uint32_t>(of.rank);
    message.client_incarnation = of.incarnation;
    next.message = std::make_shared<const detail::run_message>(message);
    next.header.tag = session;
    all.scheduler.add_to_session(std::move(next));
  };
  constexpr auto most = static_cast<std::uint64_t>(run_scheduler::max_sessions_of_client);
  for (std::uint64_t session = 0; session < most; ++session) add(session, client);
  std::string said;
  BOOST_TEST((test::code_of([&] { add(most, client); }, &said) == error_code::resource_exhausted));
  CHECK_SAYS(said, "too many sessions use queues");
  add(most, task);
  all.scheduler.end_sessions_of([](const detail::peer_process& peer) { return peer == client; });
  add(most + 1, client);
  BOOST_TEST(becomes_true([&] { return all.all_of(all.executed).size() >= 2; }));
}

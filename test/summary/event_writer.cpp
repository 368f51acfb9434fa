// SPDX-License-Identifier: BSL-1.0
#include <signal.h>
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>

#include <weft/summary/event_writer.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "data/files.hpp"
#include "errors.hpp"
#include "summary/messages.hpp"

using namespace weft;
using test::contains;
using test::message;

namespace {

/// The n-th value of an event's summary.
message value_of(const message& event, std::size_t n = 0) { return message(event.in(5).fields.at(n).bytes); }

event_writer_options seldom() { return {.flush_interval = std::chrono::hours(1)}; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_begins_with_its_version_and_has_scalars_in_order) {
  folder f;
  const std::string runs = (f.path / "runs" / "first").string();
  std::string path;
  const double before = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  {
    event_writer log(runs, {.suffix = ".mine"});
    path = log.path();
    log.add_scalar("loss", 0.75, 0);
    log.add_scalar("a name that is longer than a short string", -1e30, std::int64_t{1} << 40);
  }
  BOOST_TEST(path.starts_with(runs + "/events.out.tfevents."));
  BOOST_TEST(path.ends_with(".mine"));
  const std::vector<message> all = test::events(path);
  BOOST_TEST_REQUIRE(all.size() == 3u);
  BOOST_TEST(all[0].text(3) == "brain.Event:2");
  BOOST_TEST(all[0].real(1) >= before);
  BOOST_TEST(all[0].real(1) < before + 60);
  BOOST_TEST(all[1].word(2) == 0u);
  BOOST_TEST(value_of(all[1]).text(1) == "loss");
  BOOST_TEST(value_of(all[1]).single(2) == 0.75f);
  BOOST_TEST(all[2].word(2) == std::uint64_t{1} << 40);
  BOOST_TEST(value_of(all[2]).text(1) == "a name that is longer than a short string");
  BOOST_TEST(value_of(all[2]).single(2) == -1e30f);
}

BOOST_AUTO_TEST_CASE(what_was_added_is_in_the_file_after_a_flush_and_after_the_interval) {
  folder f;
  event_writer log(f.path.string(), seldom());
  BOOST_TEST(test::events(log.path()).empty());
  log.add_scalar("x", 1, 1);
  log.flush();
  BOOST_TEST(test::events(log.path()).size() == 2u);
  log.flush();
  BOOST_TEST(test::events(log.path()).size() == 2u);
  log.close();
  BOOST_CHECK_EXCEPTION(log.add_scalar("x", 2, 2), error,
                        [](const error& e) { return e.code() == error_code::failed_precondition; });
  log.close();

  event_writer often(f.path.string(), {.flush_interval = std::chrono::milliseconds(5)});
  often.add_scalar("x", 1, 1);
  for (int i = 0; i < 2000 && test::events(often.path()).size() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  BOOST_TEST(test::events(often.path()).size() == 2u);
}

BOOST_AUTO_TEST_CASE(writers_of_one_folder_have_files_of_their_own) {
  folder f;
  event_writer first(f.path.string()), second(f.path.string());
  BOOST_TEST(first.path() != second.path());
  first.add_scalar("x", 1, 1);
  second.add_scalar("y", 2, 1);
  first.flush();
  second.flush();
  BOOST_TEST(value_of(test::events(first.path()).at(1)).text(1) == "x");
  BOOST_TEST(value_of(test::events(second.path()).at(1)).text(1) == "y");
}

BOOST_AUTO_TEST_CASE(several_threads_may_add) {
  folder f;
  event_writer log(f.path.string(), {.flush_interval = std::chrono::milliseconds(1), .max_queue = 100'000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) log.add_scalar(std::string(1, static_cast<char>('a' + t)), i, i);
    });
  for (std::thread& t : threads) t.join();
  log.close();
  const std::vector<message> all = test::events(log.path());
  BOOST_TEST(all.size() == 4001u);
  std::vector<std::uint64_t> next(4);
  for (std::size_t i = 1; i < all.size(); ++i)
    BOOST_TEST(all[i].word(2) == next[static_cast<std::size_t>(value_of(all[i]).text(1)[0] - 'a')]++);
}

BOOST_AUTO_TEST_CASE(a_full_queue_drops_and_says_so) {
  folder f;
  event_writer log(f.path.string(), {.flush_interval = std::chrono::hours(1), .max_queue_bytes = 1000});
  // The thread comes when half of it waits: more than it can take at once is dropped.
  const tensor<float, dims<200>> some;
  for (int i = 0; i < 100'000 && log.dropped() == 0; ++i) log.add_histogram("h", some, i);
  BOOST_TEST(log.dropped() > 0u);
  BOOST_CHECK_EXCEPTION(log.close(), error, [](const error& e) {
    return e.code() == error_code::resource_exhausted && contains(e.what(), "events were dropped") &&
           contains(e.what(), "max_queue");
  });
  for (const message& event : test::events(log.path())) BOOST_TEST(event.real(1) > 0);
}

namespace {

/// The longest file that this process may write.
struct file_size_limit {
  rlimit before{};
  explicit file_size_limit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before);
    set(bytes);
  }
  void set(rlim_t bytes) const {
    const rlimit now{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~file_size_limit() { ::setrlimit(RLIMIT_FSIZE, &before); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_full_disk_refuses_is_kept_and_written_when_there_is_room) {
  folder f;
  event_writer log(f.path.string(), seldom());
  log.flush();
  {
    const file_size_limit full(100);
    for (int i = 0; i < 50; ++i) log.add_scalar("loss", i, i);
    BOOST_CHECK_EXCEPTION(log.flush(), error, [&](const error& e) {
      return e.code() == error_code::resource_exhausted && contains(e.what(), log.path()) &&
             contains(e.what(), "50 events were not written: File too large");
    });
    BOOST_TEST(contains(log.failure(), "File too large"));
    // No half of a record.
    BOOST_TEST(test::events(log.path()).size() == 1u);
    for (int i = 50; i < 60; ++i) log.add_scalar("loss", i, i);  // does not wait, and does not throw
  }
  log.flush();
  BOOST_TEST(log.failure().empty());
  const std::vector<message> all = test::events(log.path());
  BOOST_TEST_REQUIRE(all.size() == 61u);
  for (std::size_t i = 1; i < all.size(); ++i) BOOST_TEST(all[i].word(2) == i - 1);
  BOOST_TEST(log.dropped() == 0u);
}

BOOST_AUTO_TEST_CASE(what_a_full_disk_refuses_for_long_is_given_up) {
  folder f;
  const std::string text(500, 'x');
  event_writer log(f.path.string(), {.flush_interval = std::chrono::hours(1), .max_queue_bytes = 2000});
  log.flush();
  const file_size_limit full(100);
  for (int i = 0; i < 10; ++i) {
    log.add_text("t", text, i);
    try {
      log.flush();
    } catch (const error&) {
    }
  }
  BOOST_TEST(log.dropped() > 0u);
  full.set(full.before.rlim_cur);
  log.add_scalar("after", 1, 100);
  log.flush();
  const std::vector<message> all = test::events(log.path());
  BOOST_TEST(value_of(all.back()).text(1) == "after");
  BOOST_CHECK_THROW(log.close(), error);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_an_error_that_names_it) {
  folder f;
  const std::string in_the_way = f.file("file", {1});
  BOOST_CHECK_EXCEPTION(event_writer(in_the_way + "/runs"), error,
                        [&](const error& e) { return contains(e.what(), in_the_way); });
  BOOST_CHECK_THROW(event_writer(f.path.string(), {.max_queue = 0}), error);
}

BOOST_AUTO_TEST_CASE(a_start_is_logged) {
  folder f;
  event_writer log(f.path.string());
  log.add_session_log(session_status::start, 70, "resumed");
  log.close();
  const message event = test::events(log.path()).at(1);
  BOOST_TEST(event.word(2) == 70u);
  BOOST_TEST(event.in(7).word(1) == 1u);
  BOOST_TEST(event.in(7).text(3) == "resumed");
}

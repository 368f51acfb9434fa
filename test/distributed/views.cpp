// SPDX-License-Identifier: BSL-1.0
// How workers agree on who trains on: the state machine alone, under random schedules of messages that are lost, late
// and out of order, of processes that die, are cut off and come again.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <weft/distributed/membership/loss_watch.hpp>
#include <weft/distributed/membership/views/view.hpp>

#include "sanitized.hpp"

using namespace weft;
using detail::presence;
using detail::view_agreement;
using detail::view_message;

namespace {

constexpr std::uint64_t schedules = test::sanitized ? 2'000 : 10'000;

/// Workers in a world of which each sees what the links between them let through.
class world {
 public:
  world(std::uint64_t seed, int workers, loss_policy policy)
      : random_(seed), workers_(workers), policy_(policy), cut_(workers * workers, false) {
    for (int i = 0; i < workers; ++i) start(i);
  }

  struct process {
    view_member who;
    view_agreement agreement;
    enum class at { meets, trains, failed, dead } is = at::meets;
    std::int64_t updates = -1;
    int met = 0;                       // turns since it has begun to meet
    std::set<std::uint64_t> given_up;  // incarnations that were silent

    process(view_member w, int workers, loss_policy policy)
        : who(w), agreement(w, workers, detail::training_program{7, 0, 0, ""}, policy) {}
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  process& of(int index) { return *newest_[static_cast<std::size_t>(index)]; }

  void start(int index) {
    newest_.resize(static_cast<std::size_t>(workers_));
    all_.push_back(std::make_unique<process>(view_member{index, ++incarnations_}, workers_, policy_));
    newest_[static_cast<std::size_t>(index)] = all_.back().get();
    all_.back()->agreement.begin(-1);
  }
  void kill(int index) { of(index).is = process::at::dead; }
  bool is_gone(int index) { return of(index).is == process::at::dead || of(index).is == process::at::failed; }
  void cut(int a, int b, bool yes) { cut_[at(a, b)] = cut_[at(b, a)] = yes; }
  bool is_cut(int a, int b) const { return cut_[at(a, b)]; }
  void heal() { cut_.assign(cut_.size(), false); }

  /// One thing happens to one process.
  void turn(bool calm) {
    const int index = static_cast<int>(below(static_cast<std::uint64_t>(workers_)));
    process& one = of(index);
    if (is_gone(index)) return;
    deliver(index);
    look(one);
    if (one.is == process::at::trains) {
      if (must_meet(one))
        meet(one);
      else if (whole_group_trains(one) && below(8) == 0)
        ++one.updates;  // a step that the others may miss
      return;
    }
    if (++one.met > 300) one.agreement.stop_waiting_for_places();
    if (one.met > 600) one.agreement.stop_waiting_for_members(), one.agreement.stop_waiting_for_proof();
    if (one.met > 3000 && one.agreement.current().epoch > 0) one.agreement.give_up();
    one.agreement.advance();
    if (below(calm ? 3 : 6) == 0) one.agreement.resend();
    collect(one);
    if (one.agreement.failure()) {
      one.is = process::at::failed;
      failures.push_back(one.agreement.failure()->what());
    } else if (one.agreement.decided()) {
      note(one);
    }
  }

  std::string wrong;
  std::vector<std::string> failures;
  std::map<std::uint64_t, training_view> views;

 private:
  std::size_t at(int a, int b) const { return static_cast<std::size_t>(a * workers_ + b); }

  void look(process& one) {
    for (int i = 0; i < workers_; ++i) {
      if (i == one.who.index || below(3) != 0) continue;
      bool silent = is_cut(i, one.who.index);
      if (silent) one.given_up.insert(of(i).who.incarnation);
      silent = one.given_up.contains(of(i).who.incarnation);  // for good, as a membership has it
      one.agreement.see(i, of(i).who.incarnation,
                        silent       ? presence::given_up
                        : is_gone(i) ? presence::dead
                                     : presence::alive);
    }
  }
  bool must_meet(process& one) {
    for (const view_member& each : one.agreement.current().members) {
      if (each == one.who) continue;
      if (of(each.index).who != each || is_gone(each.index) || is_cut(each.index, one.who.index)) return true;
      if (of(each.index).is == process::at::meets &&
          of(each.index).agreement.current().epoch == one.agreement.current().epoch)
        return true;
    }
    return below(400) == 0;  // to take somebody in
  }
  bool whole_group_trains(process& one) {
    for (const view_member& each : one.agreement.current().members)
      if (of(each.index).who != each || of(each.index).is != process::at::trains ||
          of(each.index).agreement.current() != one.agreement.current() || of(each.index).updates > one.updates + 1 ||
          of(each.index).updates < one.updates)
        return false;
    return true;
  }
  void meet(process& one) {
    one.is = process::at::meets;
    one.met = 0;
    one.agreement.begin(one.updates);
    one.agreement.resend();
    collect(one);
  }
  void collect(process& one) {
    for (auto& each : one.agreement.take_messages())
      if (!is_cut(one.who.index, each.to) && below(10) != 0)
        // As on the wire.
        messages_.push_back({each.to, view_message::read(each.what.bytes(), workers_)});
  }
  void deliver(int index) {
    for (std::size_t k = 0; k < messages_.size();) {
      auto& [to, what] = messages_[k];
      if (to != index || below(2) == 0) {
        ++k;
        continue;
      }
      const view_message said = what;
      if (below(8) != 0)
        messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(k));  // or it comes again
      else
        ++k;
      if (of(index).is == process::at::meets && !is_cut(said.from.index, index)) of(index).agreement.receive(said);
    }
    if (messages_.size() > 400) messages_.erase(messages_.begin(), messages_.begin() + 200);
  }

  void note(process& one) {
    const training_view& v = one.agreement.current();
    // Those who are left may begin anew where others have gone on and then ended without a word.
    if (views.contains(v.epoch) && !(views[v.epoch] == v) &&
        std::all_of(newest_.begin(), newest_.end(), [&](process* each) {
          return is_gone(each->who.index) || each->agreement.current().epoch < v.epoch ||
                 each->agreement.current() == v;
        }))
      views.erase(views.lower_bound(v.epoch), views.end());
    const auto [known, fresh] = views.try_emplace(v.epoch, v);
    if (!fresh && !(known->second == v))
      wrong = "two views of one epoch: " + to_string(v) + ", " + to_string(known->second);
    if (!v.has(one.who)) wrong = "a worker trains in a view without it";
    if (one.updates > v.updates) wrong = "a view forgets an update";
    one.updates = v.updates;  // that the group would have brought
    one.is = process::at::trains;
    // Nobody else may train in an older view, unless a member of this one, too, is to leave it.
    for (const auto& other : all_) {
      if (other->is != process::at::trains || other.get() == &one) continue;
      const training_view& its = other->agreement.current();
      const bool disjoint =
          std::none_of(its.members.begin(), its.members.end(), [&](const view_member& each) { return v.has(each); });
      const bool whole = std::all_of(its.members.begin(), its.members.end(), [&](const view_member& each) {
        return of(each.index).who == each && of(each.index).is == process::at::trains &&
               of(each.index).agreement.current() == its;
      });
      if (disjoint && whole && of(other->who.index).who == other->who)
        wrong = "two views train at once: " + to_string(v) + ", " + to_string(its);
    }
  }

  std::mt19937_64 random_;
  int workers_;
  loss_policy policy_;
  std::uint64_t incarnations_ = 100;
  std::vector<bool> cut_;
  std::vector<std::unique_ptr<process>> all_;
  std::vector<process*> newest_;
  std::vector<std::pair<int, view_message>> messages_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(workers_agree_on_one_view_for_each_epoch_under_random_faults) {
  std::uint64_t changed = 0, failed = 0, stuck = 0;
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    std::mt19937_64 random(seed);
    const int workers = 2 + static_cast<int>(random() % 4);
    world w(seed * 31 + 7, workers, loss_policy{{}, random() % 2 ? loss_action::shrink : loss_action::stop});
    const auto any = [&] { return static_cast<int>(random() % static_cast<std::uint64_t>(workers)); };
    for (int turn = 0; turn < 1500 && w.wrong.empty(); ++turn) {
      w.turn(false);
      if (random() % 250 != 0) continue;
      const int a = any(), b = any();
      switch (random() % 4) {
        case 0:
          w.kill(a);
          break;
        case 1:
        case 2:
          if (w.is_gone(a)) w.start(a);
          break;
        case 3:
          if (a != b) w.cut(a, b, true);
          break;
      }
      if (random() % 2) w.heal();
    }
    w.heal();
    for (int turn = 0; turn < 500 && w.wrong.empty(); ++turn) w.turn(true);
    if (!w.wrong.empty()) {
      BOOST_ERROR("seed " + std::to_string(seed) + ": " + w.wrong);
      return;
    }
    changed += w.views.size() > 1;
    failed += !w.failures.empty();
  }
  BOOST_TEST_MESSAGE("" << changed << " with changes, " << failed << " with failures, " << stuck << " stuck");
  BOOST_TEST(changed > schedules / 5);
  BOOST_TEST(failed > schedules / 100);
}

namespace {

/// Two or more workers in one view, all of whose messages arrive.
struct small_world {
  std::vector<std::unique_ptr<view_agreement>> all;

  small_world(int workers, loss_policy policy) {
    for (int i = 0; i < workers; ++i)
      all.push_back(std::make_unique<view_agreement>(view_member{i, 10u + static_cast<unsigned>(i)}, workers,
                                                     detail::training_program{7, 0, 0, ""}, policy));
    for (auto& each : all) each->begin(-1);
    for (int i = 0; i < workers; ++i)
      for (int k = 0; k < workers; ++k)
        if (i != k) all[static_cast<std::size_t>(i)]->see(k, 10u + static_cast<unsigned>(k), presence::alive);
    run();
  }
  void run(std::vector<bool> without = {}) {
    without.resize(all.size());
    for (int turn = 0; turn < 40; ++turn)
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (without[i]) continue;
        all[i]->advance();
        all[i]->resend();
        for (auto& each : all[i]->take_messages())
          if (!without[static_cast<std::size_t>(each.to)]) all[static_cast<std::size_t>(each.to)]->receive(each.what);
      }
  }
  view_agreement& operator[](std::size_t i) { return *all[i]; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(one_of_two_goes_on_when_the_other_is_dead) {
  for (const int left : {0, 1}) {
    small_world w(2, loss_policy{{}, loss_action::shrink});
    BOOST_REQUIRE(w[0].decided());
    BOOST_TEST(w[1].current().epoch == 1u);
    view_agreement& one = w[static_cast<std::size_t>(left)];
    one.begin(5);
    one.see(1 - left, 11u - static_cast<unsigned>(left), presence::dead);
    one.stop_waiting_for_places();
    one.advance();
    BOOST_REQUIRE(one.decided());
    BOOST_TEST(one.current().epoch == 2u);
    BOOST_TEST(one.current().members.size() == 1u);
    BOOST_TEST(one.current().updates == 5);
    BOOST_TEST(one.current().chief() == left);
  }
}

BOOST_AUTO_TEST_CASE(of_two_that_do_not_hear_each_other_the_lower_goes_on) {
  small_world w(2, loss_policy{{}, loss_action::shrink});
  for (unsigned i : {0u, 1u}) {
    w[i].begin(5);
    w[i].see(static_cast<int>(1 - i), 11u - i, presence::silent);
    w[i].stop_waiting_for_places();
    w[i].stop_waiting_for_proof();
    w[i].advance();
  }
  BOOST_TEST(w[0].decided());
  BOOST_REQUIRE(w[1].failure().has_value());
  BOOST_TEST(std::string(w[1].failure()->what()).find("missing: /job:worker/task:0") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_minority_waits_and_then_ends) {
  small_world w(5, loss_policy{{}, loss_action::shrink});
  for (auto& each : w.all) each->begin(3);
  for (std::size_t i = 0; i < 5; ++i)
    for (int k = 0; k < 5; ++k)
      if ((i < 2) != (k < 2) && static_cast<int>(i) != k) w[i].see(k, 10u + static_cast<unsigned>(k), presence::silent);
  for (auto& each : w.all) each->stop_waiting_for_places(), each->stop_waiting_for_proof();
  w.run({true, true, false, false, false});
  w.run({false, false, true, true, true});
  for (const std::size_t i : {2u, 3u, 4u}) BOOST_TEST(w[i].current().epoch == 2u);
  BOOST_TEST(w[0].failure().has_value());
  BOOST_TEST(!w[1].decided());
}

// A cut of the network may be over before all have noticed it. A member that another has given up leaves, and the
// others need not wait for it; of two that have given up each other it is the upper one.
BOOST_AUTO_TEST_CASE(a_live_member_that_one_has_given_up_leaves) {
  for (const bool mutual : {false, true})
    for (const auto& [by, whom] : {std::pair{0u, 1u}, {1u, 0u}, {1u, 2u}, {2u, 1u}, {0u, 2u}, {2u, 0u}}) {
      small_world w(3, loss_policy{{}, loss_action::shrink});
      for (auto& each : w.all) each->begin(3);
      w[by].see(static_cast<int>(whom), 10u + whom, presence::given_up);
      w[whom].see(static_cast<int>(by), 10u + by, mutual ? presence::given_up : presence::silent);
      w.run();
      for (auto& each : w.all) each->stop_waiting_for_places();
      w.run();
      const unsigned leaves = mutual ? std::max(by, whom) : whom;
      for (const unsigned i : {0u, 1u, 2u}) {
        if (i == leaves) {
          BOOST_REQUIRE(w[i].failure().has_value());
          const std::string why = w[i].failure()->what();
          BOOST_TEST(
              why.find("/job:worker/task:" + std::to_string(by + whom - i) + " declared it lost") != std::string::npos,
              why);
          continue;
        }
        BOOST_REQUIRE(w[i].decided());
        BOOST_TEST(w[i].current().epoch == 2u);
        BOOST_TEST(w[i].current().members.size() == 2u);
        BOOST_TEST(!w[i].current().find(static_cast<int>(leaves)));
      }
    }
}

// Worker 0 has ended, which one has noticed and the other has not yet: nobody has heard of it since, and nobody leaves.
BOOST_AUTO_TEST_CASE(who_has_noticed_a_loss_earlier_does_not_leave) {
  for (const bool has_said : {true, false}) {
    small_world w(3, loss_policy{{}, loss_action::shrink});
    for (auto& each : w.all) each->begin(3);
    w[0].resend();
    for (auto& each : w[0].take_messages())
      if (has_said) w[static_cast<std::size_t>(each.to)].receive(each.what);  // before it has ended
    w[1].see(0, 10, presence::given_up);
    w.run({true, false, false});
    BOOST_TEST(!w[1].failure().has_value());
    BOOST_TEST(!w[2].failure().has_value());
    w[2].see(0, 10, presence::given_up);
    for (const unsigned i : {1u, 2u}) w[i].stop_waiting_for_places();
    w.run({true, false, false});
    for (const unsigned i : {1u, 2u}) {
      BOOST_TEST(w[i].decided());
      BOOST_TEST(w[i].current().members.size() == 2u);
    }
  }
}

// Errors name as lost whoever is lost, and tell apart those that have not answered and those that went meanwhile.
BOOST_AUTO_TEST_CASE(live_workers_are_not_named_as_missing) {
  const auto failure_of = [](view_agreement& one) {
    one.advance();
    return one.failure() ? std::string(one.failure()->what()) : "none";
  };
  {
    small_world w(3, wait_for{std::chrono::seconds(1)});
    w[0].begin(3);
    w[0].see(2, 12, presence::dead);
    BOOST_TEST(w[0].whom_it_awaits() ==
               "no replacement for /job:worker/task:2 has connected in time; /job:worker/task:1 has not "
               "answered in time");
    w[0].stop_waiting_for_members();
    BOOST_TEST(failure_of(w[0]).find("(missing: /job:worker/task:2; no answer from /job:worker/task:1)") !=
               std::string::npos);
    w[0].begin(3);
    w[0].give_up();
    BOOST_TEST(failure_of(w[0]).find("; missing: /job:worker/task:2; no answer from /job:worker/task:1") !=
               std::string::npos);
  }
  for (const bool overdue : {false, true}) {
    small_world w(4, wait_for{std::chrono::seconds(1)});
    for (auto& each : w.all) each->begin(3);
    for (const int gone : {2, 3}) w[0].see(gone, 10u + static_cast<unsigned>(gone), presence::dead);
    w.run({false, false, true, true});
    w[0].set_overdue(3, overdue);
    w[0].stop_waiting_for_places();
    BOOST_TEST(failure_of(w[0]).find(overdue ? "the place of /job:worker/task:3 within 1000 ms"
                                             : "the place of /job:worker/task:2, /job:worker/task:3 within 1000 ms") !=
               std::string::npos);
  }
}

// A member that has made a step that the others have not gives its values; a process that is new takes them.
BOOST_AUTO_TEST_CASE(the_values_come_from_the_lowest_worker_that_has_made_the_most_updates) {
  small_world w(3, loss_policy{{}, loss_action::stop});
  w[0].begin(4);
  w[1].begin(5);
  w.all[2] = std::make_unique<view_agreement>(view_member{2, 99}, 3, detail::training_program{7, 0, 0, ""},
                                              loss_policy{{}, loss_action::stop});
  w[2].begin(-1);
  for (int i : {0, 1}) {
    w[static_cast<std::size_t>(i)].see(2, 99, presence::alive);
    w[2].see(i, 10u + static_cast<unsigned>(i), presence::alive);
  }
  w.run();
  for (const std::size_t i : {0u, 1u, 2u}) {
    BOOST_REQUIRE(w[i].decided());
    BOOST_TEST(w[i].current().epoch == 2u);
    BOOST_TEST(w[i].current().updates == 5);
    BOOST_TEST(w[i].current().source == 1);
    BOOST_TEST(w[i].current().brings_values);
    BOOST_TEST(w[i].current().members.size() == 3u);
  }
}

// Of four workers one falls silent, and nobody takes its place. The others end one after the other.
BOOST_AUTO_TEST_CASE(all_that_have_waited_in_vain_give_the_same_reason) {
  small_world w(4, wait_for{std::chrono::seconds(1)});
  for (const std::size_t i : {0u, 1u, 2u}) {
    w[i].begin(4);
    w[i].see(3, 13, presence::given_up);
    w[i].set_overdue(3, true);
  }
  w.run({false, false, false, true});
  std::vector<bool> ended{false, false, false, true};
  for (const std::size_t i : {0u, 1u, 2u}) {
    w[i].stop_waiting_for_places();
    w[i].stop_waiting_for_proof();
    w.run(ended);
    BOOST_REQUIRE(w[i].failure().has_value());
    const std::string why = w[i].failure()->what();
    BOOST_TEST(why.find("no process has taken the place of /job:worker/task:3 within 1000 ms") != std::string::npos,
               why);
    ended[i] = true;
    for (std::size_t other = i + 1; other < 3; ++other)
      w[other].see(static_cast<int>(i), 10u + static_cast<unsigned>(i), presence::dead);
  }
}

// ---- how long a lost task is waited for ----

using namespace std::chrono_literals;
using made_up_time = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

BOOST_AUTO_TEST_CASE(the_wait_for_each_member_starts_when_it_is_first_missing) {
  detail::loss_watch watch(500ms);
  const made_up_time t{1h};
  BOOST_TEST((!watch.is_missing(0) && !watch.is_over(0, t)));
  watch.note(0, true, t);
  watch.note(2, true, t + 200ms);
  watch.note(0, true, t + 300ms);  // nothing new
  BOOST_TEST((watch.is_missing(0) && !watch.is_missing(1) && watch.is_missing(2)));
  BOOST_TEST((!watch.is_over(0, t + 499ms) && watch.is_over(0, t + 500ms)));
  BOOST_TEST((!watch.is_over(2, t + 699ms) && watch.is_over(2, t + 700ms)));
  BOOST_TEST((watch.is_missing_for(2, 100ms, t + 300ms) && !watch.is_missing_for(2, 100ms, t + 299ms)));
  BOOST_TEST(!watch.is_over(1, t + 24h));
  // It is back, and lost again: the wait is a new one.
  watch.note(0, false, t + 490ms);
  BOOST_TEST(!watch.is_over(0, t + 24h));
  watch.note(0, true, t + 600ms);
  BOOST_TEST((!watch.is_over(0, t + 1099ms) && watch.is_over(0, t + 1100ms)));
}

BOOST_AUTO_TEST_CASE(rejected_replacements_do_not_prolong_the_wait) {
  detail::loss_watch watch(500ms);
  const made_up_time t{1h};
  watch.note(1, true, t);
  for (const auto after : {100ms, 200ms, 300ms}) {
    watch.replace(1);
    BOOST_TEST(!watch.is_missing(1));
    watch.reject(1);
    watch.note(1, true, t + after);
  }
  BOOST_TEST((!watch.is_over(1, t + 499ms) && watch.is_over(1, t + 500ms)));
  watch.replace(1);
  BOOST_TEST(!watch.is_over(1, t + 24h));
  watch.note(1, true, t + 1s);  // the replacement is lost, too
  BOOST_TEST((!watch.is_over(1, t + 1499ms) && watch.is_over(1, t + 1500ms)));
}

BOOST_AUTO_TEST_CASE(the_wait_of_a_group_is_the_same_for_all_members) {
  detail::loss_watch watch(500ms);
  const made_up_time t{1h};
  watch.note(0, true, t - 1s);
  watch.begin(t);
  BOOST_TEST(!watch.is_missing(0));
  watch.note(0, true, t + 400ms);
  BOOST_TEST((!watch.is_over(t + 499ms) && watch.is_over(t + 500ms)));
  BOOST_TEST((watch.elapsed(t + 42ms) == 42ms));
  BOOST_TEST((!watch.is_over(0, t + 899ms) && watch.is_over(0, t + 900ms)));
}

BOOST_AUTO_TEST_CASE(a_policy_that_does_not_wait_keeps_no_place) {
  detail::loss_watch watch;
  const made_up_time t{1h};
  BOOST_TEST(!watch.keeps_places());
  watch.begin(t);
  watch.note(0, true, t);
  BOOST_TEST((watch.is_over(t) && watch.is_over(0, t)));
  watch.set_wait(detail::longest_loss_wait);  // fits into the nanoseconds of a clock
  BOOST_TEST((watch.keeps_places() && !watch.is_over(0, t + 24h * 365 * 30)));
}

BOOST_AUTO_TEST_CASE(all_waits_without_success_are_reported_by_the_same_sentence) {
  const error lost(error_code::unavailable, "read", "/job:ps/task:1 has closed its connection");
  const error why = detail::loss_watch(20s).not_replaced(lost, "push_pull");
  BOOST_TEST(std::string(why.what()) ==
             "push_pull: /job:ps/task:1 has closed its connection; no process has taken its place within 20000 ms");
  BOOST_TEST((why.code() == error_code::unavailable));
  BOOST_TEST(detail::not_replaced(1500ms, "/job:worker/task:1, /job:worker/task:3") ==
             "no process has taken the place of /job:worker/task:1, /job:worker/task:3 within 1500 ms");
}

// ---- who computes for lost workers ----

namespace {

using detail::replica_part;

std::vector<int> loads_of(const std::vector<int>& owners, std::size_t workers) {
  std::vector<int> loads(workers);
  for (const int each : owners)
    if (each >= 0) ++loads[static_cast<std::size_t>(each)];
  return loads;
}

/// The fewest replicas that have to move until the workers that compute have equally many, give or take one.
int fewest_moves(std::vector<int> kept, std::size_t replicas) {
  std::sort(kept.rbegin(), kept.rend());
  int moves = 0;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const std::size_t share = replicas / kept.size() + (k < replicas % kept.size() ? 1 : 0);
    moves += std::max(0, kept[k] - static_cast<int>(share));
  }
  return moves;
}

}  // namespace

BOOST_AUTO_TEST_CASE(lost_replicas_are_balanced_and_do_not_move_needlessly) {
  std::mt19937_64 random(1);
  int moved_at_all = 0;
  for (int sequence = 0; sequence < 500; ++sequence) {
    const std::size_t workers = 1 + random() % 9;
    std::vector<replica_part> parts(workers, replica_part::computes);
    std::vector<int> owners;
    for (int change = 0; change < 40; ++change) {
      parts[random() % workers] = random() % 8 == 0   ? replica_part::none
                                  : random() % 2 == 0 ? replica_part::lost
                                                      : replica_part::computes;
      const std::vector<int> before = owners;
      owners = detail::assign_replicas(before, parts);
      BOOST_REQUIRE((owners == detail::assign_replicas(before, parts)));
      BOOST_REQUIRE((owners == detail::assign_replicas(owners, parts)));  // nothing happens without a change
      BOOST_REQUIRE(owners.size() == workers);
      std::vector<int> loads, kept;  // of those that compute
      std::size_t replicas = 0;
      int moves = 0;
      std::vector<int> keeps(workers);
      const bool any = std::count(parts.begin(), parts.end(), replica_part::computes) > 0;
      for (std::size_t r = 0; r < workers; ++r) {
        const int owner = owners[r];
        if (parts[r] == replica_part::computes) BOOST_REQUIRE(owner == static_cast<int>(r));
        if (parts[r] == replica_part::none || !any) BOOST_REQUIRE(owner == -1);
        if (parts[r] == replica_part::none || !any) continue;
        BOOST_REQUIRE((parts[static_cast<std::size_t>(owner)] == replica_part::computes));
        ++replicas;
        if (parts[r] == replica_part::computes) {
          ++keeps[r];
        } else if (!before.empty() && before[r] >= 0 &&
                   parts[static_cast<std::size_t>(before[r])] == replica_part::computes) {
          ++keeps[static_cast<std::size_t>(before[r])];
          moves += before[r] != owner;
        }
      }
      const std::vector<int> all = loads_of(owners, workers);
      for (std::size_t w = 0; w < workers; ++w)
        if (parts[w] == replica_part::computes) {
          loads.push_back(all[w]);
          kept.push_back(keeps[w]);
        }
      if (!any) continue;
      BOOST_REQUIRE(*std::max_element(loads.begin(), loads.end()) - *std::min_element(loads.begin(), loads.end()) <= 1);
      BOOST_REQUIRE(moves == fewest_moves(kept, replicas));
      moved_at_all += moves;
    }
  }
  BOOST_TEST(moved_at_all > 100);
}

// The view carries the owners: who has come late knows them, too.
BOOST_AUTO_TEST_CASE(of_four_workers_two_compute_for_the_two_that_are_lost) {
  for (const auto& lost : {std::pair(2, 3), std::pair(3, 2), std::pair(0, 1), std::pair(1, 2), std::pair(0, 3)}) {
    small_world w(4, wait_for{0ms}.then(loss_action::take_over));
    std::vector<bool> gone(4);
    for (const int each : {lost.first, lost.second}) {
      gone[static_cast<std::size_t>(each)] = true;
      for (std::size_t i = 0; i < 4; ++i) {
        if (gone[i]) continue;
        w[i].begin(3);
        for (int k = 0; k < 4; ++k)
          if (gone[static_cast<std::size_t>(k)]) w[i].see(k, 10u + static_cast<unsigned>(k), presence::dead);
        w[i].stop_waiting_for_places();
      }
      w.run(gone);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      if (gone[i]) continue;
      BOOST_REQUIRE(w[i].decided());
      const training_view& v = w[i].current();
      BOOST_TEST(v.members.size() == 2u);
      for (const view_member& each : v.members) {
        BOOST_TEST(v.owner_of(each.index) == each.index);
        BOOST_TEST(std::count(v.owners.begin(), v.owners.end(), each.index) == 2);
      }
    }
  }
  BOOST_TEST(training_view{}.owner_of(0) == -1);
}

// The others keep the place for the right one.
BOOST_AUTO_TEST_CASE(a_replacement_of_another_program_is_told_the_difference) {
  using detail::training_program;
  const loss_policy policy = wait_for{std::chrono::seconds(1)};
  for (const auto& [program, difference] :
       {std::pair(training_program{7, 5, 0, ""}, "its seed is 0, but this worker's is 5"),
        {training_program{7, 0, 0, "10 steps"}, "its settings are '', but this worker's are '10 steps'"},
        {training_program{7, 0, 64, ""}, "its collective::bucket_bytes is 0, but this worker's is 64"},
        {training_program{8, 0, 0, ""}, "its graph differs"}}) {
    small_world w(3, policy);
    for (const std::size_t i : {0u, 1u}) {
      w[i].begin(4);
      w[i].see(2, 99, presence::alive);
    }
    w.all[2] = std::make_unique<view_agreement>(view_member{2, 99}, 3, program, policy);
    w[2].begin(-1);
    for (int i : {0, 1}) w[2].see(i, 10u + static_cast<unsigned>(i), presence::alive);
    w.run();
    BOOST_REQUIRE(w[2].failure().has_value());
    const std::string why = w[2].failure()->what();
    BOOST_TEST(why.find("run a different program than this worker: ") != std::string::npos, why);
    BOOST_TEST(why.find(difference) != std::string::npos, why);
    BOOST_TEST(!w[0].decided());
    BOOST_TEST(!w[0].failure().has_value());
    BOOST_TEST(w[0].awaits(2));
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_message_is_refused) {
  view_message m;
  m.from = {1, 5};
  m.current = {3, {{0, 4}, {1, 5}}, 7, 1, true, {0, 1}};
  m.given_up = {{0, 4}};
  m.seen_given_up = {{{0, 4}, {1, 5}}};
  for (const std::int64_t wait : {std::int64_t{-1}, std::int64_t{9'000'000'000'000'000'000}}) {
    view_message bad = m;
    bad.policy.wait = std::chrono::milliseconds(wait);
    BOOST_CHECK_THROW(view_message::read(bad.bytes(), 2), error);
  }
  // A ballot from which later ones would wrap around.
  for (std::uint64_t view_message::* const ballot : {&view_message::ballot, &view_message::accepted_ballot}) {
    view_message bad = m;
    bad.*ballot = ~std::uint64_t{0} - 5;
    BOOST_CHECK_THROW(view_message::read(bad.bytes(), 2), error);
  }
  // Replicas whose owner does not train, and a member that does not compute its own replica.
  for (const std::vector<int>& owners : {std::vector{0, 2}, std::vector{0, -1}, std::vector{0, 0}, std::vector{1, 1}}) {
    view_message bad = m;
    bad.current.owners = owners;
    BOOST_CHECK_THROW(view_message::read(bad.bytes(), 2), error);
  }
  const std::vector<std::byte> whole = m.bytes();
  const view_message same = view_message::read(whole, 2);
  BOOST_TEST((same.current == m.current && same.given_up == m.given_up && same.seen_given_up == m.seen_given_up));
  for (std::size_t n = 0; n < whole.size(); ++n)
    BOOST_CHECK_THROW(view_message::read(const_bytes(whole).first(n), 2), error);
  BOOST_CHECK_THROW(view_message::read(whole, 1), error);
  for (std::size_t n = 0; n < whole.size(); ++n)
    for (const unsigned bit : {0u, 7u}) {
      std::vector<std::byte> bad = whole;
      bad[n] ^= std::byte{1} << bit;
      try {
        const view_message said = view_message::read(bad, 2);
        BOOST_TEST(said.current.members.size() <= 2u);
      } catch (const error&) {
      }
    }
}

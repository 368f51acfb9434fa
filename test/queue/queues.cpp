// SPDX-License-Identifier: BSL-1.0
#include <weft/queue.hpp>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "elements.hpp"
#include "errors.hpp"

// Queues of tensors by the rules of TensorFlow 1 (core/kernels/queue_base.cc and the queues beside it at v1.15): by
// what TensorFlow itself answered to the same commands, and, where it would have to be asked in a race, by hand.

using namespace weft;
using namespace std::chrono_literals;
using test::code_of;
using test::contains;
using test::failure;

namespace {

constexpr auto soon = 20ms;  // a deadline that passes
constexpr auto long_ = 30s;  // one that does not

/// Waits until so many calls wait in a queue.
template <class Queue>
void await_waiting(const Queue& q, std::size_t calls) {
  const deadline until = long_;
  while (q.waiting() < calls && !until.expired()) std::this_thread::sleep_for(100us);
  BOOST_REQUIRE_EQUAL(q.waiting(), calls);
}

// ---- what TensorFlow answers ----

std::string text(const tensor<std::int64_t, dims<dyn<"batch">>>& values) {
  std::string all;
  for (const std::int64_t v : values) all += (all.empty() ? "" : " ") + std::to_string(v);
  return all.empty() ? "none" : all;
}
std::string text(const tensor<std::int64_t, dims<dyn<"batch">, dyn<"length">>>& rows) {
  std::string all;
  for (std::int64_t i = 0; i < rows.extent(0); ++i) {
    if (i > 0) all += " ";
    for (std::int64_t j = 0; j < rows.extent(1); ++j) all += (j ? "," : "") + std::to_string(rows(i, j));
    if (rows.extent(1) == 0) all += "-";
  }
  return all.empty() ? "none" : all;
}

struct player {
  virtual ~player() = default;
  virtual std::string run(const std::vector<std::string>& words) = 0;
  virtual std::size_t waiting() = 0;
};

template <class Queue>
struct player_of final : player {
  static constexpr bool by_priority = requires(const Queue& q) { std::get<1>(q.dequeue(1s)); };
  Queue q;
  explicit player_of(const Queue& of) : q(of) {}
  std::size_t waiting() override { return q.waiting(); }

  std::string run(const std::vector<std::string>& words) override {
    try {
      return answer(words[0], words);
    } catch (const error& e) {
      return weft::name(e.code());
    }
  }
  std::string answer(const std::string& what, const std::vector<std::string>& words) {
    constexpr bool pads = std::is_same_v<Queue, padding_fifo_queue<tensor<std::int64_t, dims<dyn<"length">>>>>;
    if (what == "size") return std::to_string(q.size());
    if (what == "is_closed") return std::to_string(q.is_closed());
    if (what == "close") return q.close(), "ok";
    if (what == "close_and_cancel") return q.close(true), "ok";
    const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(std::stoll(words[i])); };
    if constexpr (pads) {
      if (what == "enqueue") {
        std::vector<std::int64_t> values;
        std::istringstream in(words[1] == "-" ? "" : words[1]);
        for (std::string v; std::getline(in, v, ',');) values.push_back(std::stoll(v));
        tensor<std::int64_t, dims<dyn<"length">>> x(shape(values.size()));
        std::copy(values.begin(), values.end(), x.data());
        return q.enqueue(long_, x), "ok";
      }
      if (what == "dequeue") return text(q.dequeue_many(long_, 1));
      return text(what == "dequeue_many" ? q.dequeue_many(long_, number(1)) : q.dequeue_up_to(long_, number(1)));
    } else {
      tensor<std::int64_t, dims<dyn<"n">>> values(shape(words.size() - 1)), negative = values;
      for (std::size_t i = 1; i < words.size(); ++i)
        values.data()[i - 1] = number(i), negative.data()[i - 1] = -number(i);
      if constexpr (by_priority) {
        if (what == "enqueue") return q.enqueue(long_, number(1), -number(1)), "ok";
        if (what == "enqueue_many") return q.enqueue_many(long_, values, negative), "ok";
        if (what == "dequeue") return std::to_string(std::get<0>(q.dequeue(long_)));
        return text(
            std::get<0>(what == "dequeue_many" ? q.dequeue_many(long_, number(1)) : q.dequeue_up_to(long_, number(1))));
      } else {
        if (what == "enqueue") return q.enqueue(long_, number(1)), "ok";
        if (what == "enqueue_many") return q.enqueue_many(long_, values), "ok";
        if (what == "dequeue") return std::to_string(q.dequeue(long_));
        return text(what == "dequeue_many" ? q.dequeue_many(long_, number(1)) : q.dequeue_up_to(long_, number(1)));
      }
    }
  }
};

template <class Queue>
std::unique_ptr<player> play(const Queue& q) {
  return std::make_unique<player_of<Queue>>(q);
}

}  // namespace

BOOST_AUTO_TEST_CASE(queues_answer_as_those_of_tensorflow) {
  std::ifstream file(TEST_DATA "/queue/queue_values.txt");
  BOOST_REQUIRE(file);
  std::unique_ptr<player> queue;
  std::map<std::string, std::future<std::string>> waiting;
  std::string line;
  std::size_t number = 1, commands = 0;
  for (std::getline(file, line); std::getline(file, line);) {
    ++number;
    std::istringstream in(line.substr(0, line.find(" =>")));
    std::vector<std::string> words;
    for (std::string w; in >> w;) words.push_back(w);
    if (words[0] == "queue") {
      const std::int64_t capacity = std::stoll(words[2]), min_after = std::stoll(words[3]);
      const auto seed = static_cast<std::uint64_t>(std::stoull(words[4]));
      queue = words[1] == "fifo"       ? play(fifo_queue<std::int64_t>(capacity))
              : words[1] == "shuffle"  ? play(random_shuffle_queue<std::int64_t>(capacity, min_after, {.seed = seed}))
              : words[1] == "priority" ? play(priority_queue<std::int64_t, std::int64_t>(capacity))
                                       : play(padding_fifo_queue<tensor<std::int64_t, dims<dyn<"length">>>>(capacity));
      continue;
    }
    ++commands;
    std::string right = line.substr(line.find("=> ") + 3), answer;
    if (words[0] == "later") {
      const std::vector<std::string> command(words.begin() + 2, words.end());
      const std::size_t before = queue->waiting();
      waiting[words[1]] = std::async(std::launch::async, [&, command] { return queue->run(command); });
      if (command[0] == "close") {  // which waits in TensorFlow, and does not here
        waiting[words[1]].wait();
        continue;
      }
      const deadline until = long_;
      while (queue->waiting() == before && !until.expired()) std::this_thread::sleep_for(100us);
      answer = queue->waiting() == before + 1 ? "waits" : "done";
    } else if (words[0] == "await") {
      BOOST_REQUIRE_MESSAGE(waiting[words[1]].wait_for(long_) == std::future_status::ready, line);
      answer = waiting[words[1]].get();
    } else {
      answer = queue->run(words);
    }
    if (answer != right) BOOST_ERROR("line " << number << ": " << line << ", but here " << answer);
  }
  BOOST_CHECK_GT(commands, 1000u);
}

// ---- what elements are ----

BOOST_AUTO_TEST_CASE(elements_are_tensors_and_numbers_and_share_their_storage) {
  fifo_queue<tensor<float, dims<3>>, std::int32_t> q(10);
  const tensor<float, dims<3>> x{1, 2, 3};
  q.enqueue(long_, x, 7);
  q.enqueue(long_, 2 * x, tensor<std::int32_t>(8));
  const auto [y, label] = q.dequeue(long_);
  BOOST_CHECK(std::as_const(y).data() == x.data());  // no copy
  BOOST_CHECK_EQUAL(label, 7);
  const auto [z, other] = q.dequeue(long_);
  test::check_elements(z, {2, 4, 6});
  BOOST_CHECK_EQUAL(other, 8);

  tensor<float, dims<3>> mine = x;
  q.enqueue(long_, mine, 9);
  mine(0) = 100;  // the tensor in the queue stays
  BOOST_CHECK_EQUAL(std::get<0>(q.dequeue(long_))(0), 1);

  fifo_queue<bool, half, std::uint8_t> numbers;
  numbers.enqueue(long_, true, half(1.5f), 200);
  const auto [b, h, u] = numbers.dequeue(long_);
  BOOST_CHECK(b && static_cast<float>(h) == 1.5f && u == 200);
  failure(error_code::invalid_argument, [&] { numbers.enqueue(long_, true, half(0.0f), 300); });  // is no uint8
}

BOOST_AUTO_TEST_CASE(batches_are_one_tensor_of_an_axis_more) {
  fifo_queue<tensor<float, dims<2>>, std::int64_t> q(10);
  const tensor<float, dims<3, 2>> rows{1, 2, 3, 4, 5, 6};
  const std::int64_t labels[] = {7, 8, 9};
  q.enqueue_many(long_, rows, tensor_view<const std::int64_t, dims<dyn<"n">>>(labels, shape(3)));
  const auto [two, both] = q.dequeue_many<2>(long_);
  static_assert(std::is_same_v<std::remove_const_t<decltype(two)>, tensor<float, dims<2, 2>>>);
  test::check_elements(two, {1, 2, 3, 4});
  test::check_elements(both, {7, 8});
  const auto [last, one] = q.dequeue_many(long_, 1);
  BOOST_CHECK(last.extents() == shape(1, 2) && one.extents() == shape(1));
  test::check_elements(last, {5, 6});
  const auto [none, empty] = q.dequeue_many(long_, 0);
  BOOST_CHECK(none.extents() == shape(0, 2));

  const std::string text = failure(error_code::invalid_argument, [&] {
    q.enqueue_many(long_, rows, tensor_view<const std::int64_t, dims<dyn<"n">>>(labels, shape(2)));
  });
  BOOST_CHECK(contains(text, "component 1 has 2 elements, but component 0 has 3"));
  failure(error_code::invalid_argument, [&] { q.dequeue_many(long_, -1); });
  failure(error_code::resource_exhausted, [&] { q.dequeue_many(long_, INT64_MAX / 2); });
  BOOST_CHECK_EQUAL(q.size(), 0);
}

BOOST_AUTO_TEST_CASE(elements_whose_extents_differ_are_padded) {
  using rows = tensor<float, dims<dyn<"height">, 2, dyn<"width">>>;
  padding_fifo_queue<rows, tensor<std::int32_t, dims<dyn<"height">>>> q(10);
  const auto filled = [](std::int64_t h, std::int64_t w, float first) {
    rows x(shape(h, 2, w));
    std::iota(x.data(), x.data() + x.elements(), first);
    return x;
  };
  const auto heights = [](std::int64_t h) { return tensor<std::int32_t, dims<dyn<"height">>>(shape(h)); };
  q.enqueue(long_, filled(1, 3, 1), heights(1));
  q.enqueue(long_, filled(2, 1, 11), heights(2));
  q.enqueue(long_, filled(0, 2, 0), heights(0));
  // An extent of one name has one value in one element, though not in all.
  const std::string text =
      failure(error_code::invalid_argument, [&] { q.enqueue(long_, filled(2, 2, 0), heights(3)); });
  BOOST_CHECK(contains(text, "padding_fifo_queue: the extent height is 2"));
  const auto [all, h] = q.dequeue_many(long_, 3);
  BOOST_CHECK(all.extents() == shape(3, 2, 2, 3) && h.extents() == shape(3, 2));
  test::check_elements(all, {1,  2, 3, 4,  5, 6, 0,  0, 0, 0,  0, 0,  //
                             11, 0, 0, 12, 0, 0, 13, 0, 0, 14, 0, 0,  //
                             0,  0, 0, 0,  0, 0, 0,  0, 0, 0,  0, 0});
  // An element of other extents than the components say.
  fifo_queue<tensor<float, dims<3>>> three(1, {.name = "three"});
  const tensor<float, dims<dyn<"n">>> four(shape(4));
  BOOST_CHECK(contains(failure(error_code::invalid_argument, [&] { three.enqueue(long_, four); }), "[4]"));
  BOOST_CHECK(contains(failure(error_code::invalid_argument,
                               [&] { three.enqueue_many(long_, tensor<float, dims<2, dyn<"n">>>(shape(2, 4))); }),
                       "[4]"));
  BOOST_CHECK_EQUAL(three.size(), 0);
}

BOOST_AUTO_TEST_CASE(equal_priorities_leave_in_the_order_of_their_coming) {
  priority_queue<std::int64_t, std::int32_t> q(100);
  for (std::int32_t i = 0; i < 60; ++i) q.enqueue(long_, i % 3, i);
  for (std::int32_t i = 0; i < 60; ++i) {
    const auto [priority, value] = q.dequeue(long_);
    BOOST_CHECK_EQUAL(priority, i / 20);
    BOOST_CHECK_EQUAL(value, i % 20 * 3 + i / 20);
  }
  // More than it holds can never be the first of all; in TensorFlow this waits for ever.
  failure(error_code::invalid_argument, [&] { q.dequeue_many(long_, 101); });
  // TensorFlow loses the elements here.
  for (std::int64_t i = 0; i < 3; ++i) q.enqueue(long_, -i, 0);
  q.close();
  test::check_elements(std::get<0>(q.dequeue_up_to(long_, 9)), {-2, -1, 0});
}

// ---- capacity, deadlines, close ----

BOOST_AUTO_TEST_CASE(what_holds_nothing_is_refused) {
  failure(error_code::invalid_argument, [] { fifo_queue<float>(0); });
  failure(error_code::invalid_argument, [] { random_shuffle_queue<float>(10, 10); });
  failure(error_code::invalid_argument, [] { random_shuffle_queue<float>(10, -1); });
  fifo_queue<std::int32_t> unbounded;
  for (std::int32_t i = 0; i < 1000; ++i) unbounded.enqueue(0s, i);
  for (std::int32_t i = 0; i < 1000; ++i) BOOST_REQUIRE_EQUAL(unbounded.dequeue(0s), i);
}

BOOST_AUTO_TEST_CASE(a_deadline_ends_a_wait_and_takes_nothing) {
  fifo_queue<std::int32_t> q(4, {.name = "numbers"});
  BOOST_CHECK(contains(failure(error_code::deadline_exceeded, [&] { q.dequeue(0s); }),
                       "numbers: timed out waiting for 1 element"));
  for (std::int32_t i = 0; i < 3; ++i) q.enqueue(0s, i);
  BOOST_CHECK(contains(failure(error_code::deadline_exceeded, [&] { q.dequeue_many(soon, 6); }),
                       "for 6 elements, of which 3 arrived"));
  BOOST_CHECK_EQUAL(q.size(), 3);  // in TensorFlow those of a step that is cancelled are gone
  const tensor<std::int32_t, dims<3>> more{3, 4, 5};
  BOOST_CHECK(contains(failure(error_code::deadline_exceeded, [&] { q.enqueue_many(soon, more); }),
                       "timed out with 2 of 3 elements not enqueued"));
  BOOST_CHECK_EQUAL(q.size(), 4);
  failure(error_code::deadline_exceeded, [&] { q.enqueue(0s, 9); });
  test::check_elements(q.dequeue_many(0s, 4), {0, 1, 2, 3});
  BOOST_CHECK_EQUAL(q.waiting(), 0u);
}

// Memory is taken for elements that there are: a capacity may be as large as a program likes.
BOOST_AUTO_TEST_CASE(a_large_capacity_takes_no_memory) {
  fifo_queue<int> q(std::numeric_limits<std::int64_t>::max());
  auto many = std::async(std::launch::async, [&] { return code_of([&] { q.dequeue_many(300ms, 1000); }); });
  await_waiting(q, 1);
  for (int i = 0; i < 40; ++i) q.enqueue(0s, i);
  BOOST_CHECK(many.get() == error_code::deadline_exceeded);
  BOOST_CHECK_EQUAL(q.size(), 40);
  for (int i = 0; i < 40; ++i) BOOST_CHECK_EQUAL(q.dequeue(0s), i);
  failure(error_code::deadline_exceeded, [&] { q.dequeue(std::chrono::hours::min()); });
}

BOOST_AUTO_TEST_CASE(who_gives_up_lets_those_behind_go_on) {
  fifo_queue<std::int32_t> q(10);
  q.enqueue_many(0s, tensor<std::int32_t, dims<2>>{1, 2});
  auto many = std::async(std::launch::async, [&] { return code_of([&] { q.dequeue_many(200ms, 5); }); });
  await_waiting(q, 1);
  auto one = std::async(std::launch::async, [&] { return q.dequeue(long_); });
  await_waiting(q, 2);
  BOOST_CHECK(many.get() == error_code::deadline_exceeded);
  BOOST_CHECK_EQUAL(one.get(), 1);
  BOOST_CHECK_EQUAL(q.dequeue(0s), 2);

  // And of two that wait to enqueue before a close.
  fifo_queue<std::int32_t> full(1);
  full.enqueue(0s, 1);
  auto late = std::async(std::launch::async, [&] { return code_of([&] { full.enqueue(200ms, 2); }); });
  await_waiting(full, 1);
  full.close();
  BOOST_CHECK(!full.is_closed());
  failure(error_code::cancelled, [&] { full.enqueue(long_, 3); });
  failure(error_code::cancelled, [&] { full.close(); });
  BOOST_CHECK(late.get() == error_code::deadline_exceeded);
  BOOST_CHECK(full.is_closed());
  BOOST_CHECK_EQUAL(full.dequeue(0s), 1);
  failure(error_code::out_of_range, [&] { full.dequeue(long_); });
}

BOOST_AUTO_TEST_CASE(a_close_wakes_all_that_wait) {
  for (const bool cancel : {false, true}) {
    fifo_queue<std::int32_t> empty(2), full(1);
    full.enqueue(0s, 0);
    std::vector<std::future<error_code>> calls;
    for (int i = 0; i < 8; ++i) {
      calls.push_back(std::async(std::launch::async, [&] { return code_of([&] { empty.dequeue_many(long_, 3); }); }));
      if (cancel)
        calls.push_back(std::async(std::launch::async, [&] { return code_of([&] { full.enqueue(long_, 1); }); }));
    }
    await_waiting(empty, 8);
    if (cancel) await_waiting(full, 8);
    empty.close(cancel);
    full.close(cancel);
    for (std::size_t i = 0; i < calls.size(); ++i)
      BOOST_CHECK(calls[i].get() == (cancel && i % 2 == 1 ? error_code::cancelled : error_code::out_of_range));
    BOOST_CHECK_EQUAL(full.size(), 1);
  }
}

// ---- many threads ----

BOOST_AUTO_TEST_CASE(threads_lose_nothing_and_get_nothing_twice) {
  constexpr int threads = 4;
  constexpr std::int32_t each = 600;
  const auto check = [&](auto q) {
    std::vector<std::atomic<int>> seen(threads * each);
    std::atomic<int> batches_torn{0};
    std::vector<std::thread> all;
    std::atomic<int> producing{threads};
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        for (std::int32_t i = 0; i < each; i += 4) {
          tensor<std::int32_t, dims<4>> some;
          for (std::int32_t k = 0; k < 4; ++k) some(k) = t * each + i + k;
          if (i % 8 == 0)
            q.enqueue_many(long_, some);
          else
            for (const std::int32_t v : some) q.enqueue(long_, v);
          if (i % 64 == 0) code_of([&] { q.dequeue_many(0s, 5000); });  // gives all back
        }
        if (--producing == 0) q.close();
      });
      all.emplace_back([&, t] {
        try {
          for (;;) {
            if (t % 2 == 0) {
              ++seen[static_cast<std::size_t>(q.dequeue(long_))];
            } else {
              for (const std::int32_t v : std::as_const(q).dequeue_up_to(long_, 7)) ++seen[static_cast<std::size_t>(v)];
            }
          }
        } catch (const error& e) {
          if (e.code() != error_code::out_of_range) ++batches_torn;
        }
      });
    }
    for (std::thread& t : all) t.join();
    BOOST_CHECK_EQUAL(batches_torn.load(), 0);
    BOOST_CHECK_EQUAL(q.size(), 0);
    BOOST_CHECK(std::all_of(seen.begin(), seen.end(), [](const std::atomic<int>& n) { return n == 1; }));
  };
  check(fifo_queue<std::int32_t>(5));
  check(fifo_queue<std::int32_t>());
  check(random_shuffle_queue<std::int32_t>(20, 5));
}

BOOST_AUTO_TEST_CASE(one_producer_and_one_consumer_keep_the_order_of_batches) {
  fifo_queue<std::int32_t, tensor<float, dims<2>>> q(3);
  std::thread producer([&] {
    for (std::int32_t i = 0; i < 2000; ++i) q.enqueue(long_, i, tensor<float, dims<2>>{float(i), 1});
    q.close();
  });
  std::int32_t next = 0;
  bool right = true;
  try {
    while (true) {
      const auto [n, x] = q.dequeue_up_to(long_, 1 + next % 7);
      for (std::int64_t i = 0; i < n.extent(0); ++i, ++next) right = right && n(i) == next && x(i, 0) == float(next);
    }
  } catch (const error& e) {
    BOOST_CHECK(e.code() == error_code::out_of_range);
  }
  producer.join();
  BOOST_CHECK(right);
  BOOST_CHECK_EQUAL(next, 2000);
}

// ---- shared by name ----

BOOST_AUTO_TEST_CASE(one_name_in_one_container_is_one_queue) {
  using queue = fifo_queue<tensor<float, dims<2>>>;
  const queue_options shared{.shared_name = "shared", .container = "test"};
  queue a(3, shared), b(3, shared), other(3, {.shared_name = "shared", .container = "other"}), own(3);
  a.enqueue(0s, tensor<float, dims<2>>{1, 2});
  BOOST_CHECK_EQUAL(b.size(), 1);
  BOOST_CHECK_EQUAL(other.size() + own.size(), 0);
  BOOST_CHECK_EQUAL(b.name(), "shared");
  // core/kernels/fifo_queue.cc, MatchesNodeDef
  const std::string text = failure(error_code::invalid_argument, [&] { queue(4, shared); });
  BOOST_CHECK(contains(text, "of capacity 3") && contains(text, "of capacity 4"));
  BOOST_CHECK(contains(failure(error_code::invalid_argument, [&] { fifo_queue<tensor<float, dims<3>>>(3, shared); }),
                       "float[2]"));
  failure(error_code::invalid_argument, [&] { fifo_queue<tensor<double, dims<2>>>(3, shared); });
  failure(error_code::invalid_argument, [&] { random_shuffle_queue<tensor<float, dims<2>>>(3, 1, shared); });
  failure(error_code::invalid_argument, [&] { critical_section{shared}; });
  const queue_options drawn{.shared_name = "drawn", .container = "test", .seed = 1};
  random_shuffle_queue<float> first(3, 1, drawn);
  failure(error_code::invalid_argument, [&] { random_shuffle_queue<float>(3, 2, drawn); });

  // A reset wakes all, and the name is free.
  auto taken = std::async(std::launch::async, [&] { return code_of([&] { a.dequeue_many(long_, 2); }); });
  await_waiting(a, 1);
  auto put = std::async(std::launch::async, [&] { return code_of([&] { first.dequeue(long_); }); });
  await_waiting(first, 1);
  reset_containers({"test"});
  BOOST_CHECK(taken.get() == error_code::cancelled);
  BOOST_CHECK(put.get() == error_code::cancelled);
  BOOST_CHECK(contains(failure(error_code::cancelled, [&] { a.enqueue(0s, tensor<float, dims<2>>{1, 2}); }), "reset"));
  queue again(4, shared);
  BOOST_CHECK_EQUAL(again.size(), 0);
  BOOST_CHECK(!again.is_closed() && !other.is_closed());
  reset_containers({"test", "other"});
  BOOST_CHECK(other.is_closed());
}

// ---- critical sections ----

BOOST_AUTO_TEST_CASE(one_thread_at_a_time_is_in_a_critical_section) {
  const critical_section section({.name = "table"}), same = section;
  int counter = 0;  // not atomic: ThreadSanitizer looks
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) same.execute(long_, [&] { ++counter; });
    });
  for (std::thread& t : threads) t.join();
  BOOST_CHECK_EQUAL(counter, 800);
  BOOST_CHECK_EQUAL(section.execute(long_, [&] { return counter; }), 800);

  auto held = section.acquire(long_);
  BOOST_CHECK(contains(failure(error_code::deadline_exceeded, [&] { (void)section.acquire(soon); }),
                       "table: timed out: another"));
  held.release();
  held.release();
  auto again = section.acquire(0s);
  auto moved = std::move(again);
  failure(error_code::deadline_exceeded, [&] { (void)section.acquire(0s); });
  BOOST_CHECK_THROW(section.execute(0s, [] { throw 1; }), error);
  moved = critical_section().acquire(0s);
  BOOST_CHECK_THROW(section.execute(0s, [] { throw 1; }), int);
  (void)section.acquire(0s);  // which it has left

  const queue_options shared{.shared_name = "mutex", .container = "sections"};
  const critical_section first(shared), second(shared);
  const auto inside = first.acquire(0s);
  failure(error_code::deadline_exceeded, [&] { (void)second.acquire(0s); });
  auto waits = std::async(std::launch::async, [&] { return code_of([&] { (void)second.acquire(long_); }); });
  std::this_thread::sleep_for(5ms);
  reset_containers({"sections"});
  BOOST_CHECK(waits.get() == error_code::cancelled);
  failure(error_code::cancelled, [&] { (void)second.acquire(0s); });
}

// ---- queue runners: python/training/queue_runner_impl.py ----

BOOST_AUTO_TEST_CASE(the_last_runner_to_end_closes_the_queue) {
  fifo_queue<std::int32_t> q(5);
  std::atomic<std::int32_t> next{0};
  coordinator together;
  queue_runner runner(q, 3, [&] {
    const std::int32_t n = next++;
    if (n >= 100) throw error(error_code::out_of_range, "source", "has ended");
    q.enqueue(long_, n);
  });
  runner.start(together);
  failure(error_code::failed_precondition, [&] { runner.start(together); });
  int seen = 0;
  BOOST_CHECK(code_of([&] {
                while (true) q.dequeue(long_), ++seen;
              }) == error_code::out_of_range);
  BOOST_CHECK_EQUAL(seen, 100);
  BOOST_CHECK(!together.should_stop());  // the end of the data is no reason to
  together.join(long_);
  failure(error_code::invalid_argument, [&] { queue_runner(q, 0, [] {}); });
}

BOOST_AUTO_TEST_CASE(a_stop_ends_runners_that_wait) {
  fifo_queue<std::int32_t> q(1);
  coordinator together;
  queue_runner(q, {[&] { q.enqueue(long_, 1); }, [&] { q.enqueue(long_, 2); }}).start(together);
  await_waiting(q, 2);
  together.request_stop();
  together.join(long_);  // throws nothing
  BOOST_CHECK(q.is_closed());
  bool told = false;
  together.when_stopped([&] { told = true; });
  BOOST_CHECK(told);
}

BOOST_AUTO_TEST_CASE(what_fails_in_a_runner_is_what_join_throws) {
  fifo_queue<std::int32_t> q(1);
  coordinator together;
  queue_runner(q, {[&] { q.enqueue(long_, 1); },
                   [&] {
                     while (q.waiting() == 0) std::this_thread::sleep_for(100us);
                     throw error(error_code::data_loss, "reader", "broken");
                   }})
      .start(together);
  BOOST_CHECK(together.wait_for_stop(long_));
  failure(error_code::data_loss, [&] { together.join(long_); });
  BOOST_CHECK(q.is_closed());
}

BOOST_AUTO_TEST_CASE(workers_end_a_parameter_server_by_a_queue_of_tokens) {
  constexpr int workers = 3, servers = 2;
  const auto done = [](int server) {
    return fifo_queue<std::int32_t>(workers,
                                    {.shared_name = "done_queue" + std::to_string(server), .container = "done"});
  };
  std::vector<std::thread> tasks;
  std::atomic<int> working{workers}, ended_early{0};
  for (int s = 0; s < servers; ++s)
    tasks.emplace_back([&, s] {
      const auto tokens = done(s);
      for (int w = 0; w < workers; ++w) tokens.dequeue(long_);
      ended_early += working.load();
    });
  for (int w = 0; w < workers; ++w)
    tasks.emplace_back([&] {
      --working;
      for (int s = 0; s < servers; ++s) done(s).enqueue(long_, 1);
    });
  for (std::thread& t : tasks) t.join();
  BOOST_CHECK_EQUAL(ended_early.load(), 0);
  reset_containers({"done"});
}

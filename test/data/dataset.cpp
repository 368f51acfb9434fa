// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <weft/data/dataset.hpp>
#include <weft/deadline.hpp>
#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "errors.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::says;

namespace {

constexpr int width = 3;

/// Example i is {i, i + 1, i + 2} / 255 with label i.
auto numbers(int count) {
  std::vector<std::uint8_t> values;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < width; ++j) values.push_back(static_cast<std::uint8_t>(i + j));
    labels.push_back(i);
  }
  return data::from_tensors(data::scaled<dims<width>>(values), labels);
}

/// The numbers from 0 on, one after the other, which cannot be reached by number.
auto counted(int count) {
  return data::from_generator(
      [count] { return [count, i = 0]() mutable { return i < count ? std::optional(i++) : std::nullopt; }; });
}

template <class Iteration>
std::vector<int> last_feature(Iteration&& d) {
  std::vector<int> all;
  for (const auto& e : d) all.push_back(std::get<std::tuple_size_v<std::remove_cvref_t<decltype(e)>> - 1>(e));
  return all;
}

std::vector<int> iota(int count, int first = 0) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

#define SAME(a, b)                                               \
  do {                                                           \
    const auto left = (a), right = (b);                          \
    BOOST_TEST(left == right, boost::test_tools::per_element()); \
  } while (false)

}  // namespace

// ---- in memory ----

BOOST_AUTO_TEST_CASE(batches_hold_every_example_and_the_last_is_what_is_left) {
  std::vector<std::int64_t> sizes;
  std::int32_t next = 0;
  for (auto [x, y] : numbers(10).batches(4)) {
    static_assert(std::is_same_v<decltype(x), tensor<float, dims<dyn<"batch">, width>>>);
    static_assert(std::is_same_v<decltype(y), tensor<std::int32_t, dims<dyn<"batch">>>>);
    sizes.push_back(x.extent(0));
    BOOST_TEST(x.extent(1) == width);
    BOOST_TEST(y.extent(0) == x.extent(0));
    for (std::int64_t i = 0; i < x.extent(0); ++i, ++next) {
      BOOST_TEST(y(i) == next);
      for (int j = 0; j < width; ++j) BOOST_TEST(x(i, j) == static_cast<float>(next + j) / 255.0f);
    }
  }
  SAME(sizes, (std::vector<std::int64_t>{4, 4, 2}));
  BOOST_TEST(numbers(10).batches(4).size() == 3u);
  BOOST_TEST(numbers(10).batches(4, data::last_batch::dropped).size() == 2u);
}

BOOST_AUTO_TEST_CASE(batches_reuse_their_tensors_unless_they_are_kept) {
  const auto places = [](const auto& d) {
    std::set<const float*> all;
    for (auto [x, y] : d.batches(10)) all.insert(std::as_const(x).data());
    return all.size();
  };
  BOOST_TEST(places(numbers(100)) == 1u);
  BOOST_TEST(places(numbers(100).filter([](const auto&, int) { return true; })) <= 2u);

  std::vector<tensor<std::int32_t, dims<dyn<"batch">>>> kept;
  for (auto [x, y] : numbers(30).batches(10)) kept.push_back(y);
  for (int i = 0; i < 3; ++i) BOOST_TEST(std::as_const(kept[static_cast<std::size_t>(i)])(0) == 10 * i);
}

BOOST_AUTO_TEST_CASE(no_examples_make_no_batch) {
  for (auto [x, y] : numbers(0).batches(4)) BOOST_ERROR("a batch of nothing");
  for (const auto& e [[maybe_unused]] : counted(0).batches(4)) BOOST_ERROR("a batch of nothing");
  for (const auto& e [[maybe_unused]] : counted(0).repeat()) BOOST_ERROR("an element of nothing");
  BOOST_CHECK_THROW(numbers(4).batches(0), error);
}

BOOST_AUTO_TEST_CASE(a_batch_larger_than_its_stream_takes_memory_for_what_there_is) {
  constexpr std::int64_t many = 1'000'000'000'000;  // some terabytes
  for (auto [i] : counted(5).batches(many)) SAME(std::vector<int>(i.begin(), i.end()), iota(5));
  for (auto [i] : counted(5).padded_batches(many)) SAME(std::vector<int>(i.begin(), i.end()), iota(5));
  for (auto [x, y] : numbers(70).filter([](const auto&, int) { return true; }).batches(many)) {
    BOOST_TEST(x.extent(0) == 70);
    for (int k = 0; k < 70; ++k) BOOST_TEST((y(k) == k && x(k, 1) == static_cast<float>(k + 1) / 255.0f));
  }
  for (const auto& e [[maybe_unused]] : counted(5).batches(many, data::last_batch::dropped))
    BOOST_ERROR("a batch that is not full");
}

// The -1 of tf.data: repeat without end, all elements, a number that the library chooses.
BOOST_AUTO_TEST_CASE(negative_counts_mean_what_they_do_in_tensorflow_or_are_refused) {
  const auto rows = data::from_tensors(iota(5));
  for (const auto& d : {rows, counted(5)}) {
    SAME(last_feature(d.repeat(-1).take(12)), last_feature(d.repeat().take(12)));
    BOOST_TEST(!d.repeat(-1).has_size());
    BOOST_TEST(last_feature(d.repeat(0)).empty());
    SAME(last_feature(d.take(-1)), iota(5));
    BOOST_TEST(last_feature(d.skip(-1)).empty());
    SAME(last_feature(d.prefetch(-1)), iota(5));
    SAME(last_feature(d.map([](int i) { return i; }, -1).prefetch(-1)), iota(5));
  }
  const auto none = counted(5).filter([](int) { return false; });
  BOOST_TEST(last_feature(none.repeat(-1)).empty());
  // The largest count of an unsigned type is not -1.
  BOOST_TEST(rows.repeat(std::numeric_limits<std::uint64_t>::max()).has_size());

  const auto refused = [](auto make, const std::string& words) {
    BOOST_CHECK_EXCEPTION(make(), error, says(error_code::invalid_argument, words));
  };
  refused([&] { return rows.repeat(-2); }, "at least 0, or -1 for all, but is -2");
  refused([&] { return rows.take(-2); }, "take: ");
  refused([&] { return rows.skip(-3); }, "the count must be at least 0, or -1 for all, but is -3");
  refused([&] { return rows.batches(-1); }, "the count must be at least 1, but is -1");
  refused([&] { return rows.padded_batches(-1); }, "padded_batches: ");
  refused([&] { return rows.padded_batches(0); }, "the count must be at least 1, but is 0");
  refused([&] { return rows.prefetch(0); }, "but is 0");
  refused([&] { return rows.prefetch(-2); }, "the count must be at least 0, or -1 for all, but is -2");
  refused([&] { return rows.prefetch(1'000'000'000'000); }, "but is 1000000000000");
  refused([&] { return rows.map([](int i) { return i; }, 0); },
          "threads must be 1 to 1024, or -1 for one per core, but is 0");
  refused([&] { return rows.map([](int i) { return i; }, 1'000'000); }, "threads must be 1 to 1024");
  refused([&] { return rows.shard(-1, 2); }, "but is -1, and the count is 2");
  refused([&] { return rows.shard(0, -1); }, "but is 0, and the count is -1");
  refused([&] { return rows.shard(0, 0); }, "but is 0, and the count is 0");
}

BOOST_AUTO_TEST_CASE(elements_are_tuples_of_tensors_numbers_and_texts) {
  tensor<float, dims<dyn<"n">, 2>> pairs(shape(3, 2), {1, 2, 3, 4, 5, 6});
  const auto d = data::from_tensors(pairs, std::vector<std::string>{"a", "b", "c"}, std::vector<double>{.1, .2, .3});
  std::string all;
  for (const auto& [pair, text, number] : d.shuffled(2)) {
    static_assert(std::is_same_v<decltype(pair), const tensor<float, dims<2>>>);
    const auto row = static_cast<int>(number * 10 + 0.5) - 1;
    BOOST_TEST(pair(1) == static_cast<float>(2 * row + 2));
    BOOST_TEST(text == std::string(1, static_cast<char>('a' + row)));
    all += text;
  }
  BOOST_TEST(all.size() == 3u);
  for (const auto& [pair, text, number] : d.batches(2)) {
    BOOST_TEST(text.size() == static_cast<std::size_t>(pair.extent(0)));
    BOOST_TEST(text[0] == (pair.extent(0) == 2 ? "a" : "c"));
  }
  for (const auto& [pair, text, number] : d.batches<2>()) {
    static_assert(std::is_same_v<decltype(pair), const tensor<float, dims<2, 2>>>);
    BOOST_TEST(pair(1, 1) == 4);
  }
  BOOST_CHECK_EXCEPTION(data::from_tensors(pairs, std::vector<int>(4)), error,
                        says(error_code::invalid_argument, "feature 0 has 3 elements, but feature 1 has 4"));
  BOOST_CHECK_THROW(data::scaled<dims<3>>(std::vector<std::uint8_t>(4)), error);
}

BOOST_AUTO_TEST_CASE(a_shuffle_is_a_permutation_of_seed_and_epoch_alone) {
  const auto d = numbers(200);
  const auto once = last_feature(d.shuffled(1, 2));
  SAME(once, last_feature(numbers(200).shuffled(1, 2)));
  BOOST_TEST((once != last_feature(d.shuffled(1, 3))));
  BOOST_TEST((once != last_feature(d.shuffled(2, 2))));
  BOOST_TEST((once != iota(200)));
  SAME(once, last_feature(d.shuffled(1).epoch(2)));
  auto sorted = once;
  std::sort(sorted.begin(), sorted.end());
  SAME(sorted, iota(200));
  // The bits themselves: they may not change from one release to the next.
  SAME(last_feature(numbers(8).shuffled(1)), (std::vector<int>{4, 3, 1, 2, 0, 6, 5, 7}));
}

BOOST_AUTO_TEST_CASE(a_shuffle_favours_no_place) {
  std::vector<int> first(10);
  const auto d = numbers(10).shuffled(7);
  for (std::uint64_t epoch = 0; epoch < 10'000; ++epoch)
    ++first[static_cast<std::size_t>(std::get<1>(*d.epoch(epoch).begin()))];
  for (int count : first) BOOST_TEST((count > 850 && count < 1150));
}

BOOST_AUTO_TEST_CASE(shards_are_disjoint_and_whole) {
  for (const bool streamed : {false, true}) {
    auto d = numbers(11).shuffled(5);
    if (streamed) d = d.filter([](const auto&, int) { return true; });
    std::multiset<int> seen;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto part = last_feature(d.shard(i, 3));
      BOOST_TEST((part.size() == 3 || part.size() == 4));
      seen.insert(part.begin(), part.end());
    }
    const auto all = iota(11);
    SAME(seen, std::multiset<int>(all.begin(), all.end()));
    BOOST_CHECK_THROW(d.shard(3, 3), error);
  }
}

BOOST_AUTO_TEST_CASE(together_the_shards_batches_are_the_whole_ones) {
  // A synchronous step on two workers sees what a single process sees on a batch of twice the size.
  const auto d = numbers(40).shuffled(9);
  const auto all = last_feature(d), a = last_feature(d.shard(0, 2)), b = last_feature(d.shard(1, 2));
  std::multiset<int> whole(all.begin() + 20, all.end()), halves(a.begin() + 10, a.end());
  halves.insert(b.begin() + 10, b.end());
  SAME(whole, halves);
}

// ---- stages ----

BOOST_AUTO_TEST_CASE(stages_of_streams_and_of_rows_agree) {
  const auto rows = data::from_tensors(iota(23));
  const auto stream = counted(23);
  const auto both = [&](auto stages) {
    const auto expected = last_feature(stages(rows));
    SAME(last_feature(stages(stream)), expected);
    SAME(last_feature(stages(stream.cache())), expected);
    SAME(last_feature(stages(stream.prefetch(3))), expected);
    SAME(last_feature(stages(rows.map([](int i) { return i; }, 3))), expected);
    SAME(last_feature(stages(stream.map([](int i) { return i; }, 3))), expected);
    return expected;
  };
  SAME(both([](auto d) { return d; }), iota(23));
  SAME(both([](auto d) { return d.take(5); }), iota(5));
  SAME(both([](auto d) { return d.skip(20); }), (std::vector<int>{20, 21, 22}));
  SAME(both([](auto d) { return d.skip(30); }), std::vector<int>());
  SAME(both([](auto d) { return d.shard(2, 10); }), (std::vector<int>{2, 12, 22}));
  SAME(both([](auto d) { return d.filter([](int i) { return i % 10 == 1; }); }), (std::vector<int>{1, 11, 21}));
  SAME(both([](auto d) { return d.map([](int i) { return std::pair(0.5f, 2 * i); }).take(3); }),
       (std::vector<int>{0, 2, 4}));
  SAME(both([](auto d) { return zip(d, d.skip(20)).map([](int a, int b) { return 100 * a + b; }); }),
       (std::vector<int>{20, 121, 222}));
  BOOST_TEST(both([](auto d) { return d.take(4).repeat(3); }).size() == 12u);
  const auto sum = [](const tensor<int, dims<dyn<"batch">>>& x) { return static_cast<int>(weft::sum(x)); };
  SAME(both([&](auto d) { return d.batches(10).map(sum); }), (std::vector<int>{45, 145, 63}));
  SAME(both([&](auto d) { return d.batches(10, data::last_batch::dropped).map(sum); }), (std::vector<int>{45, 145}));
  SAME(both([&](auto d) { return d.template batches<10>().map([](const tensor<int, dims<10>>& x) { return x(9); }); }),
       (std::vector<int>{9, 19}));
  auto buffered = both([](auto d) { return d.shuffled(3, data::shuffle_buffer{5}); });
  for (int i = 0; i < 23; ++i) BOOST_TEST(buffered[static_cast<std::size_t>(i)] <= i + 4);  // it is read 4 ahead
  BOOST_TEST((buffered != iota(23)));
  std::sort(buffered.begin(), buffered.end());
  SAME(buffered, iota(23));
}

BOOST_AUTO_TEST_CASE(sizes_are_known_where_they_can_be) {
  const auto rows = data::from_tensors(iota(23));
  BOOST_TEST(rows.repeat(2).batches(10).size() == 5u);
  BOOST_TEST(rows.map([](int i) { return i; }).shard(0, 2).prefetch(2).size() == 12u);
  BOOST_TEST(!rows.repeat().has_size());
  BOOST_CHECK_EXCEPTION(counted(3).size(), error, says(error_code::failed_precondition, "cache()"));
  BOOST_TEST(counted(3).cache().size() == 3u);
  BOOST_CHECK_EXCEPTION(counted(3).shuffled(1), error, says(error_code::failed_precondition, "shuffle_buffer"));
  const auto [most, rest] = rows.split(0.9);
  BOOST_TEST(most.size() == 21u);
  SAME(last_feature(rest), (std::vector<int>{21, 22}));
}

BOOST_AUTO_TEST_CASE(repeating_shuffles_anew) {
  const auto d = data::from_tensors(iota(50)).shuffled(4);
  const auto all = last_feature(d.repeat(3));
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(50 * epoch);
    SAME(std::vector<int>(begin, begin + 50), last_feature(d.epoch(epoch)));
  }
  const auto without_end = last_feature(d.repeat().take(150));
  SAME(without_end, all);
  SAME(last_feature(d.cache().repeat(2).skip(50)), last_feature(d.epoch(0)));  // cached elements stay
}

BOOST_AUTO_TEST_CASE(padding_fills_up_to_the_largest) {
  using row = tensor<std::int32_t, dims<dyn<"length">>>;
  const auto rows = data::from_tensors(iota(4)).map([](int i) {
    row r(shape(i), uninitialized{});
    for (int k = 0; k < i; ++k) r(k) = 10 * i + k;
    return std::tuple(r, static_cast<float>(i));
  });
  const auto check = [](const auto& d) {
    std::vector<int> all;
    for (const auto& [x, y] : d.padded_batches(3, -1, 0)) {
      static_assert(std::is_same_v<decltype(x), const tensor<std::int32_t, dims<dyn<"batch">, dyn<"length">>>>);
      all.push_back(static_cast<int>(x.extent(1)));
      all.insert(all.end(), x.begin(), x.end());
    }
    SAME(all, (std::vector<int>{2, -1, -1, 10, -1, 20, 21, 3, 30, 31, 32}));
  };
  check(rows);
  check(rows.filter([](const auto&, float) { return true; }));
  check(rows.cache());
  BOOST_CHECK_EXCEPTION(last_feature(rows.batches(4).map([](auto, auto) { return 0; })), error,
                        says(error_code::invalid_argument, "padded_batches"));
  // Along two axes.
  const auto squares = data::from_tensors(iota(3)).map([](int i) {
    tensor<float, dims<dyn<"h">, dyn<"w">>> x(shape(i, 3 - i));
    std::fill_n(x.data(), x.elements(), static_cast<float>(i));
    return x;
  });
  for (const auto& [x] : squares.padded_batches(3)) {
    BOOST_TEST((x.extents() == shape(3, 2, 3)));
    SAME(std::vector<float>(x.begin(), x.end()),
         (std::vector<float>{0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 2, 0, 0, 2, 0, 0}));
  }
}

BOOST_AUTO_TEST_CASE(functions_may_return_expressions_and_ask_for_the_position) {
  const auto d = numbers(9);
  for (const auto& [x] : d.batches(9).map([](const auto& x, const auto&) { return x * 255.0f; })) {
    static_assert(std::is_same_v<decltype(x), const tensor<float, dims<dyn<"batch">, width>>>);
    BOOST_TEST(x(8, 0) == 8);
  }
  const auto place = [](const data::position& p, const auto&, int label) {
    return static_cast<int>(100 * p.epoch + 10 * p.element) + label;
  };
  for (const int threads : {1, 3})
    for (const auto& source : {d, d.filter([](const auto&, int) { return true; })})
      SAME(last_feature(source.map(place, threads).take(3).epoch(2)), (std::vector<int>{200, 211, 222}));
}

// ---- positions ----

BOOST_AUTO_TEST_CASE(an_iteration_goes_on_where_it_was) {
  const auto check = [](const auto& d, std::uint64_t epoch) {
    const auto all = last_feature(d.epoch(epoch));
    BOOST_TEST(all.size() > 3u);
    for (std::size_t k = 0; k <= all.size(); ++k) {
      data::position at{epoch, 0};
      if (k > 0) {
        auto i = d.epoch(epoch).begin();
        for (std::size_t n = 1; n < k; ++n) ++i;
        at = i.position();
      }
      BOOST_TEST((at == data::position{epoch, k}));
      SAME(last_feature(d.from(at)), std::vector<int>(all.begin() + static_cast<std::ptrdiff_t>(k), all.end()));
    }
  };
  const auto rows = data::from_tensors(iota(11));
  const auto stream = counted(11);
  const auto first = [](const tensor<int, dims<dyn<"batch">>>& x) { return x(0); };
  check(rows.shuffled(3), 5);
  check(rows.shuffled(3).repeat(2).batches(3).map(first, 2).prefetch(2), 1);
  check(stream.map([](int i) { return i + 1; }, 2).shuffled(3, data::shuffle_buffer{4}), 1);
  check(stream.map([](int i) { return i + 1; }, 2).batches(2).map(first).prefetch(2), 0);
  check(stream.filter([](int i) { return i % 2 == 0; }).repeat(2), 0);
  check(zip(rows, stream).shard(1, 2).repeat(3), 0);
  check(stream.cache().shuffled(1).take(7), 3);
  // Beyond the end, where that is known: the data has shrunk since the position was saved.
  const auto beyond = [](const auto& d, std::uint64_t size) {
    for (const auto& e [[maybe_unused]] : d.from({2, size})) BOOST_ERROR("an element beyond the end");
    BOOST_CHECK_EXCEPTION(
        d.from({2, size + 1}).begin(), error,
        says(error_code::out_of_range,
             "element " + std::to_string(size + 1) + " of epoch 2, which has " + std::to_string(size) + " elements"));
  };
  beyond(rows, 11);
  beyond(rows.shuffled(1).batches(4), 3);
  beyond(stream.cache().map([](int i) { return i; }, 2), 11);
  beyond(rows.repeat(3).prefetch(2), 33);
  // A position may come from anywhere, and far behind the end there is nothing.
  const data::position far{0, std::uint64_t{1} << 63};
  SAME(last_feature(stream.batches(2).map(first).from(far)), iota(0));
  SAME(last_feature(stream.shard(1, 2).from(far)), iota(0));
  SAME(last_feature(stream.skip(~std::size_t{0}).from({0, 5})), iota(0));
  BOOST_TEST(rows.repeat(std::uint64_t{1} << 63).size() == ~std::size_t{0});
}

// ---- threads ----

BOOST_AUTO_TEST_CASE(a_loop_that_nothing_comes_out_of_is_left) {
  const auto late = [](const auto& range) {
    BOOST_CHECK_EXCEPTION(range.begin(20ms), error,
                          says(error_code::deadline_exceeded, "was not ready before the deadline"));
  };
  late(counted(9).repeat().filter([](int) { return false; }).prefetch(2));
  late(data::from_tensors(iota(9)).repeat().filter([](int) { return false; }).map([](int i) { return i; }, 2));
  // Nor does going on from far behind take longer.
  const auto endless = data::from_generator([] { return [] { return std::optional(1); }; });
  late(endless.prefetch(2).from({0, std::uint64_t{1} << 60}));
}

BOOST_AUTO_TEST_CASE(threads_change_no_order) {
  const auto slow = [](int i) {
    std::this_thread::sleep_for(std::chrono::microseconds(i % 7 * 100));
    return 3 * i;
  };
  const auto expected = last_feature(data::from_tensors(iota(60)).shuffled(1).map(slow));
  for (const int threads : {2, 5}) {
    SAME(last_feature(data::from_tensors(iota(60)).map(slow, threads).shuffled(1)), expected);
    SAME(last_feature(data::from_tensors(iota(60)).shuffled(1).prefetch(2).map(slow, threads).prefetch(3)), expected);
  }
  // And they do run at once.
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (const auto& e : data::from_tensors(iota(40)).map(
           [&](int i) {
             std::this_thread::sleep_for(1ms);
             const std::lock_guard lock(mutex);
             threads.insert(std::this_thread::get_id());
             return i;
           },
           4))
    static_cast<void>(e);
  BOOST_TEST(threads.size() > 1u);
}

BOOST_AUTO_TEST_CASE(exceptions_come_out_in_their_place) {
  const auto check = [](const auto& d) {
    std::vector<int> before;
    const auto run = [&] {
      for (const auto& e : d) before.push_back(std::get<0>(e));
    };
    BOOST_CHECK_EXCEPTION(run(), std::runtime_error, [](const auto& e) { return e.what() == std::string("seven"); });
    SAME(before, iota(7));
  };
  const auto seven = [](int i) { return i == 7 ? throw std::runtime_error("seven") : i; };
  const auto rows = data::from_tensors(iota(20));
  check(rows.map(seven));
  check(rows.map(seven, 3));
  check(counted(20).map(seven, 3).prefetch(2).map([](int i) { return i; }, 2));
  check(data::from_generator([seven] {
          return [i = 0, seven]() mutable { return std::optional(seven(i++)); };
        }).prefetch(3));
  check(counted(20).filter([seven](int i) { return seven(i) >= 0; }).prefetch(3));
  const auto cached = counted(20).map(seven).cache();
  for (int i = 0; i < 2; ++i) BOOST_CHECK_THROW(cached.size(), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(leaving_early_stops_all_threads) {
  // Every copy of the function is gone when the iterator is.
  const auto alive = std::make_shared<int>(0);
  {
    const auto without_end =
        data::from_generator([alive] { return [i = 0, alive]() mutable { return std::optional(i++); }; });
    const auto d =
        without_end.map([alive](int i) { return i; }, 3).prefetch(4).shuffled(1, data::shuffle_buffer{3}).prefetch(2);
    for (int times = 0; times < 20; ++times)
      for (const auto& e : d) {
        static_cast<void>(e);
        break;
      }
    {
      auto never_gone_on = d.begin();
    }
    // While a cache is being filled, which would take for ever.
    const auto cached = without_end.cache().prefetch(1);
    BOOST_CHECK_EXCEPTION(cached.begin(20ms), error, says(error_code::deadline_exceeded));
  }
  BOOST_TEST(alive.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(a_deadline_ends_the_wait_and_nothing_else) {
  std::atomic<bool> open = false;
  const auto d = counted(6)
                     .map(
                         [&](int i) {
                           while (i == 3 && !open) std::this_thread::sleep_for(1ms);
                           return i;
                         },
                         2)
                     .batches(2)
                     .map([](const tensor<int, dims<dyn<"batch">>>& x) { return x(0) + 10 * x(1); });
  auto i = d.begin(deadline(10s));
  BOOST_TEST(std::get<0>(*i) == 10);
  BOOST_CHECK_EXCEPTION(i.advance(20ms), error, says(error_code::deadline_exceeded, "element 3"));
  open = true;
  BOOST_TEST(i.advance(10s));
  BOOST_TEST(std::get<0>(*i) == 32);
  BOOST_TEST(i.advance(10s));
  BOOST_TEST(!i.advance(10s));
}

BOOST_AUTO_TEST_CASE(a_time_limit_is_a_duration_or_a_deadline) {
  const auto slow = data::from_tensors(iota(3))
                        .map([](int i) {
                          std::this_thread::sleep_for(200ms);
                          return i;
                        })
                        .prefetch(1);
  const auto late = says(error_code::deadline_exceeded, "was not ready before the deadline");
  for (const data::time_limit& within :
       {data::time_limit(20ms), data::time_limit(0.02s), data::time_limit(deadline(20ms)), data::time_limit(-1h),
        data::time_limit(std::chrono::nanoseconds::min())}) {
    const auto start = std::chrono::steady_clock::now();
    BOOST_CHECK_EXCEPTION(slow.begin(within), error, late);
    BOOST_TEST((std::chrono::steady_clock::now() - start < 5s));
  }
  // Those that no clock reaches are no limit.
  for (const data::time_limit& within :
       {data::time_limit(std::chrono::hours::max()), data::time_limit(1e300 * 1s), data::time_limit(deadline::never())})
    BOOST_TEST(std::get<0>(*slow.begin(within)) == 0);
}

BOOST_AUTO_TEST_CASE(an_iterator_can_be_moved) {
  const auto d = data::from_tensors(iota(3), std::vector<std::string>{"zero", "one", "two"});
  auto first = d.begin();
  auto second = std::move(first);
  BOOST_TEST(std::get<1>(*second) == "zero");
  first = d.begin();
  ++second;
  first = std::move(second);
  BOOST_TEST(std::get<1>(*first) == "one");
  BOOST_TEST((first.position() == data::position{0, 2}));
  ++first, ++first;
  second = std::move(first);
  BOOST_TEST((second == d.end()));
  // The threads of an iteration end before its dataset does.
  const auto alive = std::make_shared<int>(0);
  const auto working = [&] { return counted(1000).map([alive](int i) { return i + *alive; }, 2).prefetch(2); };
  auto replaced = working().begin();
  replaced = working().begin();
  BOOST_TEST(std::get<0>(*replaced) == 0);
  BOOST_TEST(alive.use_count() == 2);
}

BOOST_AUTO_TEST_CASE(features_whose_extents_are_of_another_integer_type_are_the_same_features) {
  using pairs = tensor<float, dims<std::size_t{2}>>;
  const data::dataset<pairs, int> d =
      counted(3).map([](int i) { return std::pair(pairs{static_cast<float>(i), 1}, i); });
  int seen = 0;
  for (auto [x, i] : d) {
    BOOST_TEST(x(0) == static_cast<float>(i));
    ++seen;
  }
  BOOST_TEST(seen == 3);
}

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>
#include <weft/distributed/all_reduce.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

template <typename T, typename Work>
std::vector<std::string> run(int ranks, Work work, const server_options& options = {}) {
  return test::run_tasks(0, ranks, T{}, work, options);
}

template <typename Element>
std::vector<Element> share_of(std::size_t rank, std::size_t size) {
  std::mt19937_64 random(rank * 7919 + size);
  std::normal_distribution<double> normal;
  std::vector<Element> data(size);
  for (Element& each : data) each = static_cast<Element>(normal(random));
  return data;
}

template <typename Element>
void check(std::size_t ranks, const std::vector<std::vector<Element>>& results, std::size_t size) {
  for (std::size_t rank = 1; rank < ranks; ++rank)
    BOOST_REQUIRE(size == 0 || std::memcmp(results[rank].data(), results[0].data(), size * sizeof(Element)) == 0);
  std::vector<std::vector<Element>> shares;
  for (std::size_t rank = 0; rank < ranks; ++rank) shares.push_back(share_of<Element>(rank, size));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < size; ++i) {
    double exact = 0, magnitude = 0;
    for (const auto& share : shares) {
      exact += static_cast<double>(share[i]);
      magnitude += std::abs(static_cast<double>(share[i]));
    }
    wrong += std::abs(static_cast<double>(results[0][i]) - exact) > magnitude * 1e-6;
    wrong += ranks == 2 && results[0][i] != shares[0][i] + shares[1][i];
  }
  BOOST_TEST(wrong == 0u);
}

template <typename T, typename Element>
void property(std::size_t ranks, const std::vector<std::size_t>& sizes, bool checksum = false) {
  server_options options;
  options.checksum = checksum;
  for (const auto algorithm :
       {reduce_algorithm::ring, reduce_algorithm::recursive_doubling, reduce_algorithm::automatic}) {
    std::vector<std::vector<std::vector<Element>>> results(sizes.size(), std::vector<std::vector<Element>>(ranks));
    const auto problems = run<T>(
        static_cast<int>(ranks),
        [&](basic_server<T>& here) {
          all_reduce_options small_chunks;
          small_chunks.chunk = 1024;
          basic_all_reduce<T> group(here, 7, small_chunks, 20s);
          for (std::size_t i = 0; i < sizes.size(); ++i) {
            auto data = share_of<Element>(group.rank(), sizes[i]);
            group.sum(std::span(data), 20s, algorithm);
            results[i][group.rank()] = std::move(data);
          }
        },
        options);
    for (const std::string& each : problems) BOOST_TEST(each == "");
    if (std::any_of(problems.begin(), problems.end(), [](const std::string& each) { return !each.empty(); })) return;
    for (std::size_t i = 0; i < sizes.size(); ++i) check(ranks, results[i], sizes[i]);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_algorithm_number_of_ranks_and_size) {
  for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
    std::vector<std::size_t> sizes;
    for (std::size_t size = 0; size <= ranks + 3; ++size) sizes.push_back(size);
    sizes.insert(sizes.end(), {255, 256, 257, 3001, 40'000});
    property<in_process, float>(ranks, sizes);
  }
  property<in_process, double>(3, {0, 1, 2, 1000, 5000});
}

BOOST_AUTO_TEST_CASE(over_tcp) {
  for (std::size_t ranks = 2; ranks <= 5; ++ranks)
    property<tcp, float>(ranks, {0, 1, ranks, 1000, 100'001}, ranks % 2 == 0);
}

// In shared memory the order is that of the ranks, whatever their number: what a parameter server does too.
template <typename Element>
void in_shared_memory(std::size_t ranks) {
  const auto problems = run<tcp>(static_cast<int>(ranks), [&](basic_server<tcp>& here) {
    basic_all_reduce<tcp> group(here, 7, {}, 20s);
    if (!group.shares_memory()) throw std::runtime_error("no shared memory");
    for (const std::size_t size : {0u, 1u, 15u, 16u, 17u, 1'000u, 1'024u, 1'025u, 100'003u, 600'001u})
      for (const bool in_block : {false, true})
        for (const bool mean : {false, true}) {
          auto own = share_of<Element>(group.rank(), size);
          std::span<Element> data(own);
          if (in_block && size > 0) {
            const mutable_bytes block = group.shared_block(data.size_bytes(), 20s);
            data = {reinterpret_cast<Element*>(block.data()), size};
            std::copy(own.begin(), own.end(), data.begin());
          }
          if (mean)
            group.mean(data, 20s);
          else
            group.sum(data, 20s);
          std::vector<Element> expected = share_of<Element>(0, size);
          for (std::size_t rank = 1; rank < ranks; ++rank) {
            const auto share = share_of<Element>(rank, size);
            for (std::size_t i = 0; i < size; ++i) expected[i] += share[i];
          }
          if (mean)
            for (Element& each : expected) each /= static_cast<Element>(ranks);
          if (!std::equal(data.begin(), data.end(), expected.begin())) throw std::runtime_error("a wrong sum");
        }
  });
  for (const std::string& each : problems) BOOST_TEST(each == "");
}

BOOST_AUTO_TEST_CASE(shared_memory_sums_rank_after_rank) {
  for (std::size_t ranks = 2; ranks <= 4; ++ranks) in_shared_memory<float>(ranks);
  in_shared_memory<double>(3);
}

BOOST_AUTO_TEST_CASE(one_rank_that_refuses_shared_memory_is_enough) {
  const auto cluster = test::local_cluster(0, 3);
  std::vector<std::thread> threads;
  std::atomic<int> well{0};
  for (int task = 0; task < 3; ++task)
    threads.emplace_back([&, task] {
      server_options options;
      options.shared_memory = task != 1;
      server here(cluster, "worker", task, options);
      all_reduce group(here, 0, {}, 20s);
      std::vector<float> data(1000, 1.0f);
      group.sum(std::span(data), 20s);
      well += !group.shares_memory() && group.shared_block(100, 20s).empty() && data[999] == 3.0f;
    });
  for (std::thread& each : threads) each.join();
  BOOST_TEST(well == 3);
}

BOOST_AUTO_TEST_CASE(ranks_that_disagree_in_shared_memory_are_told) {
  for (int mistake = 0; mistake < 3; ++mistake) {
    const auto problems = run<tcp>(2, [&](basic_server<tcp>& here) {
      basic_all_reduce<tcp> group(here, 0, {}, 20s);
      std::vector<float> data(static_cast<std::size_t>(mistake == 0 ? 10 + here.index() : 500'000));
      const mutable_bytes block = group.shared_block(data.size() * sizeof(float), 20s);
      std::span<float> given(data);
      if (mistake == 2 && here.index() == 1) given = {reinterpret_cast<float*>(block.data()), data.size()};
      if (mistake == 1 && here.index() == 1)
        group.mean(given, 5s);
      else
        group.sum(given, 5s);
    });
    BOOST_TEST((contains(problems[0], "disagrees") || contains(problems[1], "disagrees")));
    for (const std::string& each : problems) BOOST_TEST(each != "");
  }
}

BOOST_AUTO_TEST_CASE(huge_buffers_do_not_deadlock) { property<tcp, float>(2, {3'000'000}); }

BOOST_AUTO_TEST_CASE(the_mean_is_the_sum_divided) {
  run<in_process>(3, [](basic_server<in_process>& here) {
    basic_all_reduce<in_process> group(here, 0, {}, 20s);
    std::vector<float> data(10, static_cast<float>(group.rank()));
    group.mean(std::span(data), 20s);
    if (data[9] != 1.0f) throw std::runtime_error("wrong mean");
  });
}

BOOST_AUTO_TEST_CASE(ranks_that_disagree_are_told) {
  auto problems = run<in_process>(2, [](basic_server<in_process>& here) {
    basic_all_reduce<in_process> group(here, static_cast<std::uint64_t>(here.index()), {}, 20s);
  });
  for (const std::string& each : problems) CHECK_SAYS(each, "does not train the same model");

  problems = run<in_process>(2, [](basic_server<in_process>& here) {
    basic_all_reduce<in_process> group(here, 0, {}, 20s);
    std::vector<float> data(static_cast<std::size_t>(10 + here.index()));
    group.sum(std::span(data), 5s);
  });
  BOOST_TEST((contains(problems[0], "disagree") || contains(problems[1], "disagree")));
}

BOOST_AUTO_TEST_CASE(a_missing_rank_is_named_at_the_deadline) {
  const auto problems = run<in_process>(3, [](basic_server<in_process>& here) {
    basic_all_reduce<in_process> group(here, 0, {}, 20s);
    std::vector<float> data(10);
    if (here.index() == 1)
      std::this_thread::sleep_for(600ms);
    else
      group.sum(std::span(data), 200ms, reduce_algorithm::ring);
  });
  CHECK_SAYS(problems[2], "/job:worker/task:1");
  BOOST_TEST(problems[1] == "");
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_is_named) {
  const auto start = std::chrono::steady_clock::now();
  const auto problems = run<tcp>(3, [](basic_server<tcp>& here) {
    basic_all_reduce<tcp> group(here, 0, {}, 20s);
    std::vector<float> data(1000);
    group.sum(std::span(data), 20s);
    if (here.index() == 1) return;
    for (;;) group.sum(std::span(data), 20s, reduce_algorithm::ring);
  });
  CHECK_SAYS(problems[0], "/job:worker/task:");
  CHECK_SAYS(problems[2], "/job:worker/task:1 has left");
  BOOST_TEST(test::seconds_since(start) < 5);
}

// ---- calls that run out of time ----

namespace {

/// Each rank is late now and then, and repeats what has run out of time.
template <typename T>
void repeat(int ranks, reduce_algorithm algorithm, std::size_t size, bool in_block) {
  std::atomic<int> late{0};
  const auto problems = run<T>(ranks, [&](basic_server<T>& here) {
    all_reduce_options small_chunks;
    small_chunks.chunk = 4096;
    basic_all_reduce<T> group(here, 7, small_chunks, 20s);
    std::vector<float> own(size);
    std::span<float> data(own);
    if (in_block) data = {reinterpret_cast<float*>(group.shared_block(4 * size, 20s).data()), size};
    for (int call = 0; call < 3; ++call) {
      std::fill(data.begin(), data.end(), static_cast<float>(here.index() + call));
      if (call % ranks == here.index()) std::this_thread::sleep_for(80ms);
      for (bool made = false; !made;) try {
          group.sum(data, 25ms, algorithm);
          made = true;
        } catch (const error& problem) {
          if (problem.code() != error_code::deadline_exceeded) throw;
          ++late;
        }
      const float due = static_cast<float>(ranks * (ranks - 1) / 2 + ranks * call);
      for (const float each : data)
        if (each != due) throw std::runtime_error("a wrong sum");
    }
  });
  for (const std::string& each : problems) BOOST_TEST(each == "");
  BOOST_TEST(late > 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_call_that_ran_out_of_time_may_be_repeated) {
  for (const auto algorithm : {reduce_algorithm::ring, reduce_algorithm::recursive_doubling})
    for (const int ranks : {2, 3}) repeat<in_process>(ranks, algorithm, 30'000, false);
  for (const int ranks : {2, 3}) {
    repeat<tcp>(ranks, reduce_algorithm::automatic, 10, false);
    repeat<tcp>(ranks, reduce_algorithm::automatic, 600'000, false);
    repeat<tcp>(ranks, reduce_algorithm::automatic, 600'000, true);
  }
}

BOOST_AUTO_TEST_CASE(nothing_else_may_come_before_it) {
  const auto problems = run<in_process>(2, [&](basic_server<in_process>& here) {
    basic_all_reduce<in_process> group(here, 7, {}, 20s);
    std::vector<float> data(10, 1.0f), other(11, 1.0f);
    if (here.index() == 1) std::this_thread::sleep_for(300ms);
    if (here.index() == 0) {
      test::failure(error_code::deadline_exceeded, [&] { group.sum(std::span(data), 50ms); });
      CHECK_SAYS(test::failure(error_code::failed_precondition, [&] { group.sum(std::span(other), 50ms); }),
                 "repeat it");
    }
    group.sum(std::span(data), 20s);
    group.sum(std::span(other), 20s);
    if (data[9] != 2.0f || other[10] != 2.0f) throw std::runtime_error("a wrong sum");
  });
  for (const std::string& each : problems) BOOST_TEST(each == "");
}

// ---- means ----

namespace {

template <typename T>
void weigh(const std::vector<double>& weights, const std::vector<reduce_algorithm>& algorithms) {
  const auto ranks = weights.size();
  double all = 0;
  for (const double each : weights) all += each;
  const auto problems = run<T>(static_cast<int>(ranks), [&](basic_server<T>& here) {
    all_reduce_options small_chunks;
    small_chunks.chunk = 1024;
    basic_all_reduce<T> group(here, 7, small_chunks, 20s);
    for (const auto algorithm : algorithms)
      for (const std::size_t size : {1u, 3u, 700u, 5000u}) {
        std::vector<float> data = share_of<float>(group.rank(), size);
        if (weights[group.rank()] == 0) std::fill(data.begin(), data.end(), 0.0f);
        const mean_report made = group.mean(std::span(data), 20s, algorithm, weights[group.rank()]);
        if (made.weights != all || !made.finite) throw std::runtime_error("a wrong sum of weights");
        std::vector<double> due(size);
        for (std::size_t r = 0; r < ranks && all > 0; ++r) {
          const auto share = share_of<float>(r, size);
          for (std::size_t i = 0; i < size; ++i) due[i] += weights[r] / all * static_cast<double>(share[i]);
        }
        for (std::size_t i = 0; i < size; ++i)
          if (std::abs(static_cast<double>(data[i]) - due[i]) > 1e-5) throw std::runtime_error("a wrong mean");
      }
  });
  for (const std::string& each : problems) BOOST_TEST(each == "");
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_count_as_they_weigh) {
  for (const auto& weights : std::vector<std::vector<double>>{
           {1, 1}, {1, 0.5}, {0, 0}, {2, 1, 0.25}, {1, 0, 3}, {0, 0, 1, 0}, {1, 2, 3, 4, 5}, {0, 0, 0, 0, 1}}) {
    weigh<in_process>(weights, {reduce_algorithm::ring, reduce_algorithm::recursive_doubling});
    if (weights.size() <= 3) weigh<tcp>(weights, {reduce_algorithm::automatic});
  }
}

namespace {

template <typename T>
void find_nonfinite(basic_all_reduce<T>& group, reduce_algorithm algorithm, std::span<float> data) {
  const std::size_t size = data.size();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      std::fill(data.begin(), data.end(), 1.0f);
      if (group.rank() == 1) data[at] = bad;
      const mean_report made = group.mean(data, 20s, algorithm);
      if (made.finite || made.element != at || made.rank != 1) throw std::runtime_error("not found");
      std::fill(data.begin(), data.end(), 1.0f);
      if (!group.mean(data, 20s, algorithm).finite) throw std::runtime_error("found where there is none");
    }
  std::fill(data.begin(), data.end(), 1.0f);
  data[size / 2] = 3e38f;
  const mean_report made = group.mean(data, 20s, algorithm);
  if (made.finite || made.element != size / 2 || made.rank) throw std::runtime_error("an overflow was not found");
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_ranks_learn_whose_element_is_not_finite) {
  auto problems = run<in_process>(3, [&](basic_server<in_process>& here) {
    basic_all_reduce<in_process> group(here, 7, {}, 20s);
    for (const auto algorithm : {reduce_algorithm::ring, reduce_algorithm::recursive_doubling})
      for (const std::size_t size : {5u, 40'000u}) {
        std::vector<float> data(size);
        find_nonfinite(group, algorithm, std::span(data));
      }
  });
  for (const std::string& each : problems) BOOST_TEST(each == "");
  problems = run<tcp>(3, [&](basic_server<tcp>& here) {
    basic_all_reduce<tcp> group(here, 7, {}, 20s);
    for (const std::size_t size : {5u, 40'000u, 600'000u}) {
      std::vector<float> data(size);
      find_nonfinite(group, reduce_algorithm::automatic, std::span(data));
    }
    const mutable_bytes block = group.shared_block(2'400'000, 20s);
    find_nonfinite(group, reduce_algorithm::automatic,
                   std::span<float>(reinterpret_cast<float*>(block.data()), 600'000));
  });
  for (const std::string& each : problems) BOOST_TEST(each == "");
}

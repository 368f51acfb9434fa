// SPDX-License-Identifier: BSL-1.0
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/parameter/parameter_service.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

constexpr reduce_algorithm named[] = {reduce_algorithm::segmented_ring, reduce_algorithm::recursive_doubling,
                                      reduce_algorithm::halving_doubling, reduce_algorithm::tree};

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
  for (const auto algorithm : {named[0], named[1], named[2], named[3], reduce_algorithm::automatic}) {
    std::vector<std::vector<std::vector<Element>>> results(sizes.size(), std::vector<std::vector<Element>>(ranks));
    const auto problems = run<T>(
        static_cast<int>(ranks),
        [&](basic_server<T>& here) {
          all_reduce_options small_chunks;
          small_chunks.chunk = 1024;
          all_reduce group(here, 7, small_chunks, 20s);
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
    all_reduce group(here, 7, {}, 20s);
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
      all_reduce group(here, 0, {}, 20s);
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

BOOST_AUTO_TEST_CASE(huge_buffers_do_not_deadlock) { property<tcp, float>(2, {1'500'000}); }

BOOST_AUTO_TEST_CASE(the_mean_is_the_sum_divided) {
  run<in_process>(3, [](basic_server<in_process>& here) {
    all_reduce group(here, 0, {}, 20s);
    std::vector<float> data(10, static_cast<float>(group.rank()));
    group.mean(std::span(data), 20s);
    if (data[9] != 1.0f) throw std::runtime_error("wrong mean");
  });
}

BOOST_AUTO_TEST_CASE(ranks_that_disagree_are_told) {
  auto problems = run<in_process>(2, [](basic_server<in_process>& here) {
    all_reduce group(here, static_cast<std::uint64_t>(here.index()), {}, 20s);
  });
  for (const std::string& each : problems) CHECK_SAYS(each, "does not train the same model");

  problems = run<in_process>(2, [](basic_server<in_process>& here) {
    all_reduce group(here, 0, {}, 20s);
    std::vector<float> data(static_cast<std::size_t>(10 + here.index()));
    group.sum(std::span(data), 5s);
  });
  BOOST_TEST((contains(problems[0], "disagree") || contains(problems[1], "disagree")));
}

BOOST_AUTO_TEST_CASE(a_missing_rank_is_named_at_the_deadline) {
  const auto problems = run<in_process>(3, [](basic_server<in_process>& here) {
    all_reduce group(here, 0, {}, 20s);
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
  for (const auto algorithm : named) {
    const auto start = std::chrono::steady_clock::now();
    const auto problems = run<tcp>(3, [&](basic_server<tcp>& here) {
      all_reduce group(here, 0, {}, 20s);
      std::vector<float> data(100'000);
      group.sum(std::span(data), 20s);
      if (here.index() == 1) return;
      for (;;) group.sum(std::span(data), 20s, algorithm);
    });
    CHECK_SAYS(problems[0], "/job:worker/task:");
    // Beyond the two that double, rank 2 hears from rank 0 alone, which may give up first.
    CHECK_SAYS(problems[2], algorithm == reduce_algorithm::ring ? "/job:worker/task:1 has left" : "/job:worker/task:");
    BOOST_TEST(test::seconds_since(start) < 5 + test::slack);
  }
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
    all_reduce group(here, 7, small_chunks, 20s);
    std::vector<float> own(size);
    std::span<float> data(own);
    if (in_block) data = {reinterpret_cast<float*>(group.shared_block(4 * size, 20s).data()), size};
    for (int call = 0; call < 3; ++call) {
      std::fill(data.begin(), data.end(), static_cast<float>(here.index() + call));
      if (call % ranks == here.index()) std::this_thread::sleep_for(50ms);
      for (bool made = false; !made;) try {
          group.sum(data, 15ms, algorithm);
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
  for (const auto algorithm : named)
    for (const int ranks : {2, 3}) repeat<in_process>(ranks, algorithm, 30'000, false);
  for (const int ranks : {2, 3}) {
    repeat<tcp>(ranks, reduce_algorithm::automatic, 10, false);
    repeat<tcp>(ranks, reduce_algorithm::automatic, 600'000, false);
    repeat<tcp>(ranks, reduce_algorithm::automatic, 600'000, true);
  }
}

BOOST_AUTO_TEST_CASE(nothing_else_may_come_before_it) {
  const auto problems = run<in_process>(2, [&](basic_server<in_process>& here) {
    all_reduce group(here, 7, {}, 20s);
    std::vector<float> data(10, 1.0f), other(11, 1.0f);
    if (here.index() == 1) std::this_thread::sleep_for(300ms);
    if (here.index() == 0) {
      test::failure(error_code::deadline_exceeded, [&] { group.sum(std::span(data), 50ms); });
      test::require_says_in_task(
          test::failure(error_code::failed_precondition, [&] { group.sum(std::span(other), 50ms); }), "repeat it");
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
    all_reduce group(here, 7, small_chunks, 20s);
    for (const auto algorithm : algorithms)
      for (const std::size_t size : {1u, 3u, 700u, 5000u}) {
        std::vector<float> data = share_of<float>(group.rank(), size);
        if (weights[group.rank()] == 0) std::fill(data.begin(), data.end(), std::numeric_limits<float>::quiet_NaN());
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
    weigh<in_process>(weights, {named[0], named[1], named[2], named[3]});
    if (weights.size() <= 3) weigh<tcp>(weights, {reduce_algorithm::automatic});
  }
}

namespace {

void find_nonfinite(all_reduce& group, reduce_algorithm algorithm, std::span<float> data) {
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
    all_reduce group(here, 7, {}, 20s);
    for (const auto algorithm : named)
      for (const std::size_t size : {5u, 40'000u}) {
        std::vector<float> data(size);
        find_nonfinite(group, algorithm, std::span(data));
      }
  });
  for (const std::string& each : problems) BOOST_TEST(each == "");
  problems = run<tcp>(3, [&](basic_server<tcp>& here) {
    all_reduce group(here, 7, {}, 20s);
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

// ---- schedules, without any network ----

namespace {

using detail::transfer_schedule;

/// Carries out all ranks' schedules at once, as if a message could only be handed over, never lie in between. Returns
/// whether they come to an end.
bool simulate(const std::vector<transfer_schedule>& schedules, std::vector<std::vector<double>>& arrays,
              std::vector<double>& weights, std::size_t chunk) {
  const std::size_t ranks = schedules.size();
  struct held {
    bool there = false;
    std::vector<double> values;
    double weight = 0;
  };
  std::vector<detail::transfer_progress> at;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto partners = detail::partners_of(ranks, r);
    for (const detail::transfer_step& each : schedules[r].steps)
      for (const std::size_t peer : {each.to, each.from})
        BOOST_REQUIRE((peer == each.nobody || std::count(partners.begin(), partners.end(), peer) == 1));
    at.emplace_back().begin(schedules[r], chunk, weights[r]);
  }
  std::vector<held> scratch(ranks);
  for (bool moved = true; std::exchange(moved, false);) {
    for (std::size_t r = 0; r < ranks; ++r) {
      if (at[r].sends() && at[r].may_send()) {
        const std::size_t to = at[r].to();
        const detail::element_range chunk_sent = at[r].chunk_to_send();
        if (at[to].receives() && at[to].from() == r && !scratch[to].there && (at[to].adds() || at[to].may_take_in())) {
          BOOST_REQUIRE((at[to].chunk_to_receive() == chunk_sent));
          const auto from = arrays[r].begin();
          scratch[to] = {true,
                         {from + static_cast<std::ptrdiff_t>(chunk_sent.begin),
                          from + static_cast<std::ptrdiff_t>(chunk_sent.end)},
                         at[r].weight_to_send()};
          at[r].sent();
          moved = true;
        }
      }
      if (scratch[r].there && at[r].may_take_in()) {
        const detail::element_range place = at[r].chunk_to_receive();
        for (std::size_t i = 0; i < place.size(); ++i) {
          double& element = arrays[r][place.begin + i];
          element = at[r].adds() ? element + scratch[r].values[i] : scratch[r].values[i];
        }
        at[r].received(scratch[r].weight);
        scratch[r] = {};
        moved = true;
      }
    }
  }
  bool all = true;
  for (std::size_t r = 0; r < ranks; ++r) {
    all &= at[r].is_complete();
    weights[r] = at[r].weight();
  }
  return all;
}

template <typename Make, typename Check>
void simulate_all(Make make, Check check) {
  for (std::size_t ranks = 1; ranks <= 17; ++ranks)
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, ranks - 1, ranks, ranks + 1, std::size_t{45}})
      for (const std::size_t chunk : {1u, 4u, 1000u}) {
        std::vector<std::vector<double>> arrays(ranks, std::vector<double>(size));
        std::vector<transfer_schedule> schedules;
        std::vector<double> weights(ranks);
        for (std::size_t r = 0; r < ranks; ++r) {
          schedules.push_back(make(ranks, r, size));
          weights[r] = static_cast<double>(r + 1);
          // Binary digits: what comes twice, or not at all, shows.
          for (std::size_t i = 0; i < size; ++i)
            arrays[r][i] = std::ldexp(1.0, static_cast<int>(r)) + std::ldexp(static_cast<double>(i), 20);
        }
        BOOST_REQUIRE(simulate(schedules, arrays, weights, chunk));
        for (std::size_t r = 0; r < ranks; ++r) check(ranks, r, size, arrays[r], weights[r]);
      }
}

double digits_at(double digits, std::size_t i, std::size_t times) {
  return digits + static_cast<double>(times) * std::ldexp(static_cast<double>(i), 20);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_schedule_adds_each_array_once) {
  for (const auto algorithm : named)
    simulate_all([&](std::size_t ranks, std::size_t rank,
                     std::size_t size) { return detail::schedule_of(algorithm, ranks, rank, size); },
                 [](std::size_t ranks, std::size_t, std::size_t size, const std::vector<double>& made, double weight) {
                   for (std::size_t i = 0; i < size; ++i)
                     BOOST_REQUIRE(made[i] == digits_at(std::ldexp(1.0, static_cast<int>(ranks)) - 1, i, ranks));
                   BOOST_REQUIRE(weight == static_cast<double>(ranks * (ranks + 1) / 2));
                 });
}

BOOST_AUTO_TEST_CASE(every_schedule_moves_what_it_is_to_move) {
  for (const bool chain : {false, true})
    for (const std::size_t nth : {0u, 1u, 7u, 16u})
      simulate_all([&](std::size_t ranks, std::size_t rank,
                       std::size_t size) { return detail::broadcast_schedule(ranks, rank, size, nth % ranks, chain); },
                   [&](std::size_t ranks, std::size_t, std::size_t size, const std::vector<double>& made, double) {
                     for (std::size_t i = 0; i < size; ++i)
                       BOOST_REQUIRE(made[i] == digits_at(std::ldexp(1.0, static_cast<int>(nth % ranks)), i, 1));
                   });
  simulate_all(detail::all_gather_schedule,
               [](std::size_t ranks, std::size_t, std::size_t size, const std::vector<double>& made, double) {
                 for (std::size_t r = 0; r < ranks; ++r) {
                   const auto share = detail::share_of_rank(size, ranks, r);
                   for (std::size_t i = share.begin; i < share.end; ++i)
                     BOOST_REQUIRE(made[i] == digits_at(std::ldexp(1.0, static_cast<int>(r)), i, 1));
                 }
               });
  simulate_all(detail::reduce_scatter_schedule,
               [](std::size_t ranks, std::size_t rank, std::size_t size, const std::vector<double>& made, double) {
                 const auto share = detail::share_of_rank(size, ranks, rank);
                 for (std::size_t i = share.begin; i < share.end; ++i)
                   BOOST_REQUIRE(made[i] == digits_at(std::ldexp(1.0, static_cast<int>(ranks)) - 1, i, ranks));
               });
}

BOOST_AUTO_TEST_CASE(algorithms_that_add_in_the_same_order_give_the_same_bits) {
  for (std::size_t ranks = 2; ranks <= 17; ++ranks) {
    std::vector<std::vector<double>> results;
    for (const auto algorithm : named) {
      std::vector<std::vector<double>> arrays;
      std::vector<transfer_schedule> schedules;
      for (std::size_t r = 0; r < ranks; ++r) {
        arrays.push_back(share_of<double>(r, 40));
        schedules.push_back(detail::schedule_of(algorithm, ranks, r, 40));
      }
      std::vector<double> weights(ranks, 1);
      BOOST_REQUIRE(simulate(schedules, arrays, weights, 7));
      for (const auto& each : arrays) BOOST_TEST((each == arrays[0]));
      if (algorithm != reduce_algorithm::segmented_ring) results.push_back(arrays[0]);
    }
    for (const auto& each : results) BOOST_TEST((each == results[0]));
  }
}

// The sum of several arrays of each rank, in an order that comes back to ranks and leaves out others. A rank is late,
// so that the others repeat their calls.
BOOST_AUTO_TEST_CASE(arrays_are_summed_in_the_given_order) {
  const std::vector<std::vector<std::size_t>> orders{{0, 1, 2, 3},    {0, 1, 1, 0}, {3, 0, 2, 1, 0, 3}, {2, 2, 2},
                                                     {0, 2, 0, 2, 0}, {1, 3},       {3, 1, 0}};
  for (const std::size_t ranks : {1u, 2u, 3u, 4u, 5u})
    for (std::vector<std::size_t> order : orders) {
      for (std::size_t& each : order) each %= ranks;
      constexpr std::size_t size = 70;
      std::vector<std::vector<float>> arrays, results(ranks, std::vector<float>(size));
      std::vector<float> expected(size, -0.0f);
      for (std::size_t n = 0; n < order.size(); ++n) {
        arrays.push_back(share_of<float>(n, size));
        for (std::size_t i = 0; i < size; ++i) expected[i] += arrays[n][i];
      }
      std::atomic<int> late{0};
      const auto problems = run<in_process>(static_cast<int>(ranks), [&](basic_server<in_process>& here) {
        all_reduce_options small_chunks;
        small_chunks.chunk = 64;
        all_reduce group(here, 7, small_chunks, 20s);
        const std::size_t rank = group.rank();
        std::vector<detail::weighted_array<float>> mine;
        for (std::size_t n = 0; n < order.size(); ++n)
          if (order[n] == rank) mine.push_back({arrays[n].data(), 1.0f});
        const deadline by(20s);
        while (ranks > 1 && rank == order.back() && late == 0 && !by.expired()) std::this_thread::sleep_for(1ms);
        for (bool done = false; !done;) try {
            group.sum_in_order<float>(results[rank], mine, order, 5ms);
            done = true;
          } catch (const error& problem) {
            if (problem.code() != error_code::deadline_exceeded || by.expired()) throw;
            ++late;
          }
      });
      for (const std::string& each : problems) BOOST_TEST(each == "");
      for (const auto& each : results) BOOST_TEST(std::memcmp(each.data(), expected.data(), size * sizeof(float)) == 0);
    }
}

BOOST_AUTO_TEST_CASE(the_cost_decides) {
  const link_cost cost{10, 1000, 4000};
  BOOST_TEST((cost.choose(4, 4) == reduce_algorithm::recursive_doubling));
  BOOST_TEST((cost.choose(8, 100'000'000) == reduce_algorithm::halving_doubling));
  BOOST_TEST((cost.choose(7, 100'000'000) == reduce_algorithm::segmented_ring));
  BOOST_TEST(cost.microseconds(reduce_algorithm::segmented_ring, 4, 4'000'000) == 60 + 0.75 * (8000 + 1000));
  BOOST_TEST(cost.microseconds(reduce_algorithm::recursive_doubling, 3, 1000) == 30 + 3 + 0.5);
}

// ---- other collective calls ----

namespace {

void move_arrays(all_reduce& group) {
  const std::size_t ranks = group.size(), rank = group.rank();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, ranks, 2 * ranks + 1, std::size_t{70'001}}) {
    for (std::size_t root = 0; root < ranks; ++root) {
      auto data = share_of<float>(rank, size);
      group.broadcast(std::span(data), root, 20s);
      test::require_in_task(data == share_of<float>(root, size), "a broadcast is the root's array");
    }
    std::vector<std::int16_t> numbers(size, -1), due(size);
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto share = detail::share_of_rank(size, ranks, r);
      for (std::size_t i = share.begin; i < share.end; ++i) {
        due[i] = static_cast<std::int16_t>(i * 3 + r);
        if (r == rank) numbers[i] = due[i];
      }
    }
    group.all_gather(std::span(numbers), 20s);
    test::require_in_task(numbers == due, "an all-gather has all shares");
    std::vector<float> summed(size);
    for (std::size_t i = 0; i < size; ++i) summed[i] = static_cast<float>(i % 1000 + rank);
    const std::span<float> mine = group.reduce_scatter(std::span(summed), 20s);
    const auto share = detail::share_of_rank(size, ranks, rank);
    bool right = mine.size() == share.size();
    for (std::size_t i = 0; right && i < mine.size(); ++i)
      right = mine[i] == static_cast<float>((share.begin + i) % 1000 * ranks + ranks * (ranks - 1) / 2);
    test::require_in_task(right, "a reduce-scatter leaves this rank's share of the sum");
    group.barrier(20s);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(arrays_are_moved_by_messages_and_in_memory) {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (const std::string& each : run<in_process>(ranks, [&](basic_server<in_process>& here) {
           all_reduce_options small_chunks;
           small_chunks.chunk = 4096;
           all_reduce group(here, 7, small_chunks, 20s);
           move_arrays(group);
         }))
      BOOST_TEST(each == "");
  for (const std::string& each : run<tcp>(3, [&](basic_server<tcp>& here) {
         all_reduce group(here, 7, {}, 20s);
         move_arrays(group);
         std::vector<double> large(300'000, here.index() == 1 ? 3.0 : 0.0);  // by pieces
         group.broadcast(std::span(large), 1, 20s);
         test::require_in_task(large == std::vector<double>(300'000, 3.0), "a broadcast by pieces");
         test::failure(error_code::invalid_argument, [&] { group.broadcast(std::span(large), 3, 20s); });
       }))
    BOOST_TEST(each == "");
}

BOOST_AUTO_TEST_CASE(all_ranks_have_the_same_fitted_cost) {
  std::vector<link_cost> costs(3);
  for (const std::string& each : run<in_process>(3, [&](basic_server<in_process>& here) {
         all_reduce group(here, 7, {}, 20s);
         costs[group.rank()] = group.fit(20s);
         std::vector<float> data(5000, 1.0f);
         group.sum(std::span(data), 20s);
         test::require_in_task(data[4999] == 3.0f, "a sum after a fit");
       }))
    BOOST_TEST(each == "");
  for (const link_cost& each : costs) {
    BOOST_TEST(each.message_us > 0);
    BOOST_TEST(each.megabytes_per_s > 0);
    BOOST_TEST(each.sum_megabytes_per_s > 0);
    BOOST_TEST(std::memcmp(&each, &costs[0], sizeof each) == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_broadcast_and_a_sum_at_once_are_told) {
  const auto problems = run<in_process>(2, [&](basic_server<in_process>& here) {
    all_reduce group(here, 7, {}, 20s);
    std::vector<float> data(10);
    if (here.index() == 0) group.broadcast(std::span(data), 0, 5s);
    group.sum(std::span(data), 5s);
  });
  BOOST_TEST((contains(problems[0], "same calls") || contains(problems[1], "same calls")));
}

BOOST_AUTO_TEST_CASE(ranks_whose_calls_differ_in_no_length_are_told) {
  using group_type = all_reduce;
  const auto told = [](const char* what, auto of_first, auto of_second) {
    const auto problems = run<in_process>(2, [&](basic_server<in_process>& here) {
      group_type group(here, 7, {}, 20s);
      here.index() == 0 ? of_first(group) : of_second(group);
    });
    BOOST_TEST_CONTEXT(what) BOOST_TEST((contains(problems[0], "same calls") || contains(problems[1], "same calls")));
  };
  const auto sum = [](group_type& group, auto of, std::size_t size, reduce_algorithm by = reduce_algorithm::automatic) {
    std::vector<decltype(of)> data(size, 1);
    group.sum(std::span(data), 5s, by);
  };
  told(
      "another type", [&](group_type& group) { sum(group, float(), 64); },
      [&](group_type& group) { sum(group, double(), 32); });
  told(
      "a sum and a mean", [&](group_type& group) { sum(group, float(), 64); },
      [&](group_type& group) {
        std::vector<float> data(64, 1);
        group.mean(std::span(data), 5s);
      });
  told(
      "another algorithm", [&](group_type& group) { sum(group, float(), 64, reduce_algorithm::tree); },
      [&](group_type& group) { sum(group, float(), 64, reduce_algorithm::recursive_doubling); });
}

// A peer that keeps to no schedule: what it sends is refused, or is a wrong sum, but never more than there is room for.
BOOST_AUTO_TEST_CASE(a_rank_that_sends_something_else_is_refused) {
  for (const auto algorithm : named)
    for (const int lie : {0, 1, 2, 3}) {
      const auto problems = run<in_process>(2, [&](basic_server<in_process>& here) {
        std::vector<float> data(1001);
        if (here.index() == 0) {
          all_reduce group(here, 7, {}, 20s);
          group.sum(std::span(data), 5s, algorithm);
          return;
        }
        auto to = here.open_channel(0, "all_reduce", 5s).stream;
        frame_reader in;
        std::vector<std::byte> payload;
        for (in.expect(1 << 20); !in.complete();) {
          in.advance(to);
          if (!in.needs_destination()) continue;
          payload.resize(static_cast<std::size_t>(in.header().payload_length));
          in.payload_to(mutable_bytes(payload));
        }
        frame_writer out;
        const auto say = [&](const frame_header& said) {
          for (out.start(said, const_bytes(payload)); !out.idle();) out.advance(to);
        };
        frame_header said = in.header();
        said.flags = 0;
        say(said);
        const bool halves = algorithm == reduce_algorithm::ring || algorithm == reduce_algorithm::halving_doubling;
        payload.assign(halves ? 2000 : 4004, {});
        if (lie == 0) payload.resize(payload.size() + 4000);
        if (lie == 1) payload.resize(4);
        said = {};
        said.kind = frame_kind::reduce;
        said.request = lie == 2 ? 2 : 1;
        said.step = lie == 3;
        say(said);
        std::this_thread::sleep_for(50ms);
      });
      BOOST_TEST_CONTEXT(static_cast<int>(algorithm) << ' ' << lie)
      CHECK_SAYS(problems[0], lie == 0   ? "payload must have at most"
                              : lie == 1 ? "the payload must have"
                                         : "same calls");
    }
}

// ---- several hosts ----

namespace {

/// Two hosts, as far as the addresses tell.
struct two_hosts : tcp {
  static bool same_host(const endpoint& one, const endpoint& other) { return one.host == other.host; }
};

/// A task for each of `on_second`, which says whether it is on the second host.
template <typename Work>
std::vector<std::string> run_on_two_hosts(const std::vector<bool>& on_second, Work work) {
  two_hosts network;
  std::vector<tcp::listener> held;
  std::string text;
  for (const bool second : on_second) {
    held.push_back(network.listen({second ? "127.0.0.2" : "127.0.0.1", 0}));
    text += (text.empty() ? "" : ",") + to_string(held.back().address());
  }
  held.clear();
  const cluster_spec cluster{{"worker", text}};
  std::vector<std::string> problems(on_second.size());
  std::vector<std::thread> threads;
  for (std::size_t task = 0; task < problems.size(); ++task)
    threads.emplace_back([&, task] {
      try {
        server_options options;
        options.secret = cluster_secret("one for both hosts");
        basic_server<two_hosts> here(cluster, "worker", static_cast<int>(task), options, network);
        work(here);
      } catch (const std::exception& problem) {
        problems[task] = problem.what();
      }
    });
  for (std::thread& each : threads) each.join();
  return problems;
}

}  // namespace

BOOST_AUTO_TEST_CASE(hosts_sum_in_memory_and_their_leaders_by_messages) {
  for (const std::vector<bool>& on_second : std::vector<std::vector<bool>>{
           {false, true, true}, {false, false, true, true}, {false, true, false, true, true}}) {
    const std::size_t ranks = on_second.size();
    std::vector<std::vector<float>> results(ranks);
    const auto problems = run_on_two_hosts(on_second, [&](basic_server<two_hosts>& here) {
      all_reduce group(here, 7, {}, 20s);
      if (group.shares_memory() || !group.shared_block(64, 20s).empty()) throw std::runtime_error("one host");
      for (const std::size_t size : {0u, 1u, 1000u, 300'001u}) {
        std::vector<float> data(size);
        for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<float>(i % 100 + group.rank());
        group.sum(std::span(data), 20s);
        for (std::size_t i = 0; i < size; ++i)
          if (data[i] != static_cast<float>(i % 100 * ranks + ranks * (ranks - 1) / 2))
            throw std::runtime_error("a wrong sum");
      }
      const double weight = static_cast<double>(group.rank());
      std::vector<double> weighted(5, group.rank() == 0 ? std::numeric_limits<double>::quiet_NaN() : 2.0);
      const mean_report made = group.mean(std::span(weighted), 20s, reduce_algorithm::automatic, weight);
      if (made.weights != static_cast<double>(ranks * (ranks - 1) / 2) || weighted[4] != 2.0)
        throw std::runtime_error("a wrong mean");
      std::vector<float> some(5000, 1.0f);
      if (group.rank() == 1) some[77] = std::numeric_limits<float>::quiet_NaN();
      const mean_report bad = group.mean(std::span(some), 20s);
      if (bad.finite || bad.element != 77 || bad.rank != 1) throw std::runtime_error("not found");
      results[group.rank()] = share_of<float>(group.rank(), 5000);
      group.sum(std::span(results[group.rank()]), 20s);
      std::vector<float> same(5000, 1.0f);
      group.sum(std::span(same), 20s, reduce_algorithm::tree);
      if (same[4999] != static_cast<float>(ranks)) throw std::runtime_error("a wrong sum by messages");
      move_arrays(group);
      // Each is late now and then, and repeats what has run out of time.
      for (std::size_t call = 0; call < ranks; ++call) {
        std::vector<float> data(20'000, static_cast<float>(call));
        if (call == group.rank()) std::this_thread::sleep_for(60ms);
        for (bool done = false; !done;) try {
            group.sum(std::span(data), 20ms);
            done = true;
          } catch (const error& problem) {
            if (problem.code() != error_code::deadline_exceeded) throw;
          }
        if (data[19'999] != static_cast<float>(call * ranks)) throw std::runtime_error("a wrong sum after a deadline");
      }
    });
    for (const std::string& each : problems) BOOST_TEST(each == "");
    for (const auto& each : results) BOOST_TEST((each == results[0]));
  }
}

BOOST_AUTO_TEST_CASE(a_rank_of_another_host_that_leaves_is_named) {
  const auto problems = run_on_two_hosts({false, false, true, true}, [&](basic_server<two_hosts>& here) {
    all_reduce group(here, 7, {}, 20s);
    std::vector<float> data(1000);
    group.sum(std::span(data), 20s);
    if (here.index() == 3) return;
    for (;;) group.sum(std::span(data), 20s);
  });
  for (const std::size_t survivor : {0u, 1u, 2u}) CHECK_SAYS(problems[survivor], "/job:worker/task:");
}

BOOST_AUTO_TEST_CASE(a_group_may_have_some_of_the_tasks) {
  for (const bool shared : {true, false}) {
    std::atomic<bool> all_are_there{false};
    const auto work = [&](server& here) {
      if (here.index() == 1) {
        here.wait_ready(10s);
        all_are_there = true;
        here.join(10s);
        return;
      }
      all_reduce_options options;
      options.tasks = {0, 2, 3};
      all_reduce group(here, {}, options);
      test::require_in_task(group.size() == 3, "size");
      test::require_in_task(group.rank() == static_cast<std::size_t>(here.index() == 0 ? 0 : here.index() - 1), "rank");
      std::vector<double> some(1000, 1.0 + here.index());
      group.sum(std::span<double>(some));
      for (const double each : some) test::require_in_task(each == 8, "sum");  // 1 + 3 + 4
      float one[] = {static_cast<float>(here.index())};
      group.broadcast(std::span<float>(one), 1);
      test::require_in_task(one[0] == 2, "broadcast");
      for (const deadline until = 10s; !all_are_there && !until.expired();) std::this_thread::sleep_for(1ms);
    };
    for (const std::string& each : run<tcp>(4, work, {.shared_memory = shared})) BOOST_TEST(each == "");
  }
}

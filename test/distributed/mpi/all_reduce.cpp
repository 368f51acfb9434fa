// SPDX-License-Identifier: BSL-1.0
// Sums by MPI, in processes that mpirun has started: every process runs the same cases.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed.hpp>
#include <weft/distributed/cluster/environment.hpp>
#include <weft/distributed/collective/mpi_all_reduce.hpp>
#include <weft/distributed/training/exchanges.hpp>

#include "errors.hpp"

using namespace weft;
using namespace std::chrono_literals;

namespace {

server& here() {
  static server only(cluster_spec::from_environment());
  return only;
}

/// Small integers, whose sums are exact in any order.
template <typename Element>
std::vector<Element> share_of(std::size_t rank, std::size_t size) {
  std::vector<Element> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<Element>((i * 7 + rank * 13) % 101) - 50;
  return data;
}

template <typename Element>
void sums_and_means(mpi_all_reduce& group) {
  const std::size_t ranks = group.size(), rank = group.rank();
  for (const std::size_t size : {0, 1, 3, 1000, 5000, 300'000}) {
    auto sum = share_of<Element>(rank, size), mean = sum;
    group.sum(std::span(sum), 20s);
    const double weight = static_cast<double>(rank);  // rank 0 brings nothing
    if (rank == 0) mean.assign(size, std::numeric_limits<Element>::quiet_NaN());
    const mean_report made = group.mean(std::span(mean), 20s, reduce_algorithm::automatic, weight);
    const double weights = static_cast<double>(ranks * (ranks - 1)) / 2;
    BOOST_TEST(made.weights == weights);
    BOOST_TEST(made.finite);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < size; ++i) {
      double all = 0, weighted = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        const double part = static_cast<double>((i * 7 + r * 13) % 101) - 50;
        all += part;
        weighted += part * static_cast<double>(r);
      }
      wrong += static_cast<double>(sum[i]) != all;
      wrong += ranks > 1 && std::abs(static_cast<double>(mean[i]) - weighted / weights) > 1e-5;
    }
    BOOST_TEST(wrong == 0u);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(sums_and_means_of_all_ranks) {
  mpi_all_reduce group(here());
  BOOST_TEST(group.size() == static_cast<std::size_t>(here().cluster().num_tasks("worker")));
  sums_and_means<float>(group);
  sums_and_means<double>(group);
}

BOOST_AUTO_TEST_CASE(a_mean_tells_whose_element_is_not_finite) {
  mpi_all_reduce group(here());
  std::vector<float> data(100, 1);
  const std::size_t last = group.size() - 1;
  if (group.rank() == last) data[42] = std::numeric_limits<float>::infinity();
  const mean_report made = group.mean(std::span(data), 20s);
  BOOST_TEST(!made.finite);
  BOOST_TEST(made.element == 42u);
  BOOST_TEST(made.rank.value() == last);
}

BOOST_AUTO_TEST_CASE(a_call_that_runs_out_of_time_goes_on_when_it_is_repeated) {
  mpi_all_reduce group(here());
  if (group.size() == 1) return;
  for (const std::size_t size : {5, 2000, 50'000}) {  // within the messages that tell of it, and by MPI's own call
    std::vector<double> data(size, 1);
    if (group.rank() == 1) std::this_thread::sleep_for(200ms);
    if (group.rank() == 0) {
      BOOST_CHECK_EXCEPTION(group.sum(std::span(data), 30ms), error, test::says(error_code::deadline_exceeded, "rank"));
      BOOST_TEST(data[0] == 1);
    }
    group.sum(std::span(data), 20s);
    BOOST_TEST(data[size - 1] == static_cast<double>(group.size()));
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_sum_different_arrays_are_told) {
  for (const std::size_t of_others : {10, 5'000, 100'000}) {
    all_reduce_options own;
    own.channel = std::to_string(of_others);
    mpi_all_reduce group(here(), {}, own);
    if (group.size() == 1) return;
    std::vector<float> data(group.rank() == 1 ? 20 : of_others);
    BOOST_CHECK_EXCEPTION(
        group.sum(std::span(data), 20s), error,
        test::says(error_code::failed_precondition,
                   group.rank() == 1 ? " disagrees with /job:worker/task:1;" : "/job:worker/task:1 disagrees with "));
    BOOST_CHECK_EXCEPTION(group.sum(std::span(data), 20s), error,
                          test::says(error_code::failed_precondition, "make a new one"));
  }
  all_reduce_options other;
  other.channel = "fresh";
  mpi_all_reduce fresh(here(), {}, other);
  std::vector<float> one{1};
  fresh.sum(std::span(one), 20s);
  BOOST_TEST(one[0] == static_cast<float>(fresh.size()));
}

// A model that MPI's sums train is the one that Weft's train: with two ranks in the same bits, for there is one order.
BOOST_AUTO_TEST_CASE(a_replicated_session_trains_by_mpi) {
  graph g(3);
  auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  auto w = variable<float, dims<4, 3>>(g, "w", init::normal{.stddev = 0.5f});
  auto b = variable<float, dims<3>>(g, "b", init::zeros{});
  auto loss = mean(square(tanh(matmul(x, w) + b) - 0.25f));
  auto train = adam{.learning_rate = 0.05}.minimize(loss);
  const auto trained = [&](auto strategy) {
    replicated_session s(g, here(), strategy, {.threads = 1}, 20s);
    auto step = s.prepare(fetch(loss, train), feed(x));
    tensor<float, dims<dyn<"batch">, 4>> batch(shape(here().index() + 2, 4));  // each rank's of another size
    for (int i = 0; i < 20; ++i) {
      for (std::int64_t k = 0; k < std::int64_t(batch.elements()); ++k)
        batch.data()[k] = static_cast<float>((k * 5 + i * 3 + here().index()) % 7) / 7.0f;
      step(batch);
    }
    return s.local().get(w);
  };
  const auto by_weft = trained(collective{}), by_mpi = trained(mpi_collective{});
  const bool same_bits = here().cluster().num_tasks("worker") == 2;
  for (std::int64_t i = 0; i < std::int64_t(by_weft.elements()); ++i)
    BOOST_TEST(std::abs(by_weft.data()[i] - by_mpi.data()[i]) <= (same_bits ? 0.0f : 1e-5f));
}

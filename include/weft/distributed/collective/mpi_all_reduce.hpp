// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/collective/all_reduce.hpp>
#include <weft/distributed/collective/mpi_exchange.hpp>
#include <weft/distributed/collective/reduce_peers.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/error.hpp>

namespace weft {

/// The tasks of a job, started by mpirun or srun, that sum arrays together by MPI_Allreduce instead of all_reduce.
/// Gradients then use the network that MPI supports, such as InfiniBand.
///
/// The tasks connect and compare their graphs over Weft's transport. Before each sum they exchange descriptions of
/// their calls in MPI messages, which also carry small arrays. This wait has a deadline and ends when a task is gone.
/// Large arrays are then summed by MPI's blocking call, which is up to twice as fast as the nonblocking one; MPI
/// detects a task that dies meanwhile and aborts the job.
///
/// If the program has not initialized MPI, the first group does so with MPI_THREAD_SERIALIZED: only one thread at a
/// time can use MPI. It is finalized at the end of the program, unless a group broke.
class mpi_all_reduce {
 public:
  /// Throws the errors of all_reduce, and failed_precondition if MPI has not started the job's tasks together.
  explicit mpi_all_reduce(task_server& here, graph_identity graph = {}, all_reduce_options options = {},
                          deadline until = std::chrono::seconds(60));
  mpi_all_reduce(const mpi_all_reduce&) = delete;
  mpi_all_reduce& operator=(const mpi_all_reduce&) = delete;
  ~mpi_all_reduce();

  std::size_t rank() const { return hosts_.rank(); }
  std::size_t size() const { return hosts_.size(); }

  /// Returns an empty span: MPI needs no special memory.
  mutable_bytes shared_block(std::size_t, deadline = std::chrono::seconds(60)) { return {}; }

  /// Replaces `data` with the sum over all ranks. Throws weft::error: unavailable with the name of a task that is gone,
  /// deadline_exceeded, after which the same call can be repeated, or failed_precondition if the ranks make different
  /// calls.
  template <std::floating_point Element>
  void sum(std::span<Element> data, deadline until = std::chrono::seconds(60)) {
    reduce(data, detail::reduce_statement::of(std::span<const Element>(data), false, 1), until);
  }

  /// See all_reduce::mean().
  template <std::floating_point Element>
  mean_report mean(std::span<Element> data, deadline until = std::chrono::seconds(60),
                   reduce_algorithm = reduce_algorithm::automatic, double weight = 1) {
    const auto said = reduce(data, detail::reduce_statement::of(std::span<const Element>(data), true, weight), until);
    mean_report made{said.said.weight, true, 0, {}};
    if (made.weights == 0) return made;
    made.finite = detail::divide(data.data(), data.size(), static_cast<Element>(made.weights));
    if (made.finite) return made;
    made.element = detail::first_nonfinite(data.data(), data.size());
    if (said.culprit == 0) return made;
    made.rank = static_cast<std::size_t>(said.culprit) - 1;
    made.element = static_cast<std::size_t>(said.said.first_nonfinite) - 1;
    return made;
  }

 private:
  static constexpr const char* operation = "all_reduce";

  static all_reduce_options in_channel(all_reduce_options options) {
    options.channel += "/mpi";
    return options;
  }

  void connect(deadline until);

  template <typename Element>
  detail::joint_statement reduce(std::span<Element> data, const detail::reduce_statement& mine, deadline until);
  void wait(deadline until);
  void check_agreement(const detail::joint_statement& said) const;
  template <typename Element>
  void add_up(std::span<Element> data);

  task_server& here_;
  all_reduce hosts_;
  detail::reduce_peers peers_;
  detail::mpi_exchange exchange_;  // still in progress if a call ran out of time
  std::string job_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  bool broken_ = false, is_stuck_ = false;
  bool failed_ = false;  // the last call failed
};

/// A strategy like `collective`, with sums by MPI: every worker keeps all variables and applies the mean of all
/// workers' gradients. For programs that are started by mpirun or srun and compiled with weft::mpi.
///
///     server here(cluster_spec::from_environment());
///     replicated_session s(g, here, mpi_collective{});
struct mpi_collective {
  using group = mpi_all_reduce;
};

namespace detail {

/// The initialized MPI library. The first caller initializes it unless the program has done so.
class mpi_library {
 public:
  static mpi_library& get() {
    static mpi_library only;
    return only;
  }

  /// Skips MPI_Finalize, which would wait for ranks that are gone.
  void set_broken() { broken_ = true; }

 private:
  mpi_library() {
    int done = 0, level = 0;
    MPI_Initialized(&done);
    if (done) {
      MPI_Query_thread(&level);
    } else {
      check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
      is_ours_ = true;
    }
    // The server has a thread of its own, although that thread never calls MPI.
    if (level < MPI_THREAD_FUNNELED)
      throw error(error_code::failed_precondition, "all_reduce",
                  "the program has initialized MPI for one thread only; call MPI_Init_thread with "
                  "MPI_THREAD_SERIALIZED, or let Weft initialize MPI");
  }
  ~mpi_library() {
    int done = 0;
    MPI_Finalized(&done);
    if (is_ours_ && !broken_ && !done) MPI_Finalize();
  }

  bool is_ours_ = false, broken_ = false;
};

}  // namespace detail

inline mpi_all_reduce::mpi_all_reduce(task_server& here, graph_identity graph, all_reduce_options options,
                                      deadline until)
    : here_(here),
      hosts_(here, graph, in_channel(options), until),
      peers_(here, options.job.empty() ? here.job() : options.job, hosts_.size()),
      exchange_(hosts_.rank(), hosts_.size()),
      job_(options.job.empty() ? here.job() : options.job) {
  try {
    connect(until);
  } catch (const error& problem) {
    here_.set_failure(problem);
    detail::mpi_library::get().set_broken();
    throw;
  }
}

inline mpi_all_reduce::~mpi_all_reduce() {
  if (is_stuck_ || exchange_.is_under_way())
    detail::mpi_library::get().set_broken();
  else if (ranks_ != MPI_COMM_NULL)
    MPI_Comm_free(&ranks_);
}

/// Creates a communicator of the job's tasks, in the order of their indices.
inline void mpi_all_reduce::connect(deadline until) {
  detail::mpi_library::get();
  int own = 0, count = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  std::vector<double> numbers(size() + 1);  // each rank's number in MPI_COMM_WORLD, and the sum of its sizes
  numbers[rank()] = own;
  numbers[size()] = count;
  hosts_.sum(std::span(numbers), until);
  std::vector<int> order;
  for (std::size_t r = 0; r < size(); ++r) order.push_back(static_cast<int>(numbers[r]));
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (numbers[size()] != static_cast<double>(count) * static_cast<double>(size()) ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() || sorted.back() >= count)
    throw error(error_code::failed_precondition, operation,
                {"MPI did not start the ", size(), " tasks together: its world has ", count, " process(es), and ",
                 here_.name(), " is number ", own, "; start all tasks with one mpirun, or with srun --mpi=pmix"});
  MPI_Group world = MPI_GROUP_NULL, chosen = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, static_cast<int>(size()), order.data(), &chosen);
  const int made = MPI_Comm_create_group(MPI_COMM_WORLD, chosen, 0, &ranks_);
  MPI_Group_free(&chosen);
  MPI_Group_free(&world);
  detail::check_mpi(made, "MPI_Comm_create_group");
  detail::check_mpi(MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

template <typename Element>
detail::joint_statement mpi_all_reduce::reduce(std::span<Element> data, const detail::reduce_statement& mine,
                                               deadline until) {
  if (broken_)
    throw error(error_code::failed_precondition, operation, "the group failed with an earlier error; make a new one");
  const double factor = mine.weight != 0 ? mine.weight : 1;
  try {
    if (!exchange_.is_under_way()) {
      if (mine.weight == 0) std::fill(data.begin(), data.end(), Element{0});  // 0 times NaN is NaN
      exchange_.begin(ranks_, mine, std::span<const Element>(data), factor);
    } else if (!mine.same_call(exchange_.call()))
      throw error(error_code::failed_precondition, operation,
                  "the last call ran out of time and has not completed; repeat it with the same array");
    wait(until);
    const detail::joint_statement said = exchange_.joint();
    check_agreement(said);
    if (exchange_.carries(data.size_bytes())) {
      exchange_.take(data);
    } else {
      if (factor != 1) detail::scale(data.data(), data.size(), static_cast<Element>(factor));
      add_up(data);
    }
    if (failed_) here_.clear_failure();
    failed_ = false;
    return said;
  } catch (const error& problem) {
    here_.set_failure(problem);
    failed_ = true;
    if (problem.code() != error_code::deadline_exceeded) broken_ = true;
    throw;
  }
}

inline void mpi_all_reduce::wait(deadline until) {
  // Checking which ranks are alive costs about as much as polling MPI.
  constexpr int rounds = 64;
  for (int round = 1; !exchange_.advance(); ++round) {
    if (round % rounds != 0) continue;
    peers_.check();
    if (until.expired())
      throw error(error_code::deadline_exceeded, operation, "another rank has not made the same call in time");
    if (here_.stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
    std::this_thread::yield();
  }
}

inline void mpi_all_reduce::check_agreement(const detail::joint_statement& said) const {
  if (said.other == 0) return;
  throw error(error_code::failed_precondition, operation,
              {to_string(task_id{job_, static_cast<int>(said.other) - 1}), " disagrees with ", here_.name(),
               "; all ranks must make the same calls in the same order"});
}

template <typename Element>
void mpi_all_reduce::add_up(std::span<Element> data) {
  static_assert(std::is_same_v<Element, float> || std::is_same_v<Element, double>);
  constexpr std::size_t at_once = INT_MAX / 64 * 64;
  is_stuck_ = true;
  for (std::size_t done = 0; done < data.size(); done += at_once)
    detail::check_mpi(
        MPI_Allreduce(MPI_IN_PLACE, data.data() + done, static_cast<int>(std::min(at_once, data.size() - done)),
                      std::is_same_v<Element, float> ? MPI_FLOAT : MPI_DOUBLE, MPI_SUM, ranks_),
        "MPI_Allreduce");
  is_stuck_ = false;
}

}  // namespace weft

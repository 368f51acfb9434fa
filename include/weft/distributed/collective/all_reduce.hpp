// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/device/cpu/vector_loops.hpp>
#include <weft/distributed/collective/all_reduce_options.hpp>
#include <weft/distributed/collective/host_group.hpp>
#include <weft/distributed/collective/rank_links.hpp>
#include <weft/distributed/collective/reduce_algorithms.hpp>
#include <weft/distributed/collective/shared_reduce.hpp>
#include <weft/distributed/collective/weighted_arrays.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/error.hpp>

namespace weft {

/// A group of tasks of one job that sum arrays together. All ranks must make the same calls in the same order. All
/// ranks get the same bits, and the same bits in every run: the order of summation depends only on the number of ranks
/// and the algorithm. With two ranks, every algorithm computes g0 + g1. The calling thread performs all I/O.
///
/// If all ranks run on one host as one user, they sum in shared memory, in rank order. On several hosts, the ranks of
/// each host sum in shared memory, and the first rank of each host exchanges messages with the first ranks of the other
/// hosts. If a rank disables server_options::shared_memory, all ranks send messages. A call that names an algorithm
/// also sends messages.
///
/// All calls throw weft::error: unavailable with the name of a task that is gone, deadline_exceeded, or
/// failed_precondition if the ranks make different calls. After deadline_exceeded, repeat the same call, on the array
/// as the failed call left it, to continue; the other ranks do not notice. After any other error, the contents of the
/// array are unspecified and the group cannot be used.
class all_reduce {
  using links_type = detail::rank_links;

 public:
  /// Connects this rank to its partners. `graph` must be equal on all ranks.
  /// Throws weft::error: deadline_exceeded with the names of the missing ranks, failed_precondition if the ranks
  /// disagree, or unavailable.
  explicit all_reduce(task_server& here, graph_identity graph = {}, all_reduce_options options = {},
                      deadline until = std::chrono::seconds(60))
      : all_reduce(here, std::move(graph), std::move(options), until, {}) {}
  /// For strategies: a group of given processes. Calls throw aborted if one of them leaves for another group.
  all_reduce(task_server& here, graph_identity graph, all_reduce_options options, deadline until,
             const detail::group_members& members)
      : here_(here),
        options_(complete(std::move(options), here)),
        links_(here, options_.job, members.all.empty() ? members_of(options_.tasks) : members.all,
               members.interrupted_by),
        memory_(here, links_) {
    try {
      links_.connect(options_.channel, until);
      links_.compare(graph, until);
      memory_.connect(options_.chunk, until);
      if (members.all.empty()) links_.ignore_interruptions();
    } catch (const error& problem) {
      here_.set_failure(problem);
      throw;
    }
  }

  all_reduce(const all_reduce&) = delete;
  all_reduce& operator=(const all_reduce&) = delete;

  std::size_t rank() const { return links_.rank(); }
  std::size_t size() const { return links_.size(); }

  /// Replaces `data` with the sum over all ranks. `data` must have the same size on all ranks; an empty span makes the
  /// call a barrier.
  template <std::floating_point Element>
  void sum(std::span<Element> data, deadline until = std::chrono::seconds(60),
           reduce_algorithm algorithm = reduce_algorithm::automatic) {
    const request asked = request_of(data, call_kind::sum, algorithm);
    make_call(asked, [&] { reduce(data, until, asked); });
  }

  /// Replaces `data` with the mean over all ranks: the sum of each rank's array times its weight, divided by the sum of
  /// the weights. The array of a rank with weight 0 is ignored, even if it contains NaN. If all weights are 0, the mean
  /// is 0. Returns the sum of the weights and the first element that is not finite.
  template <std::floating_point Element>
  mean_report mean(std::span<Element> data, deadline until = std::chrono::seconds(60),
                   reduce_algorithm algorithm = reduce_algorithm::automatic, double weight = 1) {
    request asked = request_of(data, call_kind::mean, algorithm);
    asked.weight = weight;
    return make_call(asked, [&] { return reduce(data, until, asked); });
  }

  /// For strategies: replaces `data` with the sum of arrays in a given order, so the result does not depend on which
  /// rank has which arrays. A rank can have several arrays or none. `order[n]`: the rank of the nth array, equal on all
  /// ranks. `mine`: this rank's arrays in that order. All arrays have the same size as `data`, whose contents are
  /// overwritten.
  template <std::floating_point Element>
  void sum_in_order(std::span<Element> data, std::span<const detail::weighted_array<Element>> mine,
                    std::span<const std::size_t> order, deadline until) {
    using arrays_type = std::span<const detail::weighted_array<Element>>;
    const request asked = request_of(data, call_kind::sum_in_order);
    make_call(asked, [&] {
      const std::vector<detail::ordered_stop> stops = detail::ordered_stops(order);
      std::vector<arrays_type> added;  // the arrays to add at each stop of this rank
      for (arrays_type rest = mine; const detail::ordered_stop& each : stops)
        if (each.rank == rank()) {
          added.push_back(rest.first(each.arrays));
          rest = rest.subspan(each.arrays);
        }
      if (!prepared_ && rank() == stops.front().rank) {
        std::fill(data.begin(), data.end(), Element{-0.0});  // -0.0 + x has the same bits as x, even if x is -0.0
        detail::add_arrays(data.data(), added[phase_++], 0, data.size());
      }
      prepared_ = true;
      if (size() == 1) return;
      if (!begun_)
        links_.begin(detail::ordered_schedule(size(), rank(), data.size(), stops), options_.chunk, sizeof(Element), 0);
      begun_ = true;
      struct context_type {
        const Element* begin;
        const std::vector<arrays_type>& added;
        unsigned& stops;  // number of this rank's stops reached so far
      } const context{data.data(), added, phase_};
      auto array = links_type::array_of(data);
      array.context = &context;
      array.add = [](const void* c, std::byte* to, const std::byte* from, std::size_t bytes) {
        const auto& its = *static_cast<const context_type*>(c);
        std::copy_n(from, bytes, to);
        Element* const elements = reinterpret_cast<Element*>(to);
        if (elements == its.begin) ++its.stops;
        detail::add_arrays(elements, its.added[its.stops - 1], static_cast<std::size_t>(elements - its.begin),
                           bytes / sizeof(Element));
      };
      links_.carry_out(array, until);
      begun_ = false;
    });
  }

  /// Replaces `data` with the data of rank `root` (MPI_Bcast). `data` must have the same size on all ranks.
  /// Throws weft::error (invalid_argument) if `root` is not a rank.
  template <typename Element>
    requires std::is_trivially_copyable_v<Element>
  void broadcast(std::span<Element> data, std::size_t root, deadline until = std::chrono::seconds(60)) {
    if (root >= size())
      throw error(error_code::invalid_argument, operation,
                  {"rank ", root, " must be less than the number of ranks, ", size()});
    request asked = request_of(data, call_kind::broadcast);
    asked.root = root;
    make_call(asked, [&] {
      const mutable_bytes bytes = std::as_writable_bytes(data);
      if (shares_memory()) {
        memory_.gather(bytes, memory_.shares_from(root, bytes.size()), until, 0);
        return;
      }
      run(data, until, [&] {
        const double p = static_cast<double>(size()), chunk = static_cast<double>(options_.chunk);
        const double chain =
            std::min(static_cast<double>(bytes.size()), chunk) * (p - 2) / options_.cost.megabytes_per_s;
        const double one = static_cast<double>(bytes.size()) / options_.cost.megabytes_per_s;
        const double levels = static_cast<double>(std::bit_width(size() - 1));
        const bool in_chain =
            (p - 1) * options_.cost.message_us + chain + one < levels * (options_.cost.message_us + one);
        return detail::broadcast_schedule(size(), rank(), data.size(), root, in_chain);
      });
    });
  }

  /// Completes `data` on all ranks from each rank's share of it (MPI_Allgather in place). `data` must have the same
  /// size on all ranks. See reduce_scatter() for the shares.
  template <typename Element>
    requires std::is_trivially_copyable_v<Element>
  void all_gather(std::span<Element> data, deadline until = std::chrono::seconds(60)) {
    make_call(request_of(data, call_kind::all_gather), [&] {
      if (shares_memory()) {
        std::vector<detail::element_range> shares(size());
        for (std::size_t r = 0; r < size(); ++r) {
          const detail::element_range its = detail::share_of_rank(data.size(), size(), r);
          shares[r] = {its.begin * sizeof(Element), its.end * sizeof(Element)};
        }
        memory_.gather(std::as_writable_bytes(data), shares, until, 0);
        return;
      }
      run(data, until, [&] { return detail::all_gather_schedule(size(), rank(), data.size()); });
    });
  }

  /// Computes this rank's share of the sum over all ranks in place, and returns it (MPI_Reduce_scatter in place). The
  /// other elements of `data` are unspecified. With n elements and p ranks, the share of rank r begins at n / p * r +
  /// min(r, n % p) and has n / p elements, one more if r < n % p. `data` must have the same size on all ranks.
  template <std::floating_point Element>
  std::span<Element> reduce_scatter(std::span<Element> data, deadline until = std::chrono::seconds(60)) {
    const request asked = request_of(data, call_kind::reduce_scatter);
    make_call(asked, [&] {
      if (shares_memory())
        memory_.reduce(data, until, asked.is_mean(), asked.weight, 0);
      else
        run(data, until, [&] { return detail::reduce_scatter_schedule(size(), rank(), data.size()); });
    });
    const detail::element_range mine = detail::share_of_rank(data.size(), size(), rank());
    return data.subspan(mine.begin, mine.size());
  }

  /// Returns when all ranks have called it.
  void barrier(deadline until = std::chrono::seconds(60)) { sum(std::span<double>(), until); }

  /// Measures the cost of the links and, from now on, uses it to choose algorithms. All ranks get the same costs.
  /// Measurements differ from run to run, so with three or more ranks the last bits of sums that name no algorithm can
  /// differ, too.
  link_cost fit(deadline until = std::chrono::seconds(60)) {
    check_usable();
    broken_ = true;
    constexpr std::size_t large = std::size_t{1} << 20;
    std::vector<float> some(large / sizeof(float), 1.0f), other(some);
    const auto time_of = [&](std::size_t elements, int repeats) {
      const std::span<float> data = std::span(some).first(elements);
      const auto doubling = [&] {
        links_.exchange(data, detail::recursive_doubling(size(), rank(), elements), options_.chunk, until);
      };
      doubling();
      const auto start = detail::now();
      for (int i = 0; i < repeats; ++i) doubling();
      const std::chrono::duration<double, std::micro> elapsed = detail::now() - start;
      return std::max(elapsed.count(), 1e-3) / repeats;
    };
    link_cost made = options_.cost;
    if (size() > 1) {
      const double exchanges = static_cast<double>(std::bit_width(size())) - 1 + (std::has_single_bit(size()) ? 0 : 2);
      made.message_us = time_of(1, 32) / exchanges;
      const double whole = time_of(some.size(), 4) / exchanges;
      const auto start = detail::now();
      detail::accumulate(some.data(), other.data(), some.size());
      const double adding = std::max(std::chrono::duration<double, std::micro>(detail::now() - start).count(), 1e-3);
      made.sum_megabytes_per_s = large / adding;
      made.megabytes_per_s = large / std::max({whole - made.message_us - adding, whole / 10, 1e-3});
      double numbers[] = {made.message_us, made.megabytes_per_s, made.sum_megabytes_per_s};
      links_.exchange(std::span<double>(numbers), detail::broadcast_schedule(size(), rank(), 3, 0, false),
                      options_.chunk, until);
      made = {numbers[0], numbers[1], numbers[2]};
    }
    broken_ = false;
    return options_.cost = made;
  }

  /// Returns true if all ranks sum in shared memory.
  bool shares_memory() const { return memory_.is_shared() && links_.on_one_host(); }

  /// Returns zeroed memory for an array that is summed often: the sum of an array that fills it exactly needs no
  /// copies. It lives as long as the group. All ranks must request the same size. Returns an empty span unless all
  /// ranks share memory.
  mutable_bytes shared_block(std::size_t bytes, deadline until = std::chrono::seconds(60)) {
    if (!shares_memory() || bytes == 0) return {};
    check_usable();
    broken_ = true;
    const mutable_bytes made = memory_.make_block(bytes, options_.chunk, until);
    broken_ = false;
    return made;
  }

 private:
  static constexpr const char* operation = links_type::operation;

  enum class call_kind : unsigned char { sum, mean, broadcast, all_gather, reduce_scatter, sum_in_order };

  /// The properties of a call, by which a repeated call is recognized.
  struct request {
    const void* data = nullptr;
    std::size_t bytes = 0, element = 0;
    call_kind kind{};
    reduce_algorithm algorithm{};
    double weight = 1;
    std::size_t root = 0;

    bool is_mean() const { return kind == call_kind::mean; }
    /// Returns the word that messages carry and ranks compare: all properties that must be equal, except the size.
    std::int64_t word() const {
      return static_cast<std::int64_t>(element << 32 | root << 12 | static_cast<std::size_t>(algorithm) << 4 |
                                       static_cast<std::size_t>(kind));
    }

    friend bool operator==(const request&, const request&) = default;
  };

  static all_reduce_options complete(all_reduce_options options, const task_server& here) {
    if (options.job.empty()) options.job = here.job();
    if (here.job() != options.job)
      throw error(error_code::invalid_argument, operation,
                  {"only tasks of job '", options.job, "' can join the group; this is ", here.name()});
    check_dense(here.cluster(), options.job);
    options.chunk = std::max<std::size_t>(options.chunk / 64 * 64, 64);
    return options;
  }

  static std::vector<detail::group_member> members_of(const std::vector<int>& tasks) {
    std::vector<detail::group_member> members;
    for (const int index : tasks) members.push_back({index, 0});
    return members;
  }

  template <typename Element>
  static request request_of(std::span<Element> data, call_kind kind,
                            reduce_algorithm algorithm = reduce_algorithm::automatic) {
    return {data.data(), data.size_bytes(), sizeof(Element), kind, algorithm};
  }

  void check_usable() const {
    if (broken_ || late_)
      throw error(error_code::failed_precondition, operation,
                  "the last call has not completed; repeat it, or make a new group");
  }

  /// Begins a call, or continues one that ran out of time.
  template <typename Work>
  auto make_call(const request& asked, Work work) {
    if (broken_)
      throw error(error_code::failed_precondition, operation, "the group failed with an earlier error; make a new one");
    if (late_ && !(*late_ == asked))
      throw error(error_code::failed_precondition, operation,
                  "the last call ran out of time and has not completed; repeat it with the same array");
    if (!late_) {
      links_.begin_call(asked.word());
      begun_ = prepared_ = false;
      phase_ = 0;
      weights_ = asked.weight;
    }
    broken_ = true;
    const auto succeeded = [&] {
      late_.reset();
      broken_ = false;
      if (failed_) here_.clear_failure();
      failed_ = false;
    };
    try {
      if constexpr (std::is_void_v<decltype(work())>) {
        work();
        succeeded();
      } else {
        auto made = work();
        succeeded();
        return made;
      }
    } catch (const error& problem) {
      if (problem.code() == error_code::deadline_exceeded) {
        late_ = asked;
        broken_ = false;
      } else {
        give_up();
      }
      failed_ = true;
      here_.set_failure(problem);
      throw;
    }
  }

  template <typename Element>
  mean_report reduce(std::span<Element> data, deadline until, const request& asked) {
    const bool mean = asked.is_mean(), automatic = asked.algorithm == reduce_algorithm::automatic;
    if (shares_memory() && automatic) {
      memory_.reduce(data, until, mean, asked.weight, 0);
      if (!mean) return {};
      const detail::nonfinite_element& found = memory_.nonfinite();
      mean_report made{memory_.weights(), !found.found(), found.element, {}};
      if (found.rank != detail::nonfinite_element::nowhere) made.rank = found.rank;
      return made;
    }
    if (!prepared_) {
      if (mean && asked.weight == 0) std::fill(data.begin(), data.end(), Element{0});
      own_nonfinite_ =
          mean && asked.weight != 0 && size() > 1 ? detail::first_nonfinite(data.data(), data.size()) : data.size();
      if (mean && asked.weight != 0 && asked.weight != 1)
        detail::scale(data.data(), data.size(), static_cast<Element>(asked.weight));
      prepared_ = true;
    }
    if (memory_.is_of_several_hosts() && automatic) {
      reduce_by_hosts(data, until, asked);
    } else if (size() > 1) {
      run(data, until, [&] {
        return detail::schedule_of(automatic ? options_.cost.choose(size(), data.size_bytes()) : asked.algorithm,
                                   size(), rank(), data.size());
      });
    }
    mean_report made{weights_, true, 0, {}};
    if (!mean || weights_ == 0) return made;
    if (detail::divide(data.data(), data.size(), static_cast<Element>(weights_))) return made;
    made.finite = false;
    made.element = detail::first_nonfinite(data.data(), data.size());
    find_culprit(made, data.size(), until);
    return made;
  }

  /// Finds the rank that contributed the first element that is not finite. All ranks call it, because all have the same
  /// mean.
  void find_culprit(mean_report& made, std::size_t elements, deadline until) {
    if (size() == 1) made.rank = rank();
    std::vector<double> first(size());  // by rank, each plus one
    if (own_nonfinite_ < elements) first[rank()] = static_cast<double>(own_nonfinite_) + 1;
    try {
      if (size() > 1)
        links_.exchange(std::span(first), detail::recursive_doubling(size(), rank(), size()), options_.chunk, until);
    } catch (const error& problem) {  // a repeated call cannot continue from here
      throw error(problem.code() == error_code::deadline_exceeded ? error_code::unavailable : problem.code(), operation,
                  problem.sentence());
    }
    for (std::size_t r = 0; r < size(); ++r)
      if (first[r] >= 1 && first[r] <= static_cast<double>(elements)) {  // ignores invalid positions
        made.element = static_cast<std::size_t>(first[r]) - 1;
        made.rank = r;
        return;
      }
  }

  // ---- messages ----

  /// Carries out or continues the schedule that `make` returns. `ranks`: the participants; empty for all ranks.
  template <typename Element, typename Make>
  void run(std::span<Element> data, deadline until, Make make, std::span<const std::size_t> ranks = {}) {
    if (!begun_) links_.begin(make(), options_.chunk, sizeof(Element), weights_, ranks);
    begun_ = true;
    const double made = links_.carry_out(links_type::array_of(data), until);
    begun_ = false;
    weights_ = made;
  }

  /// Sums in shared memory on each host, then by messages between the hosts' leaders, which share the result on their
  /// hosts.
  template <typename Element>
  void reduce_by_hosts(std::span<Element> data, deadline until, const request& asked) {
    const std::vector<std::size_t>& leaders = links_.leaders();
    const bool leads = links_.mates().front() == rank();
    const std::span<double> weights(&weights_, 1);
    if (phase_ == 0 && memory_.is_shared()) memory_.reduce(data, until, asked.is_mean(), asked.weight, 1);
    phase_ = std::max(phase_, 1u);
    if (phase_ == 1 && memory_.is_shared() && asked.is_mean()) memory_.reduce(weights, until, true, asked.weight, 2);
    phase_ = std::max(phase_, 2u);
    if (phase_ == 2 && leads) {
      const auto self = std::find(leaders.begin(), leaders.end(), rank()) - leaders.begin();
      run(
          data, until,
          [&] {
            return detail::schedule_of(options_.cost.choose(leaders.size(), data.size_bytes()), leaders.size(),
                                       static_cast<std::size_t>(self), data.size());
          },
          leaders);
    }
    phase_ = std::max(phase_, 3u);
    if (phase_ == 3 && memory_.is_shared())
      memory_.gather(std::as_writable_bytes(data), memory_.shares_from(0, data.size_bytes()), until, 3);
    phase_ = std::max(phase_, 4u);
    if (phase_ == 4 && memory_.is_shared() && asked.is_mean())
      memory_.gather(std::as_writable_bytes(weights), memory_.shares_from(0, sizeof(double)), until, 4);
    phase_ = 5;
  }

  /// Closes the connections, and detaches this rank's memory from writes of other ranks.
  void give_up() {
    links_.close();
    memory_.detach();
  }

  task_server& here_;
  all_reduce_options options_;
  links_type links_;
  detail::host_group memory_;  // shared with the ranks of this host
  bool broken_ = false;
  bool failed_ = false;  // the last call failed

  // Progress of the current call, or of the last call if it ran out of time.
  std::optional<request> late_;
  bool prepared_ = false;          // this rank's array is scaled and ready to be sent
  bool begun_ = false;             // the transfer has begun
  unsigned phase_ = 0;             // progress of reduce_by_hosts() or sum_in_order()
  double weights_ = 1;             // sum of the weights of the arrays added to `data`
  std::size_t own_nonfinite_ = 0;  // the first element of this rank's array that is not finite
};

}  // namespace weft

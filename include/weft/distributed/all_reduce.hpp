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
#include <utility>
#include <vector>

#include <weft/distributed/parameter_store.hpp>
#include <weft/distributed/server.hpp>
#include <weft/distributed/shared_reduce.hpp>
#include <weft/distributed/update_rule.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>

namespace weft {

enum class reduce_algorithm : unsigned char {
  automatic,           // whichever the cost rule expects to be faster
  recursive_doubling,  // log2(p) rounds of the whole: few messages
  ring,                // 2(p-1) rounds of 1/p each, cut through: few bytes, and arithmetic while bytes travel
};

/// What a link costs, to choose an algorithm by. The defaults were measured between two polling processes on loopback.
struct link_cost {
  double message_us = 5;          // to send and receive a small message
  double megabytes_per_s = 3000;  // both directions at once
  double sum_megabytes_per_s = 8000;

  /// The cheaper one to reduce `bytes` over `ranks`: rounds, bytes moved and bytes summed, each at its price.
  reduce_algorithm choose(std::size_t ranks, std::size_t bytes) const {
    if (ranks <= 1) return reduce_algorithm::recursive_doubling;
    const double p = static_cast<double>(ranks), size = static_cast<double>(bytes);
    const bool power_of_two = std::has_single_bit(ranks);
    const double rounds = static_cast<double>(std::bit_width(ranks) - 1) + (power_of_two ? 0 : 2);
    const double per_byte = 1 / megabytes_per_s, per_sum = 1 / sum_megabytes_per_s;
    const double doubling = rounds * (message_us + size * (per_byte + per_sum));
    const double ring = 2 * (p - 1) * message_us + size * (p - 1) / p * (2 * per_byte + per_sum);
    return doubling <= ring ? reduce_algorithm::recursive_doubling : reduce_algorithm::ring;
  }
};

struct all_reduce_options {
  std::string job;                             // whose tasks take part; empty: the server's own job
  std::string channel = "all_reduce";          // tells several groups of the same tasks apart
  std::size_t chunk = std::size_t{256} << 10;  // bytes of a ring's message
  link_cost cost;
};

/// The tasks of a job that sum arrays together. Every rank must make the same calls in the same order. All ranks get
/// the same bits, and the same bits in every run: the order of summation depends on the number of ranks and the
/// algorithm only. With two ranks every algorithm gives g0 + g1. The calling thread does the input and output.
///
/// Ranks that all run on one host, as one user, sum in memory that all of them have mapped, rank after rank; where one
/// refuses (server_options::shared_memory) all send messages. A call that names an algorithm sends messages.
///
/// After an error the array's contents are unspecified, and the group is of no further use.
template <transport T = tcp, typename Clock = std::chrono::steady_clock>
class basic_all_reduce {
 public:
  using deadline_type = basic_deadline<Clock>;

  /// Connects the ranks that will talk to each other. `graph` must be the same on all of them.
  /// Throws weft::error: deadline_exceeded with who is missing, failed_precondition where the ranks disagree,
  /// unavailable.
  explicit basic_all_reduce(basic_server<T, Clock>& here, graph_identity graph = {}, all_reduce_options options = {},
                            deadline_type until = std::chrono::seconds(60))
      : here_(here), options_(std::move(options)), idle_(here.network(), here.waiting()) {
    if (options_.job.empty()) options_.job = here.job();
    if (here.job() != options_.job)
      throw error(error_code::invalid_argument, "all_reduce", here.name() + " is not in job '" + options_.job + "'");
    options_.chunk = std::max<std::size_t>(options_.chunk / 64 * 64, 64);
    rank_ = static_cast<std::size_t>(here.index());
    size_ = static_cast<std::size_t>(here.cluster().num_tasks(options_.job));
    first_rank_ = here.cluster().rank({options_.job, 0});
    links_.resize(size_);
    connect(until);
    compare(graph, until);
    std::vector<shared_segment> segments = share(detail::shared_reduce::room(), until);
    if (!segments.empty()) memory_.emplace(std::move(segments), rank_, here_.waiting());
  }

  basic_all_reduce(const basic_all_reduce&) = delete;
  basic_all_reduce& operator=(const basic_all_reduce&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }

  /// Replaces `data` by the sum over all ranks. Every rank gives equally many elements; none at all makes it a barrier.
  /// Throws weft::error: unavailable that names the task that is gone, deadline_exceeded, failed_precondition where the
  /// ranks make different calls.
  template <std::floating_point Element>
  void sum(std::span<Element> data, deadline_type until = std::chrono::seconds(60),
           reduce_algorithm algorithm = reduce_algorithm::automatic) {
    reduce(data, until, algorithm, false);
  }

  /// Replaces `data` by the mean over all ranks: sum(), then a division by their number.
  template <std::floating_point Element>
  void mean(std::span<Element> data, deadline_type until = std::chrono::seconds(60),
            reduce_algorithm algorithm = reduce_algorithm::automatic) {
    reduce(data, until, algorithm, true);
  }

  /// Whether the ranks sum in shared memory.
  bool shares_memory() const { return memory_.has_value(); }

  /// Memory, all zero, where an array that is summed often is best kept: summing what fills it exactly moves nothing.
  /// It lives as long as the group. All ranks ask for equally many bytes, as they make the same calls; empty where the
  /// ranks share no memory.
  mutable_bytes shared_block(std::size_t bytes, deadline_type until = std::chrono::seconds(60)) {
    if (!memory_ || bytes == 0) return {};
    std::vector<shared_segment> segments = share(bytes, until);
    if (segments.empty()) return {};
    blocks_.push_back(std::move(segments));
    return blocks_.back()[rank_].bytes();
  }

 private:
  struct link {
    std::size_t rank = 0;  // in the cluster
    typename T::stream stream;
    frame_writer out;
    frame_reader in;
  };

  static constexpr const char* operation = "all_reduce";

  template <typename Element>
  void reduce(std::span<Element> data, deadline_type until, reduce_algorithm algorithm, bool mean) {
    ++calls_;
    if (size_ == 1) return;
    if (broken_)
      throw error(error_code::failed_precondition, operation, "the group broke with an earlier error; make a new one");
    broken_ = true;
    if (memory_ && algorithm == reduce_algorithm::automatic) {
      reduce_in_memory(data, until, mean);
    } else {
      if (algorithm == reduce_algorithm::automatic) algorithm = options_.cost.choose(size_, data.size_bytes());
      if (algorithm == reduce_algorithm::ring)
        ring(data, until);
      else
        recursive_doubling(data, until);
      if (mean) detail::divide(data.data(), data.size(), static_cast<Element>(size_));
    }
    broken_ = false;
  }

  // ---- shared memory ----

  template <typename Element>
  void reduce_in_memory(std::span<Element> data, deadline_type until, bool mean) {
    const auto look = [&](std::size_t rank, auto has_come) {
      const std::size_t peer = first_rank_ + rank;
      std::optional<error> problem = someone_gone();
      if (!problem && here_.members().state(peer) == task_state::left)
        problem = here_.members().diagnose(peer, operation, "is gone");
      if (!problem && until.expired())
        problem = error(error_code::deadline_exceeded, operation,
                        "nothing in time from " + to_string(here_.members().task(peer)));
      if (problem && !has_come()) fail(*problem);  // it may have come, and left, after it was asked
      return std::chrono::duration_cast<std::chrono::nanoseconds>(
          until.remaining(std::chrono::duration_cast<typename Clock::duration>(std::chrono::milliseconds(20))));
    };
    const auto same = [&](const std::vector<shared_segment>& block) {
      const mutable_bytes mine = block[rank_].bytes();
      return mine.data() == reinterpret_cast<std::byte*>(data.data()) && mine.size() == data.size_bytes();
    };
    const auto block = std::find_if(blocks_.begin(), blocks_.end(), same);
    const detail::reduce_call call{calls_, data.size_bytes(), sizeof(Element), mean, block != blocks_.end()};
    try {
      memory_->run(data, call, block == blocks_.end() ? std::span<const shared_segment>{} : *block, look);
    } catch (const detail::reduce_disagreement& other) {
      fail(error(error_code::failed_precondition, operation,
                 to_string(here_.members().task(first_rank_ + other.rank)) + " disagrees with " + here_.name() +
                     " about all-reduce number " + std::to_string(calls_) +
                     "; all ranks must make the same calls in the same order"));
    }
  }

  /// Memory that all ranks have mapped, one segment made by each; none where not all of them want it, or can.
  std::vector<shared_segment> share(std::size_t bytes, deadline_type until) {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const task_id& task = here_.members().task(first_rank_ + rank);
      if (size_ == 1 || !same_host<T>(here_.cluster().task_address(task.job, task.index))) return {};
    }
    std::vector<shared_segment> segments(size_);
    try {
      if (here_.options().shared_memory) segments[rank_] = shared_segment::create(bytes);
    } catch (const error&) {
      // the system has none to give: the others learn it from the offer
    }
    double failures = segments[rank_] ? 0 : 1;
    std::vector<std::byte> leaving = detail::offer_bytes(segments[rank_] ? segments[rank_].offer() : shared_offer{});
    std::vector<std::byte> coming(leaving.size());
    for (std::size_t round = 1; round < size_; ++round) {
      pass_on(leaving, coming, until);
      std::swap(leaving, coming);
      try {
        const shared_offer offer = detail::read_offer(leaving);
        if (failures == 0) segments[(rank_ + size_ - round) % size_] = shared_segment::open(offer, bytes);
      } catch (const error&) {
        failures = 1;
      }
    }
    ++calls_;
    recursive_doubling(std::span(&failures, 1), until);
    if (failures != 0) return {};
    segments[rank_].withdraw();
    return segments;
  }

  /// Sends to the next rank, receives from the previous one.
  void pass_on(const_bytes leaving, mutable_bytes coming, deadline_type until) {
    ++calls_;
    link &to = *links_[(rank_ + 1) % size_], &from = *links_[(rank_ + size_ - 1) % size_];
    to.out.start(header(), leaving);
    from.in.expect({&coming, 1});
    drive(
        until, to, from, [&] { return to.out.advance(to.stream) + from.in.advance(from.stream); },
        [&] { return to.out.idle() && from.in.complete(); });
    verify(from);
  }

  // ---- set-up ----

  std::vector<std::size_t> partners() const {
    std::vector<std::size_t> found{(rank_ + 1) % size_, (rank_ + size_ - 1) % size_};
    const std::size_t core = std::bit_floor(size_);
    if (rank_ >= core) found.push_back(rank_ - core);
    if (rank_ + core < size_) found.push_back(rank_ + core);
    for (std::size_t bit = 1; rank_ < core && bit < core; bit *= 2) found.push_back(rank_ ^ bit);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::erase(found, rank_);
    return found;
  }

  void connect(deadline_type until) {
    here_.members().wait_for(until, [&](const task_id& task) { return task.job == options_.job; });
    for (const std::size_t partner : partners()) {
      auto made = std::make_unique<link>();
      made->rank = first_rank_ + partner;
      made->stream = partner < rank_ ? here_.open_channel(made->rank, options_.channel, until)
                                     : here_.accept_channel(made->rank, options_.channel, until);
      links_[partner] = std::move(made);
    }
  }

  void compare(const graph_identity& graph, deadline_type until) {
    frame_header mine;
    mine.kind = frame_kind::group;
    mine.tag = graph.hash;
    mine.step = static_cast<std::int64_t>(graph.seed);
    for (const auto& each : links_) {
      if (!each) continue;
      each->out.start(mine);
      each->in.expect(std::span<const mutable_bytes>{});
      drive(
          until, *each, *each, [&] { return each->out.advance(each->stream) + each->in.advance(each->stream); },
          [&] { return each->out.idle() && each->in.complete(); });
      const frame_header& its = each->in.header();
      if (its.step != mine.step) refuse(*each, "seed is ", static_cast<std::uint64_t>(its.step), graph.seed);
      if (its.kind != frame_kind::group || its.tag != graph.hash) refuse(*each, "graph has hash ", its.tag, graph.hash);
    }
  }

  [[noreturn]] void refuse(const link& other, const char* what, std::uint64_t its, std::uint64_t mine) const {
    throw error(error_code::failed_precondition, operation,
                name(other) + " does not train the same model: its " + what + std::to_string(its) + ", that of " +
                    here_.name() + " " + std::to_string(mine) + "; run the same program with the same flags");
  }

  // ---- recursive doubling ----

  template <typename Element>
  void recursive_doubling(std::span<Element> data, deadline_type until) {
    const std::size_t core = std::bit_floor(size_);  // as many ranks do the doubling; the others hand in their share
    const std::span<Element> other = scratch<Element>(data.size());
    if (rank_ >= core) {
      send(*links_[rank_ - core], data, until);
      receive(*links_[rank_ - core], data, until);
      return;
    }
    if (rank_ + core < size_) {
      receive(*links_[rank_ + core], other, until);
      detail::accumulate(data.data(), other.data(), data.size());
    }
    for (std::size_t bit = 1; bit < core; bit *= 2) {
      exchange(*links_[rank_ ^ bit], data, other, until);
      detail::accumulate(data.data(), other.data(), data.size());
    }
    if (rank_ + core < size_) send(*links_[rank_ + core], data, until);
  }

  template <typename Element>
  void send(link& to, std::span<Element> data, deadline_type until) {
    to.out.start(header(), const_bytes(std::as_bytes(data)), here_.options().checksum);
    drive(
        until, to, to, [&] { return to.out.advance(to.stream); }, [&] { return to.out.idle(); }, false);
  }

  template <typename Element>
  void receive(link& from, std::span<Element> data, deadline_type until) {
    const mutable_bytes target = std::as_writable_bytes(data);
    from.in.expect({&target, 1});
    drive(
        until, from, from, [&] { return from.in.advance(from.stream); }, [&] { return from.in.complete(); });
    verify(from);
  }

  template <typename Element>
  void exchange(link& with, std::span<Element> mine, std::span<Element> its, deadline_type until) {
    const mutable_bytes target = std::as_writable_bytes(its);
    with.in.expect({&target, 1});
    with.out.start(header(), const_bytes(std::as_bytes(mine)), here_.options().checksum);
    drive(
        until, with, with,
        [&] {
          const std::size_t left = with.out.idle() ? 0 : with.out.advance(with.stream);
          return left + with.in.advance(with.stream);
        },
        [&] { return with.out.idle() && with.in.complete(); });
    verify(with);
  }

  // ---- ring ----

  // Chunk after chunk goes round: what has just arrived from the previous rank, and been summed, is what the next one
  // gets. The segment sent in round k+1 is the one received in round k, cut into the same chunks; so the n-th chunk
  // beyond the first segment may leave as soon as n chunks have arrived, and sending, receiving and summing overlap.
  template <typename Element>
  void ring(std::span<Element> data, deadline_type until) {
    link &to = *links_[(rank_ + 1) % size_], &from = *links_[(rank_ + size_ - 1) % size_];
    const std::size_t most = options_.chunk / sizeof(Element);
    const std::span<Element> other = scratch<Element>(most);
    cursor sending(*this, data.size(), most, rank_), receiving(*this, data.size(), most, rank_ + size_ - 1);
    std::size_t may_leave = sending.chunks_in_segment();

    const auto next_target = [&] {
      if (receiving.over()) return;
      const std::span<Element> chunk = receiving.in(data);
      const mutable_bytes target =
          std::as_writable_bytes(receiving.round() < size_ - 1 ? other.first(chunk.size()) : chunk);
      from.in.expect({&target, 1});
    };
    next_target();
    drive(
        until, to, from,
        [&] {
          std::size_t moved = 0;
          if (!to.out.idle()) moved += to.out.advance(to.stream);
          if (to.out.idle() && !sending.over() && may_leave > 0) {
            to.out.start(header(), const_bytes(std::as_bytes(sending.in(data))), here_.options().checksum);
            moved += to.out.advance(to.stream);
            sending.next();
            --may_leave;
          }
          if (receiving.over()) return moved;
          moved += from.in.advance(from.stream);
          if (from.in.complete()) {
            verify(from);
            const std::span<Element> chunk = receiving.in(data);
            if (receiving.round() < size_ - 1) detail::accumulate(chunk.data(), other.data(), chunk.size());
            receiving.next();
            ++may_leave;
            next_target();
          }
          return moved;
        },
        [&] { return sending.over() && to.out.idle() && receiving.over(); });
  }

  /// Walks over the chunks that one rank sends or receives, round after round.
  class cursor {
   public:
    cursor(const basic_all_reduce& group, std::size_t elements, std::size_t most, std::size_t first_segment)
        : ranks_(group.size_), elements_(elements), most_(most), segment_(first_segment % group.size_) {
      skip_empty();
    }

    bool over() const { return round_ == 2 * (ranks_ - 1); }
    std::size_t round() const { return round_; }

    /// Chunks of the first segment, were the cursor there; 0 where it is empty and was skipped.
    std::size_t chunks_in_segment() const { return round_ == 0 ? (end() - begin() + most_ - 1) / most_ : 0; }

    template <typename Element>
    std::span<Element> in(std::span<Element> data) const {
      const std::size_t first = begin() + done_;
      return data.subspan(first, std::min(most_, end() - first));
    }

    void next() {
      done_ += std::min(most_, end() - begin() - done_);
      skip_empty();
    }

   private:
    std::size_t begin() const { return share(segment_); }
    std::size_t end() const { return share(segment_ + 1); }
    std::size_t share(std::size_t segment) const {
      return elements_ / ranks_ * segment + std::min(segment, elements_ % ranks_);
    }
    void skip_empty() {
      while (!over() && done_ == end() - begin()) {
        ++round_;
        segment_ = (segment_ + ranks_ - 1) % ranks_;
        done_ = 0;
      }
    }

    std::size_t ranks_, elements_, most_, segment_, round_ = 0, done_ = 0;
  };

  // ---- common ----

  frame_header header() const {
    frame_header result;
    result.kind = frame_kind::reduce;
    result.request = calls_;
    return result;
  }

  void verify(const link& from) const {
    const frame_header& its = from.in.header();
    if (its.kind != frame_kind::reduce || its.request != calls_)
      throw error(error_code::failed_precondition, operation,
                  name(from) + " is in its all-reduce number " + std::to_string(its.request) + ", " + here_.name() +
                      " in number " + std::to_string(calls_) +
                      "; all ranks must make the same calls in the same order");
  }

  /// Repeats `step`, which returns how many bytes it moved, until `complete`.
  template <typename Step, typename Complete>
  void drive(deadline_type until, link& to, link& from, Step step, Complete complete, bool reads = true) {
    idle_.moved();
    for (;;) {
      std::size_t moved = 0;
      try {
        moved = step();
      } catch (const error& problem) {
        if (problem.code() == error_code::failed_precondition) fail(problem);
        // Which of the two connections it was: the one whose peer is gone, or else the one that is read.
        const bool to_is_gone = here_.members().state(to.rank) != task_state::alive;
        fail(here_.diagnose(to_is_gone ? to.rank : from.rank, operation, problem));
      }
      if (complete()) return;
      if (moved > 0) {
        idle_.moved();
        continue;
      }
      if (until.expired())
        fail(error(
            error_code::deadline_exceeded, operation,
            "nothing in time from " + name(from) + (to.rank == from.rank ? "" : ", or nothing taken by " + name(to))));
      typename T::wait_item items[2] = {{&from.stream, reads && !from.in.complete(), &to == &from && !to.out.idle()},
                                        {&to.stream, false, !to.out.idle()}};
      if (!idle_.pause(std::span(items).first(&to == &from ? 1 : 2), until)) continue;
      look_around();
    }
  }

  void look_around() {
    if (const std::optional<error> problem = someone_gone()) fail(*problem);
  }

  std::optional<error> someone_gone() const {
    for (std::size_t other = 0; other < size_; ++other) {
      const std::size_t rank = first_rank_ + other;
      if (here_.members().state(rank) == task_state::lost) return here_.members().diagnose(rank, operation, "is gone");
    }
    if (here_.stopping()) return error(error_code::cancelled, operation, "this server was stopped");
    return {};
  }

  [[noreturn]] void fail(const error& problem) {
    for (auto& each : links_)
      if (each) each->stream.close();
    if (memory_) memory_->detach();
    for (const auto& segments : blocks_)
      for (const shared_segment& each : segments) each.detach();
    throw problem;
  }

  template <typename Element>
  std::span<Element> scratch(std::size_t elements) {
    if (scratch_.size() < elements * sizeof(Element)) scratch_ = detail::aligned_bytes(elements * sizeof(Element));
    return {reinterpret_cast<Element*>(scratch_.data()), elements};
  }

  std::string name(const link& each) const { return to_string(here_.members().task(each.rank)); }

  basic_server<T, Clock>& here_;
  all_reduce_options options_;
  waiter<T, Clock> idle_;
  std::size_t rank_ = 0, size_ = 1;
  std::size_t first_rank_ = 0;                // the cluster's rank of the job's first task
  std::vector<std::unique_ptr<link>> links_;  // by rank in the job; null where the two never talk
  detail::aligned_bytes scratch_;
  std::optional<detail::shared_reduce> memory_;
  std::vector<std::vector<shared_segment>> blocks_;  // by rank
  std::uint64_t calls_ = 0;
  bool broken_ = false;
};

using all_reduce = basic_all_reduce<>;

}  // namespace weft

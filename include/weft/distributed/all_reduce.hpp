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
#include <weft/distributed/vector_loops.hpp>
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

/// What a mean was made of, and whether one should go on with it: the same on all ranks.
struct mean_report {
  double weights = 0;                 // the sum of all ranks'
  bool finite = true;                 // all elements are
  std::size_t element = 0;            // or else the first that is not
  std::optional<std::size_t> rank{};  // and whose it was; nothing where each rank's was finite
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
/// After deadline_exceeded the same call may be repeated, on the array as it is then: it goes on where it was, and the
/// other ranks notice nothing. After any other error the array's contents are unspecified, and the group is of no
/// further use.
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
      throw error(error_code::invalid_argument, "all_reduce",
                  {"only tasks of job '", options_.job, "' take part; this is ", here.name()});
    check_dense(here.cluster(), options_.job);
    options_.chunk = std::max<std::size_t>(options_.chunk / 64 * 64, 64);
    rank_ = static_cast<std::size_t>(here.index());
    size_ = static_cast<std::size_t>(here.cluster().num_tasks(options_.job));
    first_rank_ = here.cluster().rank({options_.job, 0});
    links_.resize(size_);
    try {
      connect(until);
      compare(graph, until);
      std::vector<shared_segment> segments = share(detail::shared_reduce::room(), until);
      if (!segments.empty()) memory_.emplace(std::move(segments), rank_, here_.waiting());
    } catch (const error& problem) {
      here_.set_failure(problem);
      throw;
    }
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
    reduce(data, until, algorithm, false, 1);
  }

  /// Replaces `data` by the mean over all ranks: the sum of what each brings, times its weight, divided by the sum of
  /// the weights. A rank of weight 0 brings nothing, and its `data` is all zero. Returns what the mean was made of.
  template <std::floating_point Element>
  mean_report mean(std::span<Element> data, deadline_type until = std::chrono::seconds(60),
                   reduce_algorithm algorithm = reduce_algorithm::automatic, double weight = 1) {
    return reduce(data, until, algorithm, true, weight);
  }

  /// Whether the ranks sum in shared memory.
  bool shares_memory() const { return memory_.has_value(); }

  /// Memory, all zero, where an array that is summed often is best kept: summing what fills it exactly moves nothing.
  /// It lives as long as the group. All ranks ask for equally many bytes, as they make the same calls; empty where the
  /// ranks share no memory.
  mutable_bytes shared_block(std::size_t bytes, deadline_type until = std::chrono::seconds(60)) {
    if (!memory_ || bytes == 0) return {};
    if (broken_ || late_)
      throw error(error_code::failed_precondition, operation,
                  "the last call has not completed; repeat it, or make a new group");
    broken_ = true;
    std::vector<shared_segment> segments = share(bytes, until);
    broken_ = false;
    if (segments.empty()) return {};
    blocks_.push_back(std::move(segments));
    return blocks_.back()[rank_].bytes();
  }

 private:
  struct link {
    std::size_t rank = 0;  // in the job
    typename T::stream stream;
    frame_writer out;
    frame_reader in;
  };

  static constexpr const char* operation = "all_reduce";

  /// A call that has run out of time, and what it was about.
  struct request {
    const void* data = nullptr;
    std::size_t bytes = 0, element = 0;
    reduce_algorithm algorithm{};
    bool mean = false;
    double weight = 1;

    friend bool operator==(const request&, const request&) = default;
  };

  template <typename Element>
  mean_report reduce(std::span<Element> data, deadline_type until, reduce_algorithm algorithm, bool mean,
                     double weight) {
    const request asked{data.data(), data.size_bytes(), sizeof(Element), algorithm, mean, weight};
    if (broken_)
      throw error(error_code::failed_precondition, operation, "the group broke with an earlier error; make a new one");
    if (late_ && !(*late_ == asked))
      throw error(error_code::failed_precondition, operation,
                  "the last call ran out of time and has not completed; repeat it with the same array");
    if (!late_) {
      ++calls_;
      stage_ = 0;
      begun_ = false;
      ring_.reset();
      prepared_ = false;
    }
    broken_ = true;
    try {
      mean_report made = reduce(data, until, asked);
      late_.reset();
      broken_ = false;
      if (failed_) here_.clear_failure();
      failed_ = false;
      return made;
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
  mean_report reduce(std::span<Element> data, deadline_type until, const request& asked) {
    reduce_algorithm algorithm = asked.algorithm;
    if (memory_ && algorithm == reduce_algorithm::automatic) {
      reduce_in_memory(data, until, asked);
      if (!asked.mean) return {};
      const detail::nonfinite_element& found = memory_->nonfinite();
      mean_report made{memory_->weights(), !found.found(), found.element, {}};
      if (found.rank != detail::nonfinite_element::nowhere) made.rank = found.rank;
      return made;
    }
    if (!prepared_) {
      weights_ = asked.weight;
      own_nonfinite_ = asked.mean && asked.weight != 0 && size_ > 1 ? detail::first_nonfinite(data.data(), data.size())
                                                                    : data.size();
      if (asked.mean && asked.weight != 0 && asked.weight != 1)
        detail::scale(data.data(), data.size(), static_cast<Element>(asked.weight));
      prepared_ = true;
    }
    if (size_ > 1) {
      if (algorithm == reduce_algorithm::automatic) algorithm = options_.cost.choose(size_, data.size_bytes());
      if (algorithm == reduce_algorithm::ring)
        ring(data, until);
      else
        recursive_doubling(data, until);
    }
    mean_report made{weights_, true, 0, {}};
    if (!asked.mean || weights_ == 0) return made;
    if (detail::divide(data.data(), data.size(), static_cast<Element>(weights_))) return made;
    made.finite = false;
    made.element = detail::first_nonfinite(data.data(), data.size());
    find_culprit(made, data.size(), until);
    return made;
  }

  /// All ranks have met an element that is not finite: each tells whether it has brought one.
  void find_culprit(mean_report& made, std::size_t elements, deadline_type until) {
    if (size_ == 1) made.rank = rank_;
    std::vector<double> first(size_);  // by rank, each plus one
    if (own_nonfinite_ < elements) first[rank_] = static_cast<double>(own_nonfinite_) + 1;
    try {
      if (size_ > 1) recursive_doubling_again(std::span(first), until);
    } catch (const error& problem) {  // in the middle of this a call cannot be repeated
      throw error(problem.code() == error_code::deadline_exceeded ? error_code::unavailable : problem.code(), operation,
                  problem.sentence());
    }
    for (std::size_t r = 0; r < size_; ++r)
      if (first[r] >= 1 && first[r] <= static_cast<double>(elements)) {  // what else came is no element
        made.element = static_cast<std::size_t>(first[r]) - 1;
        made.rank = r;
        return;
      }
  }

  // ---- shared memory ----

  template <typename Element>
  void reduce_in_memory(std::span<Element> data, deadline_type until, const request& asked) {
    const auto look = [&](std::size_t rank, auto has_come) {
      std::optional<error> problem = someone_gone();
      if (!problem && state_of(rank) == task_state::left) problem = diagnose(rank);
      if (!problem && until.expired())
        problem = error(error_code::deadline_exceeded, operation, {"received nothing in time from ", name(rank)});
      if (problem && !has_come()) throw *problem;  // it may have come, and left, after it was asked
      return std::chrono::duration_cast<std::chrono::nanoseconds>(
          until.remaining(std::chrono::duration_cast<typename Clock::duration>(std::chrono::milliseconds(20))));
    };
    const auto same = [&](const std::vector<shared_segment>& block) {
      const mutable_bytes mine = block[rank_].bytes();
      return mine.data() == reinterpret_cast<std::byte*>(data.data()) && mine.size() == data.size_bytes();
    };
    const auto block = std::find_if(blocks_.begin(), blocks_.end(), same);
    const detail::reduce_call call{calls_, data.size_bytes(), sizeof(Element), asked.mean, block != blocks_.end()};
    try {
      memory_->run(data, call, asked.weight, block == blocks_.end() ? std::span<const shared_segment>{} : *block, look);
    } catch (const detail::reduce_disagreement& other) {
      throw error(error_code::failed_precondition, operation,
                  {name(other.rank), " disagrees with ", here_.name(), " about all-reduce number ", calls_,
                   "; all ranks must make the same calls in the same order"});
    }
  }

  /// Memory that all ranks have mapped, one segment made by each; none where not all of them want it, or can.
  std::vector<shared_segment> share(std::size_t bytes, deadline_type until) {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      if (size_ == 1 || !here_.is_on_this_host(first_rank_ + rank)) return {};
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
        if (failures != 0) continue;
        shared_segment its = shared_segment::open(offer, bytes);
        // A rank that offers what another has offered would be read as what both bring.
        if (std::any_of(segments.begin(), segments.end(), [&](const auto& each) { return each.same_memory(its); }))
          failures = 1;
        segments[(rank_ + size_ - round) % size_] = std::move(its);
      } catch (const error&) {
        failures = 1;
      }
    }
    const bool failed = failures != 0;  // here, whatever others make of it
    recursive_doubling_again(std::span(&failures, 1), until);
    if (failed || failures != 0) return {};
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
    for (std::size_t r = 0; r < size_; ++r) incarnations_.push_back(here_.members().incarnation(first_rank_ + r));
    for (const std::size_t partner : partners()) {
      const std::size_t rank = first_rank_ + partner;
      auto opened = partner < rank_ ? here_.open_channel(rank, options_.channel, until)
                                    : here_.accept_channel(rank, options_.channel, until);
      if (opened.incarnation != incarnations_[partner]) throw diagnose(partner);
      auto made = std::make_unique<link>();
      made->rank = partner;
      made->stream = std::move(opened.stream);
      links_[partner] = std::move(made);
    }
  }

  void compare(const graph_identity& graph, deadline_type until) {
    frame_header mine;
    mine.kind = frame_kind::group;
    mine.tag = graph.hash;
    mine.step = static_cast<std::int64_t>(graph.seed);
    const detail::group_message ours{here_.options().not_finite == nonfinite_gradients::apply, graph.settings};
    const std::vector<std::byte> words = ours.bytes();
    for (const auto& each : links_) {
      if (!each) continue;
      std::vector<std::byte> its_words;
      each->out.start(mine, const_bytes(words));
      each->in.expect(detail::max_control_bytes);
      drive(
          until, *each, *each,
          [&] {
            const std::size_t moved = each->out.advance(each->stream) + each->in.advance(each->stream);
            if (each->in.needs_destination()) {
              its_words.resize(static_cast<std::size_t>(each->in.header().payload_length));
              each->in.payload_to(mutable_bytes(its_words));
            }
            return moved;
          },
          [&] { return each->out.idle() && each->in.complete(); });
      const frame_header& its = each->in.header();
      detail::group_message said;
      try {
        if (its.kind != frame_kind::group) detail::message_reader::malformed();
        said = detail::group_message::read(its_words);
      } catch (const error& problem) {
        throw error(problem.code(), operation, {name(each->rank), ": ", problem.sentence()});
      }
      if (its.step != mine.step)
        refuse(*each, "seed is ", str_cat({static_cast<std::uint64_t>(its.step)}), str_cat({graph.seed}));
      if (its.tag != graph.hash) refuse(*each, "graph has hash ", str_cat({its.tag}), str_cat({graph.hash}));
      if (said.settings != printable(graph.settings))
        refuse(*each, "settings are ", str_cat({"'", said.settings, "'"}), str_cat({"'", graph.settings, "'"}));
      if (said.applies_nonfinite != ours.applies_nonfinite)
        refuse(*each, "gradients that are not finite are ", said.applies_nonfinite ? "applied" : "refused",
               ours.applies_nonfinite ? "applied" : "refused");
    }
  }

  [[noreturn]] void refuse(const link& other, const char* what, const std::string& its, const std::string& mine) const {
    throw error(error_code::failed_precondition, operation,
                {name(other.rank), " does not train the same model: its ", what, its, ", that of ", here_.name(), " ",
                 mine, "; run the same program with the same flags"});
  }

  // ---- recursive doubling ----

  // As many ranks as are a power of two double; each of the others hands in its share and takes the result. A call that
  // is repeated goes on with the stage that it was in.
  template <typename Element>
  void recursive_doubling(std::span<Element> data, deadline_type until) {
    const std::size_t core = std::bit_floor(size_), rounds = std::bit_width(core) - 1u;
    const std::span<Element> other = scratch<Element>(data.size());
    if (rank_ >= core) {
      link& partner = *links_[rank_ - core];
      if (stage_ == 0) pass(partner, data, std::span<Element>{}, true, false, until);
      if (stage_ == 1) pass(partner, std::span<Element>{}, data, false, true, until);
      return;
    }
    link* const outside = rank_ + core < size_ ? links_[rank_ + core].get() : nullptr;
    const auto take_in = [&] { detail::accumulate(data.data(), other.data(), data.size()); };
    if (stage_ == 0) {
      if (outside) {
        pass(*outside, std::span<Element>{}, other, false, true, until);
        take_in();
      } else {
        ++stage_;
      }
    }
    for (std::size_t round; (round = stage_ - 1) < rounds;) {
      pass(*links_[rank_ ^ (std::size_t{1} << round)], data, other, true, true, until);
      take_in();
    }
    if (outside && stage_ == rounds + 1) pass(*outside, data, std::span<Element>{}, true, false, until);
  }

  /// For the group's own purposes: a call that is not repeated.
  template <typename Element>
  void recursive_doubling_again(std::span<Element> data, deadline_type until) {
    ++calls_;
    stage_ = 0;
    begun_ = false;
    const double weights = std::exchange(weights_, 0);
    recursive_doubling(data, until);
    weights_ = weights;
  }

  /// One stage: the frames that leave and come, at once. What comes brings the weights that it is made of.
  template <typename Element>
  void pass(link& with, std::span<Element> mine, std::span<Element> its, bool sends, bool receives,
            deadline_type until) {
    if (!begun_) {
      const mutable_bytes target = std::as_writable_bytes(its);
      if (receives) with.in.expect({&target, 1});
      if (sends) with.out.start(header(weights_), const_bytes(std::as_bytes(mine)), here_.options().checksum);
      begun_ = true;
    }
    drive(
        until, with, with,
        [&] {
          const std::size_t left = with.out.idle() ? 0 : with.out.advance(with.stream);
          return receives ? left + with.in.advance(with.stream) : left;
        },
        [&] { return with.out.idle() && (!receives || with.in.complete()); }, receives);
    if (receives) {
      verify(with);
      const double come = weights_of(with);
      weights_ = rank_ >= std::bit_floor(size_) ? come : weights_ + come;
    }
    begun_ = false;
    ++stage_;
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
    const auto next_target = [&] {
      if (ring_->receiving.over()) return;
      const std::span<Element> chunk = ring_->receiving.in(data);
      const mutable_bytes target =
          std::as_writable_bytes(ring_->receiving.round() < size_ - 1 ? other.first(chunk.size()) : chunk);
      from.in.expect({&target, 1});
    };
    if (!ring_) {
      ring_.emplace(ring_state{{*this, data.size(), most, rank_}, {*this, data.size(), most, rank_ + size_ - 1}});
      ring_->may_leave = ring_->sending.chunks_in_segment();
      ring_->weights.assign(2 * size_, 0);
      ring_->weights[0] = weights_;
      next_target();
    }
    ring_state& at = *ring_;
    drive(
        until, to, from,
        [&] {
          std::size_t moved = 0;
          if (!to.out.idle()) moved += to.out.advance(to.stream);
          if (to.out.idle() && !at.sending.over() && at.may_leave > 0) {
            to.out.start(header(at.weights[at.sending.round()]), const_bytes(std::as_bytes(at.sending.in(data))),
                         here_.options().checksum);
            moved += to.out.advance(to.stream);
            at.sending.next();
            --at.may_leave;
          }
          if (at.receiving.over()) return moved;
          moved += from.in.advance(from.stream);
          if (from.in.complete()) {
            verify(from);
            const std::span<Element> chunk = at.receiving.in(data);
            const bool sums = at.receiving.round() < size_ - 1;
            if (sums) detail::accumulate(chunk.data(), other.data(), chunk.size());
            at.weights[at.receiving.round() + 1] = weights_of(from) + (sums ? weights_ : 0);
            at.receiving.next();
            ++at.may_leave;
            next_target();
          }
          return moved;
        },
        [&] { return at.sending.over() && to.out.idle() && at.receiving.over(); });
    // The weights of all came with the last round; where that had nothing in it, with any round of whole sums.
    for (std::size_t round = size_ - 1; round < at.weights.size(); ++round)
      if (at.weights[round] != 0) weights_ = at.weights[round];
    ring_.reset();
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

  struct ring_state {
    cursor sending, receiving;
    std::size_t may_leave = 0;
    std::vector<double> weights{};  // by round: of what the chunks that leave in it are the sum
  };

  // ---- common ----

  frame_header header(double weights = 0) const {
    frame_header result;
    result.kind = frame_kind::reduce;
    result.request = calls_;
    result.tag = std::bit_cast<std::uint64_t>(weights);
    return result;
  }
  static double weights_of(const link& from) { return std::bit_cast<double>(from.in.header().tag); }

  void verify(const link& from) const {
    const frame_header& its = from.in.header();
    if (its.kind != frame_kind::reduce || its.request != calls_)
      throw error(error_code::failed_precondition, operation,
                  {name(from.rank), " is in its all-reduce number ", its.request, ", ", here_.name(), " in number ",
                   calls_, "; all ranks must make the same calls in the same order"});
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
        if (problem.operation() == operation) throw;
        // Which of the two connections it was: the one whose peer is gone, or else the one that is read.
        const std::size_t gone = state_of(to.rank) != task_state::alive ? to.rank : from.rank;
        throw here_.diagnose(first_rank_ + gone, incarnations_[gone], operation, problem);
      }
      if (complete()) return;
      if (moved > 0) {
        idle_.moved();
        continue;
      }
      if (until.expired())  // the call may be repeated
        throw error(
            error_code::deadline_exceeded, operation,
            {"received nothing in time from ", name(from.rank),
             to.rank == from.rank ? "" : ", or could send nothing to ", to.rank == from.rank ? "" : name(to.rank)});
      typename T::wait_item items[2] = {{&from.stream, reads && !from.in.complete(), &to == &from && !to.out.idle()},
                                        {&to.stream, false, !to.out.idle()}};
      if (!idle_.pause(std::span(items).first(&to == &from ? 1 : 2), until)) continue;
      look_around();
    }
  }

  void look_around() {
    if (const std::optional<error> problem = someone_gone()) throw *problem;
  }

  task_state state_of(std::size_t rank) const { return here_.members().state(first_rank_ + rank, incarnations_[rank]); }
  error diagnose(std::size_t rank) const {
    return here_.members().diagnose(first_rank_ + rank, incarnations_[rank], operation, "is gone");
  }

  std::optional<error> someone_gone() const {
    for (std::size_t rank = 0; rank < size_; ++rank)
      if (rank != rank_ && state_of(rank) == task_state::lost) return diagnose(rank);
    if (here_.stopping()) return error(error_code::cancelled, operation, "this server was stopped");
    return {};
  }

  /// The others are to know at once, and nobody writes to this rank's memory any more.
  void give_up() {
    for (auto& each : links_)
      if (each) each->stream.close();
    if (memory_) memory_->detach();
    for (const auto& segments : blocks_)
      for (const shared_segment& each : segments) each.detach();
  }

  template <typename Element>
  std::span<Element> scratch(std::size_t elements) {
    if (scratch_.size() < elements * sizeof(Element)) scratch_ = detail::aligned_bytes(elements * sizeof(Element));
    return {reinterpret_cast<Element*>(scratch_.data()), elements};
  }

  std::string name(std::size_t rank) const { return to_string(here_.members().task(first_rank_ + rank)); }

  basic_server<T, Clock>& here_;
  all_reduce_options options_;
  waiter<T, Clock> idle_;
  std::size_t rank_ = 0, size_ = 1;
  std::size_t first_rank_ = 0;                // the cluster's rank of the job's first task
  std::vector<std::uint64_t> incarnations_;   // by rank in the job: with whom the group was made
  std::vector<std::unique_ptr<link>> links_;  // by rank in the job; null where the two never talk
  detail::aligned_bytes scratch_;
  std::optional<detail::shared_reduce> memory_;
  std::vector<std::vector<shared_segment>> blocks_;  // by rank
  std::uint64_t calls_ = 0;
  bool broken_ = false;
  bool failed_ = false;  // the last call has

  // How far the call has come that is under way, or that has run out of time.
  std::optional<request> late_;
  bool prepared_ = false;  // what this rank brings is as it leaves
  std::size_t stage_ = 0;
  bool begun_ = false;  // the stage has
  std::optional<ring_state> ring_;
  double weights_ = 1;             // of what `data` is the sum
  std::size_t own_nonfinite_ = 0;  // the first element of what this rank has brought
};

using all_reduce = basic_all_reduce<>;

}  // namespace weft

// SPDX-License-Identifier: BSL-1.0
#pragma once

// Only the C interface: the C++ interface left the standard in 2012 and requires a library of its own.
#if !defined(OMPI_SKIP_MPICXX)
  #define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
  #define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/device/cpu/vector_loops.hpp>
#include <weft/distributed/collective/reduce_peers.hpp>
#include <weft/error.hpp>
#include <weft/transport/aligned_bytes.hpp>

namespace weft::detail {

inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw error(error_code::unavailable, "all_reduce",
              {call, ": ", std::string(text.data(), static_cast<std::size_t>(std::max(length, 0)))});
}

/// The merged statement of all ranks whose messages have arrived, as it is sent.
struct joint_statement {
  reduce_statement said;  // the sender's, but with the sum of all weights and the culprit's `first_nonfinite`
  double culprit = 0;     // the first rank with an element that is not finite, plus one; 0: none
  double other = 0;       // a rank that makes a different call, plus one; 0: none
  double unused = 0;      // aligns the array that follows in memory

  /// Adds the statement of rank `its_rank`.
  void add(const joint_statement& its, std::size_t its_rank) {
    if (other == 0) other = its.said.same_call(said) ? its.other : static_cast<double>(its_rank) + 1;
    said.weight += its.said.weight;
    if (its.culprit == 0 || (culprit != 0 && culprit < its.culprit)) return;
    culprit = its.culprit;
    said.first_nonfinite = its.said.first_nonfinite;
  }
};
static_assert(sizeof(joint_statement) == 64);

/// Exchanges the statements of all ranks by MPI messages. A small array travels in these messages and is summed on the
/// way, by recursive doubling (Thakur et al., 2005). No call blocks, so the caller can wait with a deadline. Exchanges
/// run one after another, and all ranks make the same ones.
class mpi_exchange {
 public:
  mpi_exchange(std::size_t rank, std::size_t size)
      : rank_(rank),
        size_(size),
        power_(std::bit_floor(size)),
        room_(largest / std::max<std::size_t>(static_cast<std::size_t>(std::bit_width(size - 1)), 1) / 64 * 64),
        leaving_(sizeof(joint_statement) + room_),
        coming_(sizeof(joint_statement) + room_) {}
  mpi_exchange(const mpi_exchange&) = delete;
  mpi_exchange& operator=(const mpi_exchange&) = delete;
  ~mpi_exchange() {
    if (!is_under_way()) return;
    // Leaked: MPI may still write to these buffers.
    new aligned_bytes(std::move(leaving_));
    new aligned_bytes(std::move(coming_));
  }

  bool is_under_way() const { return stage_ != stage::none; }

  /// Returns true if arrays of this many bytes travel with the statement.
  bool carries(std::size_t bytes) const { return bytes <= room_; }

  /// Begins an exchange. Copies `data`, multiplied by `factor`, if the messages carry it.
  template <std::floating_point Element>
  void begin(MPI_Comm ranks, const reduce_statement& mine, std::span<const Element> data, double factor) {
    ranks_ = ranks;
    call_ = mine;
    joint_statement first{mine};
    if (mine.first_nonfinite != 0) first.culprit = static_cast<double>(rank_) + 1;
    say(first);
    bytes_ = carries(data.size_bytes()) ? data.size_bytes() : 0;
    if (bytes_ > 0) std::memcpy(numbers(leaving_), data.data(), bytes_);
    if (bytes_ > 0 && factor != 1)
      scale(reinterpret_cast<Element*>(numbers(leaving_)), data.size(), static_cast<Element>(factor));
    add_ = [](std::byte* to, const std::byte* from, std::size_t bytes) {
      accumulate(reinterpret_cast<Element*>(to), reinterpret_cast<const Element*>(from), bytes / sizeof(Element));
    };
    stage_ = stage::fold;
    if (is_folded())
      post(rank_ - power_, true, false);
    else if (rank_ + power_ < size_)
      post(rank_ + power_, false, true);
    else
      next();
  }

  /// The current or the last call.
  const reduce_statement& call() const { return call_; }

  /// Continues the exchange. Returns true if it is complete.
  bool advance() {
    while (stage_ != stage::none) {
      if (receives_ && !heard_ && !hear()) return false;
      if (!all_done(coming_requests_) || !all_done(leaving_requests_)) return false;
      take_in();
      next();
    }
    return true;
  }

  /// Returns the merged statement of all ranks, after a complete exchange.
  joint_statement joint() const { return statement(leaving_); }

  /// Copies the sum to `data`, after a complete exchange that carried the array.
  template <std::floating_point Element>
  void take(std::span<Element> data) const {
    if (bytes_ > 0) std::memcpy(data.data(), numbers(leaving_), bytes_);
  }

 private:
  static constexpr std::size_t largest = std::size_t{64} << 10;  // above, the cost of a separate message is negligible
  static constexpr std::size_t piece = 3840;  // bytes that Open MPI and MPICH send eagerly within a host
  static constexpr int tag = 1;

  /// Ranks beyond the largest power of two send their array to another rank before the doubling (`fold`) and receive
  /// the result after it (`unfold`).
  enum class stage : unsigned char { none, fold, doubling, unfold };

  bool is_folded() const { return rank_ >= power_; }

  static std::byte* numbers(aligned_bytes& of) { return of.data() + sizeof(joint_statement); }
  static const std::byte* numbers(const aligned_bytes& of) { return of.data() + sizeof(joint_statement); }
  static joint_statement statement(const aligned_bytes& of) {
    joint_statement made;
    std::memcpy(&made, of.data(), sizeof made);
    return made;
  }
  void say(const joint_statement& what) { std::memcpy(leaving_.data(), &what, sizeof what); }

  static std::size_t pieces_of(std::size_t bytes) { return (bytes + piece - 1) / piece; }

  void post(std::size_t partner, bool sends, bool receives) {
    partner_ = partner;
    receives_ = receives;
    heard_ = false;
    coming_requests_.clear();
    leaving_requests_.clear();
    const std::size_t bytes = sizeof(joint_statement) + bytes_, count = pieces_of(bytes);
    if (receives) expect(count);
    for (std::size_t k = 0; sends && k < count; ++k) {
      MPI_Request& each = leaving_requests_.emplace_back(MPI_REQUEST_NULL);
      check_mpi(MPI_Isend(leaving_.data() + k * piece, static_cast<int>(std::min(piece, bytes - k * piece)), MPI_BYTE,
                          static_cast<int>(partner), tag, ranks_, &each),
                "MPI_Isend");
    }
  }

  /// Posts receives until `count` pieces are expected, or cancels the superfluous ones.
  void expect(std::size_t count) {
    for (std::size_t k = coming_requests_.size(); k < count; ++k) {
      MPI_Request& each = coming_requests_.emplace_back(MPI_REQUEST_NULL);
      check_mpi(MPI_Irecv(coming_.data() + k * piece, static_cast<int>(std::min(piece, coming_.size() - k * piece)),
                          MPI_BYTE, static_cast<int>(partner_), tag, ranks_, &each),
                "MPI_Irecv");
    }
    for (; coming_requests_.size() > count; coming_requests_.pop_back()) {
      check_mpi(MPI_Cancel(&coming_requests_.back()), "MPI_Cancel");
      check_mpi(MPI_Wait(&coming_requests_.back(), MPI_STATUS_IGNORE), "MPI_Wait");
    }
  }

  /// Computes the number of pieces from the first one. Returns false if the first piece has not arrived.
  bool hear() {
    int done = 0, came = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&coming_requests_[0], &done, &status), "MPI_Test");
    if (!done) return false;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &came), "MPI_Get_count");
    if (came < static_cast<int>(sizeof(joint_statement)))
      throw error(error_code::internal, "all_reduce", "received an MPI message that Weft did not send");
    heard_ = true;
    const joint_statement its = statement(coming_);
    const bool carried = its.other == 0 && its.said.bytes > 0 && its.said.bytes <= static_cast<double>(room_);
    expect(pieces_of(sizeof(joint_statement) + (carried ? static_cast<std::size_t>(its.said.bytes) : 0)));
    return true;
  }

  static bool all_done(std::vector<MPI_Request>& of) {
    int done = 1;
    if (!of.empty())
      check_mpi(MPI_Testall(static_cast<int>(of.size()), of.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    return done != 0;
  }

  /// Merges the received message, if any, when a step is complete.
  void take_in() {
    if (!receives_) return;
    joint_statement all = statement(leaving_);
    const joint_statement its = statement(coming_);
    const bool replaces = stage_ == stage::unfold;
    if (replaces) all.said.weight = all.culprit = 0;
    all.add(its, partner_);
    say(all);
    if (all.other != 0) bytes_ = 0;
    if (bytes_ == 0) return;
    replaces ? static_cast<void>(std::memcpy(numbers(leaving_), numbers(coming_), bytes_))
             : add_(numbers(leaving_), numbers(coming_), bytes_);
  }

  void next() {
    if (stage_ == stage::unfold) {
      stage_ = stage::none;
      return;
    }
    if (!is_folded()) {
      distance_ = stage_ == stage::fold ? 1 : distance_ * 2;
      stage_ = stage::doubling;
      if (distance_ < power_) return post(rank_ ^ distance_, true, true);
    }
    stage_ = stage::unfold;
    if (is_folded()) return post(rank_ - power_, false, true);
    if (rank_ + power_ < size_) return post(rank_ + power_, true, false);
    stage_ = stage::none;
  }

  const std::size_t rank_, size_, power_;
  const std::size_t room_;  // largest array that messages carry, in bytes
  aligned_bytes leaving_, coming_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  reduce_statement call_;
  std::size_t bytes_ = 0;  // of the array in the messages; 0: none
  void (*add_)(std::byte* to, const std::byte* from, std::size_t bytes) = nullptr;

  stage stage_ = stage::none;
  std::size_t distance_ = 0, partner_ = 0;
  bool receives_ = false, heard_ = false;
  std::vector<MPI_Request> coming_requests_, leaving_requests_;
};

}  // namespace weft::detail

#pragma once

// The C interface alone: the C++ one left the standard in 2012, and is a library of its own.
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

/// The common statement of ranks about the arrays that they bring: as it travels, for all ranks that have been heard.
struct joint_statement {
  reduce_statement said;  // of the rank that says it; but the weight is the sum, the element that of `culprit`
  double culprit = 0;     // the first rank with an element that is not finite, plus one; 0: there is none
  double other = 0;       // a rank that makes another call, plus one; 0: there is none
  double unused = 0;      // what follows in memory is aligned

  /// Adds what rank `its_rank` says.
  void add(const joint_statement& its, std::size_t its_rank) {
    if (other == 0) other = its.said.same_call(said) ? its.other : static_cast<double>(its_rank) + 1;
    said.weight += its.said.weight;
    if (its.culprit == 0 || (culprit != 0 && culprit < its.culprit)) return;
    culprit = its.culprit;
    said.first_nonfinite = its.said.first_nonfinite;
  }
};
static_assert(sizeof(joint_statement) == 64);

/// Messages by MPI in which ranks tell each other what they bring, and with it, where that is small, the array itself,
/// which is summed on the way: by recursive doubling, as MPI libraries sum small arrays (Thakur et al., 2005). No call
/// waits, so the wait may have a deadline. One exchange after the other; all ranks make the same.
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
    // MPI may still write there.
    new aligned_bytes(std::move(leaving_));
    new aligned_bytes(std::move(coming_));
  }

  bool is_under_way() const { return stage_ != stage::none; }

  /// Whether arrays of so many bytes travel with the statement.
  bool carries(std::size_t bytes) const { return bytes <= room_; }

  /// Begins an exchange; `data` is copied where it is carried, and multiplied by `factor`.
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

  /// The call that is under way, or was the last.
  const reduce_statement& call() const { return call_; }

  /// Goes on with the exchange; true where it is complete.
  bool advance() {
    while (stage_ != stage::none) {
      if (receives_ && !heard_ && !hear()) return false;
      if (!all_done(coming_requests_) || !all_done(leaving_requests_)) return false;
      take_in();
      next();
    }
    return true;
  }

  /// The statement of all ranks, of a complete exchange.
  joint_statement joint() const { return statement(leaving_); }

  /// The sum, of a complete exchange that carried the array.
  template <std::floating_point Element>
  void take(std::span<Element> data) const {
    if (bytes_ > 0) std::memcpy(data.data(), numbers(leaving_), bytes_);
  }

 private:
  static constexpr std::size_t largest = std::size_t{64} << 10;  // beyond, a message of its own costs next to nothing
  static constexpr std::size_t piece = 3840;  // what Open MPI and MPICH send within a host without asking first
  static constexpr int tag = 1;

  /// The ranks beyond a power of two give what they have to another before, and get all after the doubling.
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

  /// So many pieces come.
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

  /// The first piece says how many there are; false where it has not come.
  bool hear() {
    int done = 0, came = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&coming_requests_[0], &done, &status), "MPI_Test");
    if (!done) return false;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &came), "MPI_Get_count");
    if (came < static_cast<int>(sizeof(joint_statement)))
      throw error(error_code::internal, "all_reduce", "a rank has sent a message by MPI that is none of Weft's");
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

  /// A step is complete: where it has received, that counts.
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
  const std::size_t room_;  // for an array, in bytes
  aligned_bytes leaving_, coming_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  reduce_statement call_;
  std::size_t bytes_ = 0;  // of the array that travels
  void (*add_)(std::byte* to, const std::byte* from, std::size_t bytes) = nullptr;

  stage stage_ = stage::none;
  std::size_t distance_ = 0, partner_ = 0;
  bool receives_ = false, heard_ = false;
  std::vector<MPI_Request> coming_requests_, leaving_requests_;
};

}  // namespace weft::detail

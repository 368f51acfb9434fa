// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/row_lists.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/shared_memory.hpp>

namespace weft::detail {

/// A worker's end of the connection to one parameter server: the server's variables, one request at a time, and the
/// memory that both sides share. Gradients are sent from the caller's buffers, and values are received in the caller's
/// buffers.
///
/// Invariant: nothing is assumed from an earlier connection: attach() forgets which values the worker has. The shared
/// segment is attached only while the connection is open. Not thread-safe: the calling thread owns the object.
class server_connection {
 public:
  /// `variables` lists the variables of all servers and must outlive this object. `task` is the server's index in its
  /// job, and `rank` its rank in the cluster.
  server_connection(const std::vector<parameter_spec>& variables, int task, std::size_t rank)
      : variables_(&variables), rank_(rank), order_(wire_order(variables, task)) {
    for (const std::size_t i : order_) {
      bytes_ += variables[i].bytes();
      if (!variables[i].has_rows()) whole_bytes_ += variables[i].bytes();
    }
    has_rows_ = min_row_bytes(variables, order_) > 0;
    counts_.resize(order_.size());
  }

  std::size_t rank() const { return rank_; }
  /// Indices in `variables` of the variables that the server holds, in wire order.
  const std::vector<std::size_t>& order() const { return order_; }

  // ---- the connection ----

  bool is_open() const { return stream_.is_open(); }
  const any_transport::stream& stream() const { return stream_; }
  /// The incarnation of the server process that was connected last; 0: none yet.
  std::uint64_t incarnation() const { return incarnation_; }

  void attach(any_transport::stream stream, std::uint64_t incarnation) {
    stream_ = std::move(stream);
    incarnation_ = incarnation;
    known_.clear();
  }
  /// Closes the connection. Later writes of the server do not change the memory of this process.
  void close() {
    stream_.close();
    segment_.detach();
  }

  // ---- the server's run ----

  /// The server's run and epoch (run_epoch::bits); 0: unknown, or the server writes no shards.
  std::uint64_t epoch() const { return epoch_; }
  void set_epoch(std::uint64_t at) { epoch_ = at; }
  /// The epoch in the last answer, which must be one without values; 0: the server writes no shards.
  std::uint64_t answered_epoch() const {
    return has_flag(keeps_shards) ? static_cast<std::uint64_t>(answer().step) : 0;
  }
  /// Returns true if the server did not serve the request because the run is in another epoch.
  bool is_rolled_back() const { return answer().kind == frame_kind::acknowledge && has_flag(rolled_back); }

  /// The replica whose gradients the worker must compute before a push_pull can be served; -1: none.
  int owed_replica() const {
    return answer().kind == frame_kind::acknowledge ? static_cast<int>(answer().weight) - 1 : -1;
  }

  // ---- a request ----

  /// Begins a request. The functions below add its payload and the destination of its answer.
  void prepare() {
    source_.clear();
    target_.clear();
    failure_.clear();
    flags_ = 0;
  }
  void set_flags(std::uint32_t flags) { flags_ = flags; }

  /// Appends a piece to the payload.
  void add_payload(const_bytes piece) { source_.push_back(piece); }
  /// Appends a piece to the destination of the answer's payload.
  void add_destination(mutable_bytes piece) { target_.push_back(piece); }

  /// Appends the values of the server's variables to the payload.
  void add_values(std::span<const const_bytes> from) {
    for (const std::size_t i : order_) source_.push_back(from[i]);
  }
  /// Passes the first values through shared memory if there is any, otherwise in the payload.
  void share_values(std::span<const const_bytes> from) {
    if (!segment_) return add_values(from);
    flags_ = in_segment;
    for (std::size_t k = 0; k < order_.size(); ++k) copy(from[order_[k]], value_place(k));
  }
  /// Passes the gradients in the payload. If memory is shared, the gradients of whole variables go through it instead.
  void add_gradients(std::span<const const_bytes> from) {
    if (segment_) flags_ = in_segment;
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const const_bytes gradient = from[order_[k]];
      if (variable(k).has_rows()) continue;
      if (segment_)
        copy(gradient, gradient_place(k));
      else
        source_.push_back(gradient);
    }
    if (!has_rows_) return;
    static constexpr std::byte zeros[8] = {};
    const std::size_t before = segment_ ? 0 : whole_bytes_;
    source_.emplace_back(zeros, rows_begin(before) - before);
    for (std::size_t k = 0; k < order_.size(); ++k) {
      if (!variable(k).has_rows()) continue;
      counts_[k] = from[order_[k]].size() / (8 + variable(k).row_bytes());
      source_.push_back(std::as_bytes(std::span(&counts_[k], 1)));
      source_.push_back(from[order_[k]]);
    }
  }
  /// Receives the answer's values in `into`. If `changes_suffice` and `into` still holds the values of the last answer,
  /// the server may send only changed rows. The values in `into` count as unknown until all of them have been received.
  void receive_values(std::span<const mutable_bytes> into, bool changes_suffice = false) {
    if (segment_) {
      flags_ = in_segment;
      return;
    }
    for (const std::size_t i : order_) target_.push_back(into[i]);
    if (!has_rows_) return;
    bool known = changes_suffice && known_.size() == order_.size();
    for (std::size_t k = 0; known && k < order_.size(); ++k) known = known_[k] == into[order_[k]].data();
    if (known) flags_ = changed_rows;
    known_.clear();
  }

  /// Starts to send the prepared request. The answer repeats `header.request`.
  void start(frame_header header, bool checksum) {
    header.flags |= flags_;
    request_ = header.request;
    out_.start(header, source_, checksum);
    std::uint64_t wanted = bytes_ + 8 + 8 * order_.size();
    if (header.kind == frame_kind::state) wanted += target_bytes();
    in_.expect(std::max(wanted, max_control_bytes));
  }

  bool is_sending() const { return !out_.idle(); }
  bool is_complete() const { return in_.complete(); }

  /// Sends and receives the bytes that the connection takes and provides now; returns their number. Throws weft::error
  /// if the answer does not fit the request.
  std::size_t advance() {
    std::size_t moved = out_.advance(stream_) + in_.advance(stream_);
    if (in_.needs_destination()) {
      place_answer();
      moved += in_.advance(stream_);
    }
    return moved;
  }

  // ---- the answer ----

  /// The header of the last answer.
  const frame_header& answer() const { return in_.header(); }
  bool has_flag(std::uint32_t flag) const { return (answer().flags & flag) != 0; }
  /// Returns true if the server answered with an error, which failure() returns.
  bool is_refused() const { return answer().kind == frame_kind::failure; }
  /// Returns the server's error. `server` is the name of the server in its message.
  error failure(const char* operation, const std::string& server) const {
    try {
      return read_error(failure_, operation);
    } catch (const error& problem) {
      return error(problem.code(), operation, {server, ": ", problem.sentence()});
    }
  }

  /// Copies values from shared memory, and changed rows, to `into`. Throws weft::error for rows that the variables do
  /// not have.
  void take_values(std::span<const mutable_bytes> into) {
    if (segment_) {
      for (std::size_t k = 0; k < order_.size(); ++k) copy(value_place(k), into[order_[k]]);
      return;
    }
    if (!has_rows_) return;
    if (has_flag(changed_rows)) take_rows(into);
    for (const std::size_t i : order_) known_.push_back(into[i].data());
  }
  /// Notes that the buffers no longer hold the values of the last answer.
  void forget_values() { known_.clear(); }

  // ---- the server's training ----

  /// The smallest step that is new to the server, as of the last note_next_step().
  std::int64_t next_step() const { return next_step_; }
  void set_next_step(std::int64_t step) { next_step_ = step; }
  /// Takes next_step() from the last answer.
  void note_next_step() { next_step_ = static_cast<std::int64_t>(answer().tag); }

  /// Returns true if the server continues earlier training, or if the chief has restored a checkpoint or found none.
  bool is_settled() const { return is_settled_; }
  void set_settled(bool settled) { is_settled_ = settled; }

  // ---- shared memory ----

  const shared_segment& segment() const { return segment_; }
  mutable_bytes value_place(std::size_t k) const {
    return segment_.bytes().subspan(layout_.values[k], variable(k).bytes());
  }
  mutable_bytes gradient_place(std::size_t k) const {
    if (variable(k).has_rows()) return {};
    return segment_.bytes().subspan(layout_.gradients[k], variable(k).bytes());
  }

  /// Creates memory to share with the server, and returns the offer of it. Returns an empty offer if sharing is not
  /// `wanted`, or if there are no variables or no shared memory.
  shared_offer offer_memory(bool wanted) {
    shared_segment made = std::exchange(segment_, {});
    if (!wanted || order_.empty()) return {};
    try {
      if (made) {  // keeps its address and contents
        made.renew();
      } else {
        layout_ = segment_layout(*variables_, order_);
        made = shared_segment::create(layout_.bytes);
      }
    } catch (const error&) {
      return {};  // the system provides no shared memory
    }
    segment_ = made;
    return made.offer();
  }
  /// Handles the answer to the offer: keeps the memory if the server accepted it.
  void settle_memory() {
    if (!segment_) return;
    segment_.withdraw();
    if (!is_refused()) return;
    segment_.detach();
    segment_ = {};
  }

 private:
  const parameter_spec& variable(std::size_t k) const { return (*variables_)[order_[k]]; }

  static void copy(const_bytes from, mutable_bytes to) {
    if (from.data() != to.data() && !from.empty()) std::memmove(to.data(), from.data(), from.size());
  }

  std::uint64_t target_bytes() const {
    std::uint64_t sum = 0;
    for (const mutable_bytes piece : target_) sum += piece.size();
    return sum;
  }

  void place_answer() {
    const frame_header& answer = in_.header();
    if (answer.request != request_) throw error(error_code::internal, "", "the server answered a different request");
    if (answer.kind == frame_kind::failure) {
      if (answer.payload_length > max_control_bytes) message_reader::malformed();
      failure_.resize(static_cast<std::size_t>(answer.payload_length));
      return in_.payload_to(mutable_bytes(failure_));
    }
    const bool is_rolled_back = (answer.flags & rolled_back) != 0;
    if (answer.kind == frame_kind::acknowledge && (is_rolled_back || answer.weight != 0)) {
      if (answer.payload_length != 0 || (is_rolled_back && (answer.flags & keeps_shards) == 0))
        message_reader::malformed();
      return in_.payload_to(mutable_bytes{});
    }
    if ((answer.kind != frame_kind::values && answer.kind != frame_kind::acknowledge) ||
        (answer.flags & in_segment) != (flags_ & in_segment) || (answer.flags & changed_rows & ~flags_) != 0)
      throw error(error_code::invalid_argument, "", "the server's answer does not fit this kind of request");
    if (answer.flags & changed_rows) return place_rows(answer.payload_length);
    if (const std::uint64_t wanted = target_bytes(); answer.payload_length != wanted)
      throw error(error_code::invalid_argument, "",
                  {"the server's answer must have ", wanted, " bytes; it has ", answer.payload_length});
    in_.payload_to(target_);
  }

  /// Receives whole variables at their destination, and the rest of the answer in a buffer.
  void place_rows(std::uint64_t bytes) {
    const std::size_t min_bytes = rows_begin(whole_bytes_);
    if (bytes < min_bytes)
      throw error(error_code::invalid_argument, "",
                  {"the server's answer must have at least ", min_bytes, " bytes; it has ", bytes});
    changed_.resize(bytes - whole_bytes_);
    std::vector<mutable_bytes> pieces;
    for (std::size_t k = 0; k < order_.size(); ++k)
      if (!variable(k).has_rows()) pieces.push_back(target_[k]);
    pieces.emplace_back(changed_);
    in_.payload_to(pieces);
  }

  void take_rows(std::span<const mutable_bytes> into) {
    const std::size_t padding = rows_begin(whole_bytes_) - whole_bytes_;
    read_row_lists(const_bytes(changed_).subspan(padding), *variables_, order_, lists_);
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const row_list& list = lists_[k];
      const std::size_t row = variable(k).row_bytes();
      for (std::size_t n = 0; n < list.count; ++n)
        std::memcpy(into[order_[k]].data() + list.number(n) * row, list.rows + n * row, row);
    }
  }

  const std::vector<parameter_spec>* variables_;
  std::size_t rank_;
  std::vector<std::size_t> order_;
  std::size_t bytes_ = 0, whole_bytes_ = 0;  // of all variables; of whole variables
  bool has_rows_ = false;                    // some variables travel by rows
  any_transport::stream stream_;
  std::uint64_t incarnation_ = 0, epoch_ = 0;
  std::int64_t next_step_ = 0;
  bool is_settled_ = false;
  frame_writer out_;
  frame_reader in_;
  std::uint64_t request_ = 0;
  std::uint32_t flags_ = 0;  // of the request
  std::vector<const_bytes> source_;
  std::vector<mutable_bytes> target_;
  std::vector<std::uint64_t> counts_;  // numbers of rows in the request
  std::vector<std::byte*> known_;      // addresses of the last answer's values; empty: unknown
  std::vector<std::byte> changed_;     // the rows in the answer
  std::vector<row_list> lists_;
  std::vector<std::byte> failure_;
  shared_segment segment_;
  segment_layout layout_;
};

}  // namespace weft::detail

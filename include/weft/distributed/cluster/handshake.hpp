// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/messages.hpp>
#include <weft/encoding/sha256.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

using handshake_nonce = std::array<std::byte, 32>;

/// Returns true if the options of a task or client require tags in the frames of a connection.
template <class Options>
bool authenticates(const any_transport& network, const Options& options, bool is_near) {
  return network.can_authenticate() && !options.tls && (options.authenticate || !is_near);
}

/// Authenticates the two sides of a connection. Each side proves over the nonces of both that it knows the secret,
/// before the other side reveals anything. The dialed task proves itself first, because its proof reveals only that a
/// task exists. A proof contains the name of the intended task, so an eavesdropper or a process in the middle cannot
/// use it elsewhere. If either side requests it (introduction::authenticates), all further frames carry tags, with keys
/// derived from the secret, both nonces and both introductions.
///
///     dialing side                               dialed side
///     hello      nonce                  ->         a client that does not know the task's name sets a flag
///                                       <-       challenge  nonce, HMAC(listens | nonces | its name),
///                                                           HMAC(knows | nonces)
///     introduce  who, HMAC(dials | nonces | who) ->
///                                       <-       welcome    who, HMAC(welcomes | nonces | who | who)
///                                             or refuse     why, HMAC(refuses | nonces | why)
///
/// The second proof of a challenge distinguishes a task with another name from a process without the secret.
///
/// Input and output do not block: advance() moves the bytes that it can. The owner provides this task's introduction
/// and decides which peers to admit.
class handshake {
 public:
  enum class phase : unsigned char {
    talking,     // no decision is due
    challenged,  // dialing side: the other side has answered; check proves(), then call introduce() or reject()
    introduced,  // dialed side: the other side has proved the secret and sent its name; call welcome() or reject()
    over,        // welcomed, or refused and notified; the stream belongs to the owner again
  };

  /// Creates the dialing side.
  static handshake dialling(any_transport::stream stream, const hmac_sha256& proof, const handshake_nonce& nonce) {
    return handshake(std::move(stream), proof, nonce, true, {}, false);
  }
  /// Creates the dialing side of a client that has an address but no task name; the listening task then proves the name
  /// "".
  static handshake dialling_anyone(any_transport::stream stream, const hmac_sha256& proof,
                                   const handshake_nonce& nonce) {
    return handshake(std::move(stream), proof, nonce, true, {}, true);
  }
  /// Creates the dialed side, a task of this name.
  static handshake listening(any_transport::stream stream, const hmac_sha256& proof, const handshake_nonce& nonce,
                             std::string name) {
    return handshake(std::move(stream), proof, nonce, false, std::move(name), false);
  }
  /// dialling() on the heap, because nvcc does not construct the result in place.
  static std::unique_ptr<handshake> make_dialling(any_transport::stream stream, const hmac_sha256& proof,
                                                  const handshake_nonce& nonce) {
    return std::unique_ptr<handshake>(new handshake(std::move(stream), proof, nonce, true, {}, false));
  }
  handshake(const handshake&) = delete;
  handshake& operator=(const handshake&) = delete;

  phase at() const { return at_; }
  any_transport::stream& stream() { return stream_; }
  /// Returns true if output is pending.
  bool is_sending() const { return !out_.idle(); }

  /// Moves the bytes that it can, and returns their number. Throws weft::error: unavailable if the other side is gone,
  /// failed_precondition for another protocol version, unauthenticated for a wrong secret, and other codes for
  /// malformed input.
  std::size_t advance() {
    std::size_t moved = out_.advance(stream_);
    if (closing_) {
      if (rejected_)
        linger();
      else if (out_.idle())
        finish();
      return moved;
    }
    while (at_ == phase::talking) {
      moved += in_.advance(stream_, received_);
      if (!in_.complete()) break;
      dials_ ? hear_as_dialler() : hear_as_listener();
      moved += out_.advance(stream_);
    }
    return moved;
  }

  // ---- the dialing side ----

  /// Returns true if a task of this name that knows the secret has answered.
  bool proves(const std::string& name) const {
    const const_bytes proof = const_bytes(received_).subspan(sizeof(handshake_nonce), sizeof(sha256_digest));
    return knows_secret() && same_digest(proof_of("listens", {bytes_of(name)}), proof);
  }
  /// Returns true if the process that has answered knows the secret, even under another name.
  bool knows_secret() const { return same_digest(proof_of("knows", {}), received_proof()); }

  void introduce(const introduction& mine) {
    mine_ = mine.bytes();
    authenticates_ = mine.authenticates;
    send(frame_kind::introduce, mine_, proof_of("dials", {mine_}));
    at_ = phase::talking;
    in_.expect(introduction::max_bytes + sizeof(sha256_digest));
  }

  /// The other side's introduction after the handshake; empty if the other side refused.
  const std::optional<introduction>& other() const { return other_; }
  /// The reason for a refusal by a side that knows the secret.
  const std::optional<error>& refusal() const { return refusal_; }

  // ---- the dialed side ----

  /// Checks that an introduced peer waits for its answer. Throws weft::error: unavailable if the peer is gone,
  /// invalid_argument if it sends more.
  void expect_nothing() {
    std::array<std::byte, 1> more;
    const mutable_bytes into(more);
    if (stream_.read_some({&into, 1}) > 0) broken();
  }

  void welcome(const introduction& mine) {
    mine_ = mine.bytes();
    authenticates_ = mine.authenticates || other_->authenticates;
    send(frame_kind::welcome, mine_, proof_of("welcomes", {its_, mine_}));
    conclude();
  }
  /// Ends the handshake with an error. Only an introduced peer receives the reason. Any other peer receives only the
  /// code: permission_denied if its certificate names another task, and with a proof if it knows the secret and has
  /// another name. The stream stays open until such a peer has closed it, because closing a stream with unread input
  /// discards the output that is still on its way.
  void reject(const error& why) {
    const bool proves_it = at_ == phase::introduced || (at_ == phase::challenged && knows_secret());
    rejected_ = at_ != phase::introduced;
    mine_ = rejected_ ? error_bytes(why.code(), {}) : error_bytes(why.code(), why.what());
    send(frame_kind::refuse, mine_, proves_it ? proof_of("refuses", {mine_}) : sha256_digest{});
    conclude();
  }

 private:
  handshake(any_transport::stream stream, const hmac_sha256& proof, const handshake_nonce& nonce, bool dials,
            std::string name, bool anyone)
      : stream_(std::move(stream)), proof_(proof), dials_(dials), name_(std::move(name)), my_nonce_(nonce) {
    if (dials_) {
      mine_.assign(my_nonce_.begin(), my_nonce_.end());
      send(frame_kind::hello, mine_, {}, anyone ? 1 : 0);
    }
    in_.expect(dials_ ? std::uint64_t{max_refusal} : sizeof(handshake_nonce));
  }

  static constexpr std::size_t max_refusal = 8192;

  void hear_as_dialler() {
    const frame_kind kind = in_.header().kind;
    if (kind == frame_kind::refuse) return hear_refusal();
    if (!challenged_) {
      if (kind != frame_kind::challenge || received_.size() != sizeof(handshake_nonce) + 2 * sizeof(sha256_digest))
        broken();
      std::copy_n(received_.begin(), its_nonce_.size(), its_nonce_.begin());
      challenged_ = true;
      at_ = phase::challenged;
      return;
    }
    if (kind != frame_kind::welcome || received_.size() < sizeof(sha256_digest)) broken();
    its_.assign(received_.begin(), received_.end() - sizeof(sha256_digest));
    if (!same_digest(proof_of("welcomes", {mine_, its_}), received_proof())) stranger();
    other_ = introduction::read(its_);
    authenticates_ = authenticates_ || other_->authenticates;
    finish();
  }

  /// Ends the handshake; the stream then belongs to the owner.
  void finish() {
    at_ = phase::over;
    if (!authenticates_) return;
    const const_bytes dials(dials_ ? mine_ : its_), listens(dials_ ? its_ : mine_);
    const sha256_digest of_dials = proof_of("key of the side that dials", {dials, listens}),
                        of_listens = proof_of("key of who listens", {dials, listens});
    const frame_key one(of_dials.data(), frame_key::extent), other(of_listens.data(), frame_key::extent);
    dials_ ? stream_.authenticate(one, other) : stream_.authenticate(other, one);
  }

  void hear_refusal() {
    if (received_.size() < sizeof(sha256_digest)) broken();
    const const_bytes said = const_bytes(received_).first(received_.size() - sizeof(sha256_digest));
    if (!challenged_ || !same_digest(proof_of("refuses", {said}), received_proof())) {
      // Without a proof, anyone could have sent the refusal, so its text is not repeated.
      if (read_error(said, "handshake").code() == error_code::unauthenticated) stranger();
      throw error(error_code::unavailable, "handshake", "the peer rejects this task");
    }
    refusal_ = read_error(said, "handshake");
    at_ = phase::over;
  }

  void hear_as_listener() {
    const frame_kind kind = in_.header().kind;
    if (!challenged_) {
      if (kind != frame_kind::hello || received_.size() != sizeof(handshake_nonce)) broken();
      std::copy_n(received_.begin(), its_nonce_.size(), its_nonce_.begin());
      challenged_ = true;
      mine_.assign(my_nonce_.begin(), my_nonce_.end());
      const sha256_digest proof = proof_of("listens", {bytes_of(in_.header().request == 1 ? "" : name_)});
      mine_.insert(mine_.end(), proof.begin(), proof.end());
      send(frame_kind::challenge, mine_, proof_of("knows", {}));
      in_.expect(introduction::max_bytes + sizeof(sha256_digest));
      return;
    }
    if (kind == frame_kind::refuse) hear_rejection();
    if (kind != frame_kind::introduce || received_.size() < sizeof(sha256_digest)) broken();
    its_.assign(received_.begin(), received_.end() - sizeof(sha256_digest));
    if (!same_digest(proof_of("dials", {its_}), received_proof())) stranger();
    other_ = introduction::read(its_);
    at_ = phase::introduced;
  }

  /// Throws the reason why the dialing side has rejected this task.
  [[noreturn]] void hear_rejection() const {
    if (received_.size() >= sizeof(sha256_digest)) {
      const const_bytes said = const_bytes(received_).first(received_.size() - sizeof(sha256_digest));
      if (read_error(said, "handshake").code() == error_code::permission_denied)
        throw error(error_code::unauthenticated, "handshake",
                    {"a task that connected to ", name_, " rejects this task's certificate, which names another task"});
      if (same_digest(proof_of("refuses", {said}), received_proof()))
        throw error(error_code::failed_precondition, "handshake",
                    {"a task with the same secret expected a task other than ", name_,
                     " at this address: the jobs or addresses of the two tasks differ; give every task the same "
                     "cluster, with the same parameter servers"});
    }
    stranger();  // the other side does not accept this side's secret
  }

  [[noreturn]] static void broken() {
    throw error(error_code::invalid_argument, "handshake", "the peer broke the protocol");
  }
  [[noreturn]] static void stranger() {
    throw error(error_code::unauthenticated, "handshake", "the peer does not have this task's secret");
  }

  static const_bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

  const_bytes received_proof() const { return const_bytes(received_).last(sizeof(sha256_digest)); }

  /// Returns an HMAC over both nonces, the dialing side's first, and the pieces of `said`, each with its length.
  sha256_digest proof_of(std::string_view role, std::initializer_list<const_bytes> said) const {
    const handshake_nonce &first = dials_ ? my_nonce_ : its_nonce_, &second = dials_ ? its_nonce_ : my_nonce_;
    std::vector<std::byte> text;
    const auto append = [&](const_bytes piece) {
      std::byte size[8];
      put_little(size, piece.size());
      text.insert(text.end(), size, size + sizeof size);
      text.insert(text.end(), piece.begin(), piece.end());
    };
    append(bytes_of("weft handshake"));
    append(bytes_of(role));
    append(first);
    append(second);
    for (const const_bytes piece : said) append(piece);
    return proof_({text});
  }

  void send(frame_kind kind, const_bytes said, std::optional<sha256_digest> proof = {}, std::uint64_t request = 0) {
    sent_.assign(said.begin(), said.end());
    if (proof) sent_.insert(sent_.end(), proof->begin(), proof->end());
    frame_header header;
    header.kind = kind;
    header.request = request;
    out_.start(header, const_bytes(sent_));
  }

  void conclude() {
    closing_ = true;
    at_ = phase::talking;
    advance();
  }

  void linger() {
    std::array<std::byte, 1024> unread;
    const mutable_bytes into(unread);
    stream_.read_some({&into, 1});
  }

  any_transport::stream stream_;
  hmac_sha256 proof_;
  bool dials_;
  std::string name_;  // this task's name, on the dialed side
  handshake_nonce my_nonce_, its_nonce_{};
  phase at_ = phase::talking;
  bool challenged_ = false, closing_ = false, rejected_ = false, authenticates_ = false;
  frame_reader in_;
  frame_writer out_;
  std::vector<std::byte> sent_, received_, mine_, its_;  // messages, and the introductions of both sides
  std::optional<introduction> other_;
  std::optional<error> refusal_;
};

}  // namespace weft::detail

// SPDX-License-Identifier: BSL-1.0
// Everything that reads bytes from outside, under libFuzzer: what is read is written again and must be the same, and
// what is refused must be refused with a weft::error. WEFT_FUZZ_TARGET=<name> chooses one decoder; otherwise the first
// byte of each input does.
//
//   build/asan/test/fuzz/fuzz_decoders            goes on without end
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#include <weft/checkpoint/npz.hpp>
#include <weft/checkpoint/tensorflow_checkpoint.hpp>
#include <weft/data/csv.hpp>
#include <weft/data/decode_image.hpp>
#include <weft/data/example.hpp>
#include <weft/data/idx.hpp>
#include <weft/data/record_reader.hpp>
#include <weft/distributed/cluster/environment.hpp>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/membership/views/view_message.hpp>
#include <weft/distributed/parameter/enroll_message.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/replay_window.hpp>
#include <weft/distributed/parameter/server_state.hpp>
#include <weft/distributed/parameter/shards/shard_messages.hpp>
#include <weft/distributed/parameter/steps/squares_message.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/encoding/protobuf.hpp>
#include <weft/encoding/snappy.hpp>
#include <weft/graph/device_spec.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/onnx/file.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/tcp.hpp>

#include "../../tools/event_file.hpp"
#include "../distributed/as_stream.hpp"

using namespace weft;

namespace {

[[noreturn]] void broken(const char* what, int line) {
  std::fprintf(stderr, "decoders.cpp:%d: does not hold: %s\n", line, what);
  std::abort();
}
#define MUST(condition) ((condition) ? void() : broken(#condition, __LINE__))

using byte_list = std::vector<std::byte>;

/// The fuzzer's bytes, taken one after the other; zeros where they end.
class input {
 public:
  explicit input(const_bytes all) : rest_(all) {}

  std::uint8_t byte() { return rest_.empty() ? std::uint8_t{0} : std::to_integer<std::uint8_t>(take(1)[0]); }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  const_bytes take(std::size_t size) {
    const const_bytes taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  const_bytes all() { return take(rest_.size()); }
  bool empty() const { return rest_.empty(); }

  /// Text of which many bytes stand for a word.
  template <std::size_t Words>
  std::string text(const char* const (&words)[Words]) {
    std::string made;
    while (!empty()) {
      const std::uint8_t next = byte();
      if (next >= 128 && next - 128u < Words)
        made += words[next - 128];
      else
        made += static_cast<char>(next);
    }
    return made;
  }

 private:
  const_bytes rest_;
};

/// The code of what it throws, ok where it does not. Anything else than weft::error is left to end the program.
constexpr error_code ok{};
template <typename Action>
error_code code_of(Action action) {
  try {
    action();
    return ok;
  } catch (const error& problem) {
    MUST(problem.what()[0] != 0);
    return problem.code();
  }
}

bool is_one_of(error_code code, std::initializer_list<error_code> those) {
  return std::find(those.begin(), those.end(), code) != those.end();
}

// ---- frames ----

constexpr std::uint64_t limit = 600;

/// Makes a header, in place, what no honest peer's checksum refuses. Each bit of `how` mends something.
void mend(std::span<std::byte> frame, unsigned how) {
  std::byte* const at = frame.data();
  if (how & 1u) {
    detail::put_little(at, frame_magic);
    detail::put_little(at + 4, protocol_version);
  }
  if (how & 2u)
    detail::put_little(at + 6, static_cast<std::uint16_t>(1 + std::to_integer<unsigned>(at[6]) % last_frame_kind));
  if (how & 4u) detail::put_little(at + 8, detail::get_little<std::uint32_t>(at + 8) & known_frame_flags);
  if (how & 8u) detail::put_little(at + 24, detail::get_little<std::uint64_t>(at + 24) % limit);
  const auto length = detail::get_little<std::uint64_t>(at + 24);
  if ((how & 16u) && length <= frame.size() - frame_header_size)
    detail::put_little(at + 12, crc32c(frame.subspan(frame_header_size, static_cast<std::size_t>(length))));
  if (how & 32u) detail::put_little(at + detail::header_crc_at, crc32c(frame.first(detail::header_crc_at)));
}

byte_list mended(const_bytes from, unsigned how) {
  byte_list all(from.begin(), from.end());
  for (std::size_t at = 0; all.size() - at >= frame_header_size;) {
    const std::span rest = std::span(all).subspan(at);
    mend(rest, how);
    const auto length = detail::get_little<std::uint64_t>(rest.data() + 24);
    if (length > rest.size() - frame_header_size) break;
    at += frame_header_size + static_cast<std::size_t>(length);
  }
  return all;
}

/// Gives the bytes of `in` in pieces of at most `most`, then says that the other has closed; keeps what is written.
struct fed_stream {
  const_bytes in;
  std::size_t most = std::size_t{1} << 20;
  byte_list* out = nullptr;
  detail::frame_authentication* keys = nullptr;
  const_bytes* later = nullptr;  // instead of `in`

  detail::frame_authentication* authentication() const { return keys; }

  std::size_t read_some(std::span<const mutable_bytes> into) {
    const_bytes& left = later ? *later : in;
    if (left.empty()) throw error(error_code::unavailable, "", "closed");
    std::size_t moved = 0;
    for (const mutable_bytes piece : into) {
      const std::size_t n = std::min({piece.size(), left.size(), most - moved});
      std::copy_n(left.begin(), n, piece.begin());
      left = left.subspan(n);
      moved += n;
    }
    return moved;
  }
  std::size_t write_some(std::span<const const_bytes> from) {
    std::size_t moved = 0;
    for (const const_bytes piece : from) {
      const std::size_t n = std::min(piece.size(), most - moved);
      if (out) out->insert(out->end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
      moved += n;
    }
    return moved;
  }
  bool is_open() const { return true; }
  void close() {}
};

void header_of_frame(input in) {
  const unsigned how = in.byte();
  const const_bytes given = in.take(frame_header_size);
  byte_list bytes(given.begin(), given.end());
  bytes.resize(frame_header_size);
  mend(bytes, how);
  const std::span<const std::byte, frame_header_size> whole(bytes.data(), frame_header_size);
  frame_header header;
  const error_code code = code_of([&] { header = decode(whole, limit); });
  MUST(is_one_of(code, {ok, error_code::invalid_argument, error_code::failed_precondition, error_code::data_loss,
                        error_code::resource_exhausted}));
  if (code != ok) return;
  MUST(header.payload_length <= limit);
  const frame_header_bytes again = encode(header);
  MUST(std::equal(again.begin(), again.end(), bytes.begin()));
}

struct heard {
  std::vector<std::pair<frame_header, byte_list>> frames;
  std::string end;
  friend bool operator==(const heard&, const heard&) = default;
};

heard hear(const_bytes bytes, std::size_t most, detail::frame_authentication* keys = nullptr) {
  heard all;
  fed_stream from{bytes, most};
  from.keys = keys;
  frame_reader reader;
  byte_list payload;
  try {
    for (;;) {
      reader.expect(limit);
      payload.clear();
      while (!reader.complete()) {
        reader.advance(from);
        if (!reader.needs_destination()) continue;
        MUST(reader.header().payload_length <= limit);
        payload.resize(static_cast<std::size_t>(reader.header().payload_length));
        // In two pieces: what was scattered is what was announced.
        const std::size_t half = payload.size() / 2;
        const mutable_bytes pieces[] = {std::span(payload).first(half), std::span(payload).subspan(half)};
        reader.payload_to(pieces);
      }
      all.frames.emplace_back(reader.header(), payload);
    }
  } catch (const error& problem) {
    all.end = problem.what();
  }
  return all;
}

void frames(input in) {
  const unsigned how = in.byte();
  const std::size_t most = 1 + in.byte();
  const byte_list bytes = mended(in.all(), how);
  const heard whole = hear(bytes, std::size_t{1} << 20);
  MUST(whole == hear(bytes, most));
  std::size_t at = 0;
  for (const auto& [header, payload] : whole.frames) {
    byte_list written;
    fed_stream to{{}, most, &written};
    frame_writer writer;
    writer.start(header, const_bytes(payload), (header.flags & payload_checked) != 0);
    while (!writer.idle()) MUST(writer.advance(to) > 0);
    MUST(written.size() == frame_header_size + payload.size());
    if (header.flags & payload_checked)
      MUST(std::equal(written.begin(), written.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at)));
    at += written.size();
  }
}

/// Frames with tags, changed on the way: what arrives is the beginning of what was sent, up to the first change.
void frames_with_tags(input in) {
  if (!has_openssl) return;
  const std::array<std::byte, 20> one{std::byte{1}}, other{std::byte{2}};
  const std::size_t most = 1 + in.byte(), count = 1 + in.byte() % 4u;
  detail::frame_authentication sends(one, other), receives(other, one);
  std::vector<byte_list> sent;
  heard said;
  for (std::size_t i = 0; i < count; ++i) {
    frame_header header;
    header.kind = static_cast<frame_kind>(1 + in.byte() % last_frame_kind);
    header.request = in.byte();
    const const_bytes taken = in.take(in.byte());
    byte_list written;
    fed_stream to{{}, most, &written, &sends};
    frame_writer writer;
    writer.start(header, taken);
    while (!writer.idle()) MUST(writer.advance(to) > 0);
    MUST(written.size() == frame_header_size + taken.size() + sizeof(frame_tag));
    header.payload_length = taken.size();
    header.flags = authenticated;
    said.frames.emplace_back(header, byte_list(taken.begin(), taken.end()));
    sent.push_back(std::move(written));
  }
  std::size_t good = count;  // frames before the first change
  const std::size_t at = in.byte() % count, with = in.byte() % count;
  byte_list& chosen = sent[at];
  switch (in.byte() % 6u) {
    case 0:
      break;
    case 1: {  // a byte, and the header's checksum made good again
      const byte_list before = chosen;
      chosen[static_cast<std::size_t>(in.number() % chosen.size())] ^= static_cast<std::byte>(in.byte());
      mend(chosen, in.byte() & 63u);
      if (chosen != before) good = at;
      break;
    }
    case 2:
      sent.erase(sent.begin() + static_cast<std::ptrdiff_t>(at));
      good = at;
      break;
    case 3:
      if (at != with) good = std::min(at, with);
      std::swap(sent[at], sent[with]);
      break;
    case 4:
      sent.insert(sent.begin() + static_cast<std::ptrdiff_t>(at) + 1, byte_list(chosen));
      good = at + 1;
      break;
    default: {  // bytes from a sender without the key
      const const_bytes forged = in.all();
      sent.insert(sent.begin() + static_cast<std::ptrdiff_t>(at), mended(forged, 63));
      if (!sent[at].empty()) good = at;
    }
  }
  byte_list bytes;
  for (const byte_list& each : sent) bytes.insert(bytes.end(), each.begin(), each.end());
  const heard came = hear(bytes, 1 + in.byte(), &receives);
  MUST(came.frames.size() <= said.frames.size());
  for (std::size_t i = 0; i < came.frames.size(); ++i) MUST(came.frames[i] == said.frames[i]);
  MUST(came.frames.size() == good);
}

// ---- messages ----

/// A message that is read and written is a fixed point: a task can pass on whatever it has taken. And a message ends
/// where it says, unless it `has_rest`: neither more nor less is taken for one.
template <typename Read, typename Write>
void reads_what_it_writes(const_bytes bytes, Read read, Write write, bool has_rest = false) {
  byte_list once;
  const error_code code = code_of([&] { once = write(read(bytes)); });
  MUST(is_one_of(code, {ok, error_code::invalid_argument, error_code::data_loss, error_code::failed_precondition}));
  if (code != ok) return;
  byte_list twice;
  MUST(code_of([&] { twice = write(read(const_bytes(once))); }) == ok);
  MUST(once == twice);
  if (has_rest) return;
  byte_list other(bytes.begin(), bytes.end());
  const auto is_refused = [&] {
    return is_one_of(code_of([&] { read(const_bytes(other)); }), {error_code::invalid_argument, error_code::data_loss});
  };
  other.push_back(std::byte{0});
  MUST(is_refused());
  if (bytes.size() > 64) other.resize(64);  // the ends of long ones are like those of short ones
  while (!other.empty()) {
    other.pop_back();
    if (other.size() < bytes.size()) MUST(is_refused());
  }
}

/// Bytes of which one has changed, or whose end is cut; more often neither.
byte_list damaged(input& in, byte_list all) {
  const unsigned how = in.byte();
  const std::uint64_t at = in.number();
  if (how >= 240)
    all.resize(at % (all.size() + 1));
  else if (how >= 192 && !all.empty())
    all[at % all.size()] = static_cast<std::byte>(in.byte());
  return all;
}

constexpr std::size_t workers_of_messages = 3;

/// Makes the fields of a message, within their bounds, from the fuzzer's bytes.
class message_maker final : public detail::message_fields {
 public:
  message_maker(input& in, std::size_t peers, std::size_t longest = detail::max_text_bytes)
      : message_fields(peers), in_(in), longest_(longest) {}

  message_fields& text(std::string& x, std::size_t longest) override {
    const unsigned size = in_.byte();
    longest = std::min(longest, longest_);
    if (size == 255) {
      x.assign(longest - in_.byte() % 8u, static_cast<char>(in_.byte()));
    } else if (size >= 224) {
      x = size % 2 ? "momentum" : "gradient_descent";
    } else {
      const const_bytes taken = in_.take(size % 16);
      x.assign(reinterpret_cast<const char*>(taken.data()), taken.size());
    }
    return *this;
  }
  message_fields& bytes(byte_list& x, std::uint64_t, unsigned) override {
    const const_bytes taken = in_.take(in_.byte() % 32);
    x.assign(taken.begin(), taken.end());
    return *this;
  }
  message_fields& rest(const_bytes& x) override {
    x = in_.take(in_.byte());
    return *this;
  }
  std::size_t count(std::size_t, std::uint64_t most, unsigned) override {
    return static_cast<std::size_t>(std::min<std::uint64_t>(most, in_.byte() % 5));
  }
  message_fields& must_hold(bool) override { return *this; }

 private:
  std::uint64_t word(std::uint64_t, const number_type& type) override {
    const unsigned how = in_.byte();
    const std::uint64_t size = type.most - type.least + 1;  // 0: 2^64
    std::uint64_t x = how % 4 == 0 ? in_.number() >> how / 4 : in_.byte() % (2 + how / 4);
    if (size != 0) x %= size;
    return how % 4 == 1 ? type.most - x : type.least + x;
  }

  input& in_;
  std::size_t longest_;
};

template <typename Message>
Message made(input& in, Message from = {}, std::size_t longest = detail::max_text_bytes) {
  message_maker fields(in, workers_of_messages, longest);
  from.fields(fields);
  return from;
}

/// Any bytes, or in three of four cases a message, some with a byte changed or the end cut.
template <typename Message>
byte_list message_of(input& in, Message from = {}, std::size_t longest = detail::max_text_bytes) {
  const unsigned how = in.byte();
  if (how % 4 == 0) {
    const const_bytes all = in.all();
    return {all.begin(), all.end()};
  }
  return damaged(in, detail::write_message(made(in, std::move(from), longest)));
}

// What must be true of a message that was read, whatever its field list says.
template <typename Message>
void check(const Message&) {}

void check(const detail::decision_message& said) {
  for (const std::size_t each : said.workers) MUST(each < workers_of_messages);
}

void check(const detail::view_message& said) {
  for (const training_view* const v : {&said.current, &said.value}) {
    MUST(v->members.size() <= workers_of_messages && (v->members.empty() || v->has(*v->find(v->source))));
    MUST(v->owners.size() == (v->members.empty() ? 0 : workers_of_messages));
    for (const int owner : v->owners) MUST(v->find(owner) && v->owner_of(owner) == owner);
  }
}

/// What a client asks for names nodes of the graph, or is refused.
void check(const detail::step_registration& asked) {
  static const graph& g = []() -> const graph& {
    static graph made;
    static_cast<void>(placeholder<float, dims<2>>(made, "x"));
    static_cast<void>(variable<float, dims<2>>(made, "w", init::zeros{}));
    return made;
  }();
  detail::step_registration said = asked;
  said.graph = g.hash();
  said.seed = g.seed();
  try {
    said.check(g, 3);
  } catch (const error&) {
    return;
  }
  MUST(said.cpus.size() == 3 && said.gpus.size() == 3);
  for (const auto& p : said.placed)
    MUST(p.on.task == 3 || (p.on.task < 3 && p.on.ordinal < (p.on.gpu ? said.gpus : said.cpus)[p.on.task]));
  for (const value v : said.request.fetches) MUST(v.node < g.size() && v.output < g[v.node].def.outputs.size());
  for (const value v : said.request.feeds) MUST(v.node < g.size() && v.output < g[v.node].def.outputs.size());
  for (const std::uint32_t t : said.request.targets) MUST(t < g.size());
}
void check(const detail::variable_message& said) { check(said.registration); }
void check(const detail::run_message& said) {
  if (said.registers) check(said.registration);
}

template <typename Message>
void message(input& in, const Message& from = {}) {
  reads_what_it_writes(
      message_of(in, from),
      [&](const_bytes bytes) {
        auto said = detail::read_message(bytes, workers_of_messages, from);
        check(said);
        return said;
      },
      [](const Message& said) { return detail::write_message(said); },
      std::is_same_v<Message, detail::variable_message>);
}

void messages(input in) {
  using namespace detail;
  static constexpr void (*all[])(input&) = {
      [](input& x) { message<introduction>(x); },          [](input& x) { message<notice>(x); },
      [](input& x) { message<group_message>(x); },         [](input& x) { message<offer_message>(x); },
      [](input& x) { message<error_message>(x); },         [](input& x) { message<view_message>(x); },
      [](input& x) { message<enroll_message>(x); },        [](input& x) { message<held_message>(x); },
      [](input& x) { message<decision_message>(x); },      [](input& x) { message<shard_status>(x); },
      [](input& x) { message<squares_message>(x); },       [](input& x) { message<shard_order>(x); },
      [](input& x) { message(x, state_end{{0, 0}, {}}); }, [](input& x) { message<run_message>(x); },
      [](input& x) { message<end_message>(x); },           [](input& x) { message<task_message>(x); },
      [](input& x) { message<variable_message>(x); },      [](input& x) { message<reset_message>(x); },
  };
  all[in.byte() % std::size(all)](in);
}

/// A file of which some bytes have changed; most have the checksum that they must have.
byte_list sealed(input& in, byte_list file) {
  file = damaged(in, std::move(file));
  if (in.byte() % 8 != 0 && file.size() >= 4) detail::seal(file);
  return file;
}

void manifest(input in) {
  reads_what_it_writes(
      sealed(in, made<detail::shard_manifest>(in).bytes()),
      [](const_bytes bytes) { return detail::shard_manifest::read(bytes, "manifest"); },
      [](const auto& said) { return said.bytes(); });
}

void shard(input in) {
  const auto write = [](const detail::shard_header& head, const_bytes state) {
    detail::aligned_bytes file;
    std::size_t size = 0;
    detail::write_shard(head, {&state, 1}, file, size);
    detail::seal(static_cast<mutable_bytes>(file).first(size));
    return byte_list(file.data(), file.data() + size);
  };
  auto head = made<detail::shard_header>(in);
  const const_bytes state = std::exchange(head.state, {});
  head.state_bytes = state.size();
  reads_what_it_writes(
      sealed(in, write(head, state)),
      [](const_bytes bytes) {
        const_bytes state;
        detail::shard_header head = detail::read_shard(bytes, "shard", state);
        head.state = {};
        MUST(state.size() == head.state_bytes);
        return std::pair(std::move(head), byte_list(state.begin(), state.end()));
      },
      [&](const auto& said) { return write(said.first, said.second); });
}

void offer(input in) {
  // A segment that is there, and offers of it that lie: only the true one is taken.
  static const shared_segment segment = shared_segment::create(4096);
  const byte_list truth = detail::offer_bytes(segment.offer());
  byte_list said = truth;
  if (in.byte() % 4 == 0) {
    const const_bytes all = in.all();
    said.assign(all.begin(), all.end());
  } else {
    while (!in.empty()) {
      const std::size_t at = in.byte();
      said[at % said.size()] ^= static_cast<std::byte>(in.byte());
    }
  }
  shared_offer read;
  const error_code code = code_of([&] { read = detail::read_offer(said); });
  MUST((code == ok) == (said.size() == truth.size()));
  if (code != ok) return;
  MUST(detail::offer_bytes(read) == said);
  const error_code opened = code_of([&] { shared_segment::open(read, 4096); });
  // A thread's number names the same process, another descriptor may be the same segment: its size and its random
  // numbers have to be right.
  const bool true_words = read.bytes == 4096 && read.nonce == segment.offer().nonce;
  MUST(opened == ok ? true_words : opened == error_code::permission_denied && said != truth);
}

void enroll(input in) {
  auto list = made<detail::enroll_message>(in);
  for (parameter_spec& each : list.variables) {
    const unsigned what = in.byte();
    if (what % 4 == 0) continue;
    each.elements %= std::uint64_t{1} << (what / 4 % 48);
    if (what % 4 == 1 || each.row_elements == 0 || each.elements % each.row_elements != 0) each.row_elements = 0;
    each.ps_task = what % 5 == 0;
    each.rule.name = what % 3 ? "gradient_descent" : "momentum";
    each.rule.parameters.resize((what % 3 ? 1u : 2u) + (what % 31 == 0));
    each.rule.schedules.clear();
    if (what % 13 == 0) each.rule.schedules.push_back({what % 3u, std::int64_t{what}, {2, 0.1, 100, 0.5, 0}});
  }
  const byte_list bytes = damaged(in, list.bytes());
  detail::enroll_message said;
  if (code_of([&] { said = detail::enroll_message::read(bytes); }) != ok) return;
  MUST(printable(said.difference(said), std::size_t{1} << 20) == said.difference(said));
  constexpr std::uint64_t most = std::uint64_t{1} << 20;
  const error_code made = code_of([&] {
    parameter_store store(said.variables, 0, most);
    MUST(store.bytes() <= most);
    MUST(store.shared_layout().bytes >= store.bytes() + store.gradient_bytes());
    MUST(store.gradient_payload(false).min <= store.gradient_payload(false).max);
    MUST(!store.initialised());
  });
  MUST(is_one_of(made, {ok, error_code::not_found, error_code::invalid_argument, error_code::resource_exhausted}));
}

// Rows as a worker sends them: from bytes at random, or well-formed but for one byte.
void rows(input in) {
  std::vector<parameter_spec> variables{
      {"wide", element_type::float64, 40, 0, {"gradient_descent", {1.0}}, 4},
      {"whole", element_type::float32, 3, 0, {"gradient_descent", {1.0}}},
      {"narrow", element_type::float32, 9, 0, {"momentum", {1.0, 0.5}}, 1},
  };
  parameter_store store(variables, 0, 1 << 20);
  std::memset(store.values().data(), 0, store.bytes());
  byte_list bytes(16);  // "whole", and up to a multiple of 8
  if (in.byte() % 2) {
    const const_bytes rest = in.all();
    bytes.insert(bytes.end(), rest.begin(), rest.end());
  } else {
    for (const std::size_t size : {32u, 4u}) {
      byte_list of_rows;
      std::uint64_t count = 0;
      for (std::int64_t number = in.byte() % 4; number < (size == 32 ? 10 : 9) && !in.empty(); ++count) {
        const auto* const at = reinterpret_cast<const std::byte*>(&number);
        of_rows.insert(of_rows.end(), at, at + 8);
        number += 1 + in.byte() % 4;
      }
      const auto* const at = reinterpret_cast<const std::byte*>(&count);
      bytes.insert(bytes.end(), at, at + 8);
      bytes.insert(bytes.end(), of_rows.begin(), of_rows.end());
      bytes.resize(bytes.size() + static_cast<std::size_t>(count) * size);
    }
    if (in.byte() % 2) bytes[16 + in.number() % (bytes.size() - 16)] = static_cast<std::byte>(in.byte());
  }
  std::vector<detail::row_list> lists;
  const error_code read = code_of([&] { store.read_rows(bytes, false, lists); });
  MUST(is_one_of(read, {ok, error_code::invalid_argument}));
  if (read != ok) return;
  MUST(bytes.size() >= store.gradient_payload(false).min && bytes.size() <= store.gradient_payload(false).max);
  placed_gradients gradients = store.packed(bytes);
  gradients.rows = lists;
  const parameter_store::contribution both[] = {{gradients, 1}, {gradients, 0.5}};
  store.apply_mean(both, {}, nullptr, true);
  parameter_store::knowledge known;
  store.note(known);
  store.apply(gradients);
  byte_list changed;
  if (!store.changed_since(known, changed)) return;
  const byte_list before(16);
  byte_list all = before;
  all.insert(all.end(), changed.begin(), changed.end());
  MUST(code_of([&] { store.read_rows(all, false, lists); }) == ok);
}

void once(input in) {
  replay_window window;
  std::set<std::int64_t> known;
  while (!in.empty()) {
    const unsigned what = in.byte();
    const std::int64_t base = what & 64u ? std::numeric_limits<std::int64_t>::max() - 255 : 0;
    const std::int64_t step = base + (what & 32u ? in.byte() : what & 31u);
    if (known.contains(step)) MUST(window.contains(step));
    if (window.contains(step)) continue;  // known, or too old to tell
    window.insert(step);
    known.insert(step);
    MUST(window.newest() == *known.rbegin());
  }
}

// ---- handshakes ----

const hmac_sha256& our_secret() {
  static const hmac_sha256 proof = cluster_secret("a secret of many bytes").proof();
  return proof;
}

sha256_digest proof_of(std::string_view role, const_bytes first, const_bytes second,
                       std::initializer_list<const_bytes> said) {
  byte_list text;
  const auto append = [&](const_bytes piece) {
    std::byte size[8];
    detail::put_little(size, static_cast<std::uint64_t>(piece.size()));
    text.insert(text.end(), size, size + sizeof size);
    text.insert(text.end(), piece.begin(), piece.end());
  };
  for (const std::string_view part : {std::string_view("weft handshake"), role}) append(std::as_bytes(std::span(part)));
  append(first);
  append(second);
  for (const const_bytes piece : said) append(piece);
  return our_secret()({const_bytes(text)});
}

void put_frame(byte_list& to, frame_kind kind, const_bytes said, std::optional<sha256_digest> proof = {}) {
  byte_list payload(said.begin(), said.end());
  if (proof) payload.insert(payload.end(), proof->begin(), proof->end());
  frame_header header;
  header.kind = kind;
  fed_stream stream{{}, std::size_t{1} << 20, &to};
  frame_writer out;
  out.start(header, const_bytes(payload));
  while (!out.idle()) out.advance(stream);
}

using talk_type = detail::handshake;
using phase = talk_type::phase;
constexpr detail::handshake_nonce my_nonce{std::byte{1}}, its_nonce{std::byte{2}};
constexpr std::initializer_list<error_code> ends_of_handshakes = {ok,
                                                                  error_code::unavailable,
                                                                  error_code::invalid_argument,
                                                                  error_code::failed_precondition,
                                                                  error_code::unauthenticated,
                                                                  error_code::data_loss,
                                                                  error_code::resource_exhausted};

/// Feeds it until there is something to decide, or it ends.
error_code go_on(talk_type& talk, const_bytes& feed, const_bytes more) {
  feed = more;
  return code_of([&] {
    while (talk.at() == phase::talking) talk.advance();
  });
}

void strangers_to_listener(input in) {
  const unsigned how = in.byte();
  byte_list answer, said;
  if (how & 64u) put_frame(said, frame_kind::hello, its_nonce);
  const byte_list more = mended(in.all(), how);
  said.insert(said.end(), more.begin(), more.end());
  const_bytes feed;
  talk_type talk = talk_type::listening(test::as_stream(fed_stream{{}, 1 + how, &answer, nullptr, &feed}), our_secret(),
                                        my_nonce, "/job:ps/task:0");
  MUST(is_one_of(go_on(talk, feed, said), ends_of_handshakes));
  MUST(talk.at() == phase::talking && !talk.other() && !talk.refusal());
}

void strangers_to_dialler(input in) {
  const unsigned how = in.byte();
  byte_list sent;
  const_bytes feed;
  talk_type talk =
      talk_type::dialling(test::as_stream(fed_stream{{}, 1 + how, &sent, nullptr, &feed}), our_secret(), my_nonce);
  const byte_list said = mended(in.all(), how);
  MUST(is_one_of(go_on(talk, feed, said), ends_of_handshakes));
  MUST(!talk.other() && !talk.refusal());
  if (talk.at() == phase::challenged) MUST(!talk.proves("/job:ps/task:0") && !talk.knows_secret());
}

/// Tasks that know the secret and say of themselves what they like.
void insiders_to_listener(input in) {
  const std::size_t most = 1 + in.byte();
  byte_list answer, said;
  put_frame(said, frame_kind::hello, its_nonce);
  const byte_list who = message_of<detail::introduction>(in, {}, 400);
  put_frame(said, frame_kind::introduce, who, proof_of("dials", its_nonce, my_nonce, {who}));
  const_bytes feed;
  talk_type talk = talk_type::listening(test::as_stream(fed_stream{{}, most, &answer, nullptr, &feed}), our_secret(),
                                        my_nonce, "/job:ps/task:0");
  const error_code code = go_on(talk, feed, said);
  const bool fits = who.size() <= detail::introduction::max_bytes;
  const error_code read = fits ? code_of([&] { detail::introduction::read(who); }) : error_code::resource_exhausted;
  MUST(code == read);
  MUST((talk.at() == phase::introduced) == (read == ok));
  MUST(talk.other().has_value() == (read == ok));
}

void insiders_to_dialler(input in) {
  const unsigned how = in.byte();
  byte_list sent, said;
  const_bytes feed;
  talk_type talk =
      talk_type::dialling(test::as_stream(fed_stream{{}, 1 + how / 2, &sent, nullptr, &feed}), our_secret(), my_nonce);
  const std::string name = "/job:ps/task:0";
  byte_list challenge(its_nonce.begin(), its_nonce.end());
  const auto proof = proof_of("listens", my_nonce, its_nonce, {std::as_bytes(std::span(name))});
  challenge.insert(challenge.end(), proof.begin(), proof.end());
  put_frame(said, frame_kind::challenge, challenge, proof_of("knows", my_nonce, its_nonce, {}));
  MUST(go_on(talk, feed, said) == ok);
  MUST(talk.at() == phase::challenged && talk.proves(name) && !talk.proves("/job:ps/task:1") && talk.knows_secret());
  detail::introduction mine;
  mine.from = {"worker", 0};
  mine.to = {"ps", 0};
  talk.introduce(mine);
  const byte_list of_mine = mine.bytes(), what = how % 2 ? message_of<detail::error_message>(in, {}, 400)
                                                         : message_of<detail::introduction>(in, {}, 400);
  said.clear();
  const bool welcomes = how % 2 == 0;
  if (welcomes)
    put_frame(said, frame_kind::welcome, what, proof_of("welcomes", my_nonce, its_nonce, {of_mine, what}));
  else
    put_frame(said, frame_kind::refuse, what, proof_of("refuses", my_nonce, its_nonce, {what}));
  const error_code code = go_on(talk, feed, said);
  const error_code read = what.size() > detail::introduction::max_bytes ? error_code::resource_exhausted
                          : welcomes ? code_of([&] { detail::introduction::read(what); })
                                     : code_of([&] { detail::read_error(what, "handshake"); });
  MUST(code == read);
  MUST((talk.at() == phase::over) == (read == ok));
  MUST(talk.other().has_value() == (welcomes && read == ok));
  MUST(talk.refusal().has_value() == (!welcomes && read == ok));
}

// ---- texts ----

constexpr const char* cluster_words[] = {
    "127.0.0.1", "localhost", "[::1]", ":",     ",",  "worker", "ps", "host", "2222", "65535", "65536", "0", "[fe80",
    "]",         "127.",      ".",     "%eth0", "::", "[",      "=",  ";",    "256",  "00",    "-",     "@"};

void cluster(input in) {
  const std::string text = in.text(cluster_words);
  // An address.
  endpoint where;
  const error_code code = code_of([&] { where = parse_endpoint(text); });
  MUST(is_one_of(code, {ok, error_code::invalid_argument}));
  if (code == ok) MUST(parse_endpoint(to_string(where)) == where);
  // An address that is let pass as loopback is that to the system.
  static const tcp network;
  if (code == ok && code_of([&] { network.check(where); }) == ok && where.host != "localhost") {
    boost::system::error_code bad;
    const auto address = boost::asio::ip::make_address(where.host, bad);
    MUST(!bad && address.is_loopback());
  }
  // A whole cluster, as it is written.
  cluster_spec spec;
  const error_code made = code_of([&] {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(';', at), text.size());
      const std::string_view one = std::string_view(text).substr(at, end - at);
      const std::size_t equals = std::min(one.find('='), one.size());
      spec.add_job(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())));
      at = end + 1;
    }
  });
  MUST(is_one_of(made, {ok, error_code::invalid_argument}));
  const std::vector<task_id> tasks = spec.tasks();
  for (std::size_t rank = 0; rank < tasks.size(); ++rank) {
    MUST(spec.rank(tasks[rank]) == rank);
    MUST(spec.tasks_on_host_of(tasks[rank]) >= 1);
  }
  cluster_spec again;
  const std::string canonical = to_string(spec);
  if (canonical.empty()) return;
  for (std::size_t at = 0; at <= canonical.size();) {
    const std::size_t end = std::min(canonical.find(';', at), canonical.size()), equals = canonical.find('=', at);
    again.add_job(canonical.substr(at, equals - at), canonical.substr(equals + 1, end - equals - 1));
    at = end + 1;
  }
  MUST(again == spec && again.hash() == spec.hash() && to_string(again) == canonical);
}

constexpr const char* environment_words[] = {"{\"cluster\": {",
                                             "\"ps\": [",
                                             "\"worker\": {",
                                             "\"chief\": ",
                                             "\"host:1\"",
                                             "\"3\": ",
                                             "]",
                                             "}",
                                             ", \"task\": {\"type\": ",
                                             "\"index\": ",
                                             "node",
                                             "[",
                                             "01-04",
                                             "-",
                                             ",",
                                             "(x",
                                             ")",
                                             "2",
                                             "65536",
                                             "99999999999",
                                             "0",
                                             "\"",
                                             ":",
                                             "gpu-[1-2]"};

/// The environment that launchers and schedulers write.
void environment(input in) {
  const detail::environment_variable text{"VARIABLE", in.text(environment_words)};
  const auto refused_or = [](error_code code) { return is_one_of(code, {ok, error_code::invalid_argument}); };
  std::vector<std::string> hosts;
  const error_code listed = code_of([&] { hosts = detail::host_list_reader::read(text); });
  MUST(refused_or(listed) && hosts.size() <= detail::max_environment_tasks);
  if (listed == ok) {
    // Written out, it is the same list.
    std::string all;
    for (const std::string& each : hosts) all += (all.empty() ? "" : ",") + each;
    if (hosts.size() < 1000) MUST(detail::host_list_reader::read({"VARIABLE", all}) == hosts);
  }
  std::vector<int> counts;
  MUST(refused_or(code_of([&] { counts = detail::read_counts(text); })));
  std::size_t sum = 0;
  for (const int each : counts) sum += static_cast<std::size_t>(each);
  MUST(sum <= detail::max_environment_tasks && counts.size() <= detail::max_environment_tasks);
  std::optional<task_environment> here;
  const error_code told = code_of([&] {
    if (auto contents = detail::tf_config::read(text)) here = detail::from_tf_config(text, std::move(*contents), {});
  });
  MUST(refused_or(told));
  if (here) MUST(here->cluster.has_task({here->job, here->index}));
  std::string host;
  const error_code named = code_of([&] { host = detail::host_in(text, ""); });
  MUST(refused_or(named));
  if (named == ok) MUST(parse_endpoint(to_string(endpoint{host, 1})) == (endpoint{host, 1}));
}

constexpr const char* device_words[] = {"/job:",      "/task:",   "/replica:", "/device:", "CPU", "GPU",   "gpu",  ":0",
                                        "4294967296", "99999999", "worker",    "/",        ":",   "/cpu:", "/gpu", "*"};

void device(input in) {
  const std::string text = in.text(device_words);
  device_spec spec;
  const error_code code = code_of([&] { spec = parse_device(text.data(), text.size()); });
  MUST(is_one_of(code, {ok, error_code::invalid_argument}));
  if (code != ok) return;
  const std::string shown = to_string(spec);
  MUST(parse_device(shown.data(), shown.size()) == spec);
  MUST(shown.size() <= text.size() + 7);  // "/cpu:0" is "/device:CPU:0"
  MUST(merge(spec, device_spec{}) == spec && merge(spec, spec) == spec);
}

void shown_text(input in) {
  const std::size_t longest = in.byte() % 2 ? 4096 : in.byte();
  const const_bytes bytes = in.all();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string shown = printable(text, longest);
  MUST(shown.size() <= longest);
  MUST(printable(shown, longest) == shown);
  for (std::size_t at = 0; at < shown.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(shown[i]); };
    MUST(byte(at) >= 0x20 && byte(at) != 0x7f);
    const std::size_t size = byte(at) < 0x80 ? 1 : byte(at) < 0xe0 ? 2 : byte(at) < 0xf0 ? 3 : 4;
    MUST(size == 1 || byte(at) >= 0xc2);
    MUST(at + size <= shown.size());
    for (std::size_t i = 1; i < size; ++i) MUST((byte(at + i) & 0xc0u) == 0x80);
    at += size;
  }
}

// ---- files ----

/// A file of these bytes that has no place in any folder.
const std::string& file_of(const_bytes bytes) {
  static const int file = [] {
    const int made = ::memfd_create("fuzz", MFD_CLOEXEC);
    MUST(made >= 0 && ::fchmod(made, S_IRUSR | S_IWUSR) == 0);
    return made;
  }();
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  MUST(::ftruncate(file, 0) == 0);
  MUST(::pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return path;
}

byte_list packed(const_bytes bytes) {
  z_stream z{};
  MUST(::deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  byte_list out(::deflateBound(&z, bytes.size()) + 32);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  MUST(::deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  ::deflateEnd(&z);
  return out;
}

template <typename T>
void read_idx_as(const_bytes bytes, bool plain) {
  data::idx_array<T> array;
  const error_code code = code_of([&] { array = data::read_idx<T>(file_of(bytes)); });
  MUST(is_one_of(code, {ok, error_code::invalid_argument, error_code::data_loss}));
  if (code == ok) {
    MUST(!array.extents.empty() && array.extents.size() <= max_rank);
    std::size_t elements = 1;
    for (const std::size_t extent : array.extents) elements *= extent;
    MUST(elements == array.values.size());
  }
  const bool gzip_by_itself = bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
  if (!plain || gzip_by_itself) return;
  if (code == ok) {
    byte_list again{std::byte{0}, std::byte{0}, static_cast<std::byte>(data::detail::idx_code<T>),
                    static_cast<std::byte>(array.extents.size())};
    for (const std::size_t extent : array.extents)
      for (const unsigned shift : {24u, 16u, 8u, 0u}) again.push_back(static_cast<std::byte>(extent >> shift));
    for (const T& value : array.values) {
      std::array<std::byte, sizeof(T)> raw;
      std::memcpy(raw.data(), &value, sizeof(T));
      again.insert(again.end(), raw.rbegin(), raw.rend());
    }
    MUST(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  }
  // Compressed it is the same file, except that what only its length tells is known later.
  const byte_list small = packed(bytes);
  data::idx_array<T> unpacked;
  MUST(code_of([&] { unpacked = data::read_idx<T>(file_of(small)); }) == code);
  MUST(unpacked.extents == array.extents || code != ok);
  if (code == ok && !array.values.empty())
    MUST(std::memcmp(unpacked.values.data(), array.values.data(), array.values.size() * sizeof(T)) == 0);
}

void read_idx_as_code(const_bytes bytes, unsigned code, bool plain) {
  switch (code) {
    case 0:
      return read_idx_as<std::uint8_t>(bytes, plain);
    case 1:
      return read_idx_as<std::int8_t>(bytes, plain);
    case 2:
      return read_idx_as<std::int16_t>(bytes, plain);
    case 3:
      return read_idx_as<std::int32_t>(bytes, plain);
    case 4:
      return read_idx_as<float>(bytes, plain);
    default:
      return read_idx_as<double>(bytes, plain);
  }
}

void idx(input in) {
  const unsigned how = in.byte();
  const const_bytes given = in.all();
  byte_list bytes(given.begin(), given.end());
  constexpr std::uint8_t codes[] = {0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e};
  const unsigned type = how % 6;
  if (how >= 64 && bytes.size() >= 16) {  // a header that is nearly right
    bytes[0] = bytes[1] = std::byte{0};
    bytes[2] = static_cast<std::byte>(codes[type]);
    bytes[3] = static_cast<std::byte>(1 + std::to_integer<unsigned>(bytes[3]) % 3);
    for (std::size_t i = 4; i + 4 <= 16; i += 4)
      if (how >= 128) bytes[i] = bytes[i + 1] = bytes[i + 2] = std::byte{0};
  }
  read_idx_as_code(bytes, type, true);
}

void gzip(input in) {
  const unsigned how = in.byte();
  const const_bytes given = in.all();
  byte_list bytes(given.begin(), given.end());
  if (how >= 128) {
    // A file that was packed rightly, of which something changed on the way.
    const std::size_t changed = bytes.empty() ? 0 : std::to_integer<std::size_t>(bytes[0]);
    byte_list content{std::byte{0}, std::byte{0}, std::byte{8}, std::byte{1}, std::byte{0}, std::byte{0}};
    content.push_back(static_cast<std::byte>(bytes.size() >> 8));
    content.push_back(static_cast<std::byte>(bytes.size()));
    content.insert(content.end(), bytes.begin(), bytes.end());
    const byte_list truth = packed(content);
    byte_list lie = truth;
    if (how >= 192) lie.resize(lie.size() - std::min(lie.size() - 2, changed));
    if (how < 224 && lie.size() > 2) lie[2 + changed % (lie.size() - 2)] ^= static_cast<std::byte>(how & 31u);
    data::idx_array<std::uint8_t> array;
    const error_code code = code_of([&] { array = data::read_idx<std::uint8_t>(file_of(lie)); });
    MUST(is_one_of(code, {ok, error_code::invalid_argument, error_code::data_loss}));
    // Flags and times of gzip's header may change; the content may not.
    if (code == ok && array.values.size() == bytes.size())
      MUST(bytes.empty() || std::memcmp(array.values.data(), bytes.data(), bytes.size()) == 0);
    MUST(lie != truth || code == ok);
    return;
  }
  if (how >= 32 && bytes.size() >= 10) {
    constexpr unsigned char front[] = {0x1f, 0x8b, 8};
    std::memcpy(bytes.data(), front, sizeof front);
    if (how >= 64) bytes[3] = std::byte{0};
  }
  read_idx_as_code(bytes, how % 6, false);
}

constexpr const char* npy_words[] = {"{'descr': '<f4', 'fortran_order': False, 'shape': (",
                                     "{'descr': '>i2', 'fortran_order': True, 'shape': (",
                                     "{'descr': '|b1', 'fortran_order': True, 'shape': (",
                                     "'descr': '",
                                     "'fortran_order': ",
                                     "'shape': (",
                                     "True",
                                     "False",
                                     "), }",
                                     "}",
                                     "1",
                                     "2",
                                     "3",
                                     ",",
                                     ", ",
                                     "4294967296",
                                     "0"};

void npy(input in) {
  const unsigned how = in.byte();
  byte_list bytes;
  if (how % 4 == 0) {
    const const_bytes all = in.all();
    bytes.assign(all.begin(), all.end());
  } else {
    const std::size_t elements = in.byte() % 64;
    const std::string header = in.text(npy_words);
    constexpr unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    for (const unsigned char c : magic) bytes.push_back(static_cast<std::byte>(c));
    bytes.push_back(static_cast<std::byte>(1 + how % 3));
    bytes.push_back(std::byte{0});
    for (unsigned i = 0; i < (how % 3 == 0 ? 2u : 4u); ++i)
      bytes.push_back(static_cast<std::byte>(header.size() >> 8 * i));
    for (const char c : header) bytes.push_back(static_cast<std::byte>(c));
    bytes.resize(bytes.size() + elements, std::byte{1});
  }
  untyped_tensor read;
  const error_code code = code_of([&] { read = read_npy<untyped_tensor>(file_of(bytes)); });
  MUST(is_one_of(code, {ok, error_code::invalid_argument, error_code::data_loss, error_code::unimplemented}));
  if (code != ok) return;
  MUST(read.bytes.size() == read.extents.elements() * size_of(read.type));
  const std::string header = weft::detail::npy_header_text(read.type, read.extents);
  byte_list again;
  for (const char c : header) again.push_back(static_cast<std::byte>(c));
  again.insert(again.end(), read.bytes.begin(), read.bytes.end());
  const auto same = read_npy<untyped_tensor>(file_of(again));
  MUST(same.bytes == read.bytes && same.type == read.type && same.extents == read.extents);
}

/// A file that was written rightly, of which some bytes changed on the way, or the end is gone.
byte_list changed(input& in, const byte_list& truth) {
  byte_list lie = truth;
  const unsigned how = in.byte();
  if (how >= 224) lie.resize(in.number() % (lie.size() + 1));
  while (!in.empty() && !lie.empty()) {
    const std::size_t at = in.byte() + 256u * in.byte();
    lie[at % lie.size()] ^= static_cast<std::byte>(in.byte());
  }
  return lie;
}

byte_list zip_of(const_bytes content, bool deflated) {
  // Deflated bytes are those of gzip between its ten bytes at the front and eight at the end.
  byte_list stored(content.begin(), content.end());
  if (deflated) {
    const byte_list gzip = packed(content);
    stored.assign(gzip.begin() + 10, gzip.end() - 8);
  }
  byte_list zip;
  const auto put = [&](std::initializer_list<std::pair<std::uint64_t, unsigned>> numbers) {
    for (const auto& [value, size] : numbers)
      for (unsigned i = 0; i < size; ++i) zip.push_back(static_cast<std::byte>(value >> 8 * i));
  };
  const auto put_text = [&](std::string_view text) {
    for (const char c : text) zip.push_back(static_cast<std::byte>(c));
  };
  const std::uint64_t method = deflated ? 8 : 0, crc = crc32(content), size = content.size();
  put({{0x04034b50, 4}, {20, 2}, {0, 2}, {method, 2}, {0, 4}, {crc, 4}, {stored.size(), 4}, {size, 4}, {5, 2}, {0, 2}});
  put_text("a.npy");
  zip.insert(zip.end(), stored.begin(), stored.end());
  const std::uint64_t begin = zip.size();
  put({{0x02014b50, 4},
       {20, 2},
       {20, 2},
       {0, 2},
       {method, 2},
       {0, 4},
       {crc, 4},
       {stored.size(), 4},
       {size, 4},
       {5, 2},
       {20, 2},
       {0, 2},
       {0, 2},
       {0, 2},
       {0, 4},
       {0, 4}});
  put_text("a.npy");
  put({{1, 2}, {16, 2}, {size, 8}, {stored.size(), 8}});
  const std::uint64_t end = zip.size();
  put({{0x06054b50, 4}, {0, 4}, {1, 2}, {1, 2}, {end - begin, 4}, {begin, 4}, {0, 2}});
  return zip;
}

void npz(input in) {
  byte_list content;
  const std::string header = weft::detail::npy_header_text(dtype::uint8, shape(40, 2));
  for (const char c : header) content.push_back(static_cast<std::byte>(c));
  content.resize(content.size() + 80, std::byte{7});
  const byte_list truth = zip_of(content, in.byte() % 2 != 0), lie = changed(in, truth);
  untyped_tensor read;
  const error_code code = code_of([&] {
    const npz_reader archive(file_of(lie));
    for (const std::string& name : archive.names()) read = archive.read<untyped_tensor>(name);
  });
  MUST(is_one_of(code, {ok, error_code::invalid_argument, error_code::data_loss, error_code::unimplemented}));
  MUST(lie != truth || code == ok);
  if (code == ok && !read.bytes.empty()) MUST(read.bytes == byte_list(80, std::byte{7}));
}

/// One block of a table, its index and its end, with the right checksums, so that what is in the block is read.
byte_list table_of(const_bytes block, unsigned packing) {
  byte_list table;
  const auto put_varint = [](byte_list& to, std::uint64_t number) {
    for (; number >= 128; number >>= 7) to.push_back(static_cast<std::byte>(number % 128 + 128));
    to.push_back(static_cast<std::byte>(number));
  };
  const auto put_block = [&](const_bytes content, unsigned how) {
    byte_list place;
    put_varint(place, table.size());
    put_varint(place, content.size());
    const std::size_t begin = table.size();
    table.insert(table.end(), content.begin(), content.end());
    table.push_back(static_cast<std::byte>(how));
    const std::uint32_t crc = weft::detail::masked_crc32c(table.data() + begin, table.size() - begin);
    for (unsigned i = 0; i < 4; ++i) table.push_back(static_cast<std::byte>(crc >> 8 * i));
    return place;
  };
  const byte_list place = put_block(block, packing);
  byte_list index{std::byte{0}, std::byte{1}, static_cast<std::byte>(place.size()), std::byte{'z'}};
  index.insert(index.end(), place.begin(), place.end());
  for (const int c : {0, 0, 0, 0, 1, 0, 0, 0}) index.push_back(static_cast<std::byte>(c));
  const byte_list where = put_block(index, 0);
  byte_list footer{std::byte{0}, std::byte{0}};
  footer.insert(footer.end(), where.begin(), where.end());
  footer.resize(40);
  for (unsigned i = 0; i < 8; ++i) footer.push_back(static_cast<std::byte>(0xdb4775248b80fb57u >> 8 * i));
  table.insert(table.end(), footer.begin(), footer.end());
  return table;
}

void table(input in) {
  const unsigned how = in.byte();
  const const_bytes all = in.all();
  byte_list block(all.begin(), all.end());
  if (how % 4 == 0) block.resize(block.size() + 4);  // no restarts: all of it is entries
  const error_code code = code_of([&] {
    std::string last;
    for (const auto& [key, value] : weft::detail::sorted_table::read(file_of(table_of(block, how % 3)))) {
      MUST(last.empty() || last < key);
      last = key;
      weft::detail::read_bundle_entry(key, value, "a file");
    }
  });
  MUST(is_one_of(code, {ok, error_code::data_loss, error_code::unimplemented}));
}

byte_list encoded(const onnx::model& m) {
  const std::string all = onnx::detail::encoded(m);
  const auto* const bytes = reinterpret_cast<const std::byte*>(all.data());
  return {bytes, bytes + all.size()};
}

void onnx_model(input in) {
  static const byte_list truth = [] {
    onnx::model m;
    m.ir_version = 10;
    m.opsets[""] = 18;
    onnx::tensor_value w;
    w.name = "w";
    w.type = 1;
    w.extents = {2, 1};
    w.own(byte_list(8));
    m.main.initializers = {w};
    m.main.inputs.resize(1);
    m.main.inputs[0] = {"x", "", "tensor", 1, true, {{-1, "batch"}, {2, ""}}, ""};
    onnx::attribute then, axes, value;
    then.name = "then_branch";
    then.type = onnx::attribute::graph_type;
    then.g = std::make_shared<onnx::graph>(m.main);
    axes.name = "axes";
    axes.type = onnx::attribute::ints_type;
    axes.ints = {1, -2};
    value.name = "value";
    value.type = onnx::attribute::tensor_type;
    value.t = w;
    onnx::node n;
    n.op_type = "If";
    n.inputs = n.outputs = {"x", "y"};
    n.attributes = {then, axes, value};
    m.main.nodes = {n};
    m.functions.resize(1);
    m.functions[0].name = "f";
    m.functions[0].nodes = {n};
    return encoded(m);
  }();
  byte_list bytes;
  if (in.byte() % 2 == 0) {
    const const_bytes all = in.all();
    bytes.assign(all.begin(), all.end());
  } else {
    bytes = changed(in, truth);
  }
  byte_list again;
  const error_code code = code_of([&] { again = encoded(onnx::read_model(file_of(bytes))); });
  MUST(is_one_of(code, {ok, error_code::invalid_argument, error_code::data_loss, error_code::unimplemented,
                        error_code::permission_denied}));
  MUST(bytes != truth || (code == ok && again == truth));
  if (code == ok) MUST(encoded(onnx::read_model(file_of(again))) == again);
}

/// A folder with a checkpoint of a shard, of which the index is what the fuzzer makes it.
void tensorflow(input in) {
  static const std::string prefix = [] {
    std::string folder = "/tmp/weft-fuzz-XXXXXX";
    MUST(::mkdtemp(folder.data()) != nullptr);
    const std::string name = folder + "/c";
    std::FILE* const shard = std::fopen((name + ".data-00000-of-00001").c_str(), "wb");
    MUST(shard && std::fwrite("0123456789abcdef", 1, 16, shard) == 16 && std::fclose(shard) == 0);
    static std::string to_remove = folder;
    std::atexit([] {
      for (const char* each : {"/c.data-00000-of-00001", "/c.index", ""}) std::remove((to_remove + each).c_str());
    });
    return name;
  }();
  byte_list block;
  std::string last;
  const auto put = [&](const std::string& key, const_bytes value) {
    block.push_back(std::byte{0});
    block.push_back(static_cast<std::byte>(key.size()));
    block.push_back(static_cast<std::byte>(value.size()));
    for (const char c : key) block.push_back(static_cast<std::byte>(c));
    block.insert(block.end(), value.begin(), value.end());
  };
  const std::byte header[] = {std::byte{8}, std::byte{1}};
  put("", header);
  // A slice of a, and a, with what the fuzzer says of them.
  const std::string slice = weft::detail::bundle_key("a", {{0, 2}});
  const auto entry_of = [&](bool sliced) {
    const std::uint32_t crc = weft::detail::masked_crc32c("0123456789abcdef", 8);
    byte_list entry{std::byte{8},    static_cast<std::byte>(in.byte() % 24),
                    std::byte{0x12}, std::byte{4},
                    std::byte{0x12}, std::byte{2},
                    std::byte{8},    static_cast<std::byte>(in.byte() % 4)};
    entry.insert(entry.end(), {std::byte{0x28}, static_cast<std::byte>(in.byte() % 20), std::byte{0x35}});
    for (unsigned i = 0; i < 4; ++i) entry.push_back(static_cast<std::byte>(crc >> 8 * i));
    if (sliced)
      for (const int c : {0x3a, 4, 0x0a, 2, 0x10, 2}) entry.push_back(static_cast<std::byte>(c));
    const const_bytes more = in.take(in.byte() % 32);
    entry.insert(entry.end(), more.begin(), more.end());
    return entry;
  };
  const byte_list first = entry_of(in.byte() % 4 == 0), whole = entry_of(in.byte() % 2 != 0);
  put(slice, first);
  put("a", whole);
  block.resize(block.size() + 4);
  const byte_list bytes = table_of(block, 0);
  std::FILE* const index = std::fopen((prefix + ".index").c_str(), "wb");
  MUST(index && std::fwrite(bytes.data(), 1, bytes.size(), index) == bytes.size() && std::fclose(index) == 0);
  const error_code code = code_of([&] {
    const tensorflow_checkpoint checkpoint(prefix);
    const auto read = checkpoint.read<untyped_tensor>("a");
    MUST(read.bytes.size() == read.extents.elements() * size_of(read.type));
  });
  MUST(is_one_of(code, {ok, error_code::data_loss, error_code::unimplemented}));
}

void snappy(input in) {
  const const_bytes all = in.all();
  byte_list unpacked;
  if (data::unpack_snappy(all, unpacked)) MUST(unpacked.size() <= 32 * all.size());
}

/// Records of the fuzzer's bytes, one byte of the file changed or its end cut; or any bytes for a file.
void records(input in) {
  const unsigned how = in.byte();
  const std::uint64_t where = in.number();
  std::vector<std::string> written;
  std::string all;
  while (how % 4 != 0 && !in.empty()) {
    const const_bytes next = in.take(in.byte() % 64);
    written.emplace_back(reinterpret_cast<const char*>(next.data()), next.size());
    data::append_record(all, written.back());
  }
  if (how % 4 == 0) {
    const const_bytes any = in.all();
    all.assign(reinterpret_cast<const char*>(any.data()), any.size());
  } else if (how % 4 == 1 && !all.empty()) {
    all[where % all.size()] = static_cast<char>(all[where % all.size()] ^ static_cast<char>(how >> 2 | 1));
  } else if (how % 4 == 2) {
    all.resize(all.size() - where % (all.size() + 1));
  }
  const std::string& path = file_of(std::as_bytes(std::span(all)));
  std::vector<std::string> read;
  std::string record;
  const error_code code = code_of([&] {
    for (data::record_reader file(path); file.next(record);) read.push_back(record);
  });
  MUST(is_one_of(code, {ok, error_code::data_loss}));
  if (how % 4 != 0) MUST(read.size() <= written.size() && std::equal(read.begin(), read.end(), written.begin()));
  if (how % 4 == 3) MUST(code == ok && read == written);
  if (how % 4 == 1 && !all.empty()) MUST(code == error_code::data_loss);
  // Passing over what is damaged, the same are read and perhaps more; only a packed file is refused as a whole.
  std::size_t more = 0;
  const error_code passing = code_of([&] {
    data::record_reader file(path, {.skip_damaged = true});
    for (; file.next(record); ++more) MUST(more >= read.size() || record == read[more]);
    MUST((file.damaged() > 0) == (code != ok) && file.records() == more &&
         file.offset() <= file.records() * 16 + all.size() * 1032);
  });
  MUST(passing == ok || (passing == error_code::data_loss && (all.starts_with("\x1f\x8b") || (all[0] & 15) == 8)));
  if (passing == ok) MUST(more >= read.size());
}

constexpr const char* csv_words[] = {"a,b,c\n", "\n",    ",",   "\"",    "\"\"", "\r\n", "1.5",
                                     "-7",      "1e400", "nan", "\n,\"", "\",",  "0.1,", "x"};

void csv(input in) {
  const unsigned how = in.byte();
  const std::string text = in.text(csv_words);
  const std::string path = file_of(std::as_bytes(std::span(text)));
  data::csv_options options{.header = how % 2 != 0, .max_row_bytes = 64u + how};
  if (how & 2u) options.columns = {2, {0, "0"}, {1, "7"}};
  if (how & 4u) options.missing = "1";
  const auto rows = data::csv<std::string, float, std::int32_t>(path, options);
  std::vector<std::tuple<std::string, float, std::int32_t>> one_by_one, batched;
  const auto same = [](float x, float y) { return x == y || (x != x && y != y); };
  const error_code code = code_of([&] {
    for (const auto& row : rows) one_by_one.push_back(row);
  });
  MUST(is_one_of(code, {ok, error_code::invalid_argument, error_code::not_found}));
  const error_code again = code_of([&] {
    for (const auto& [a, b, c] : rows.batches(3))
      for (std::size_t i = 0; i < a.size(); ++i) batched.emplace_back(a[i], b(i), c(i));
  });
  MUST(again == code && batched.size() <= one_by_one.size());
  if (code == ok) MUST(batched.size() == one_by_one.size());
  for (std::size_t i = 0; i < batched.size(); ++i)
    MUST(std::get<0>(batched[i]) == std::get<0>(one_by_one[i]) &&
         same(std::get<1>(batched[i]), std::get<1>(one_by_one[i])) &&
         std::get<2>(batched[i]) == std::get<2>(one_by_one[i]));
  // Texts that are quoted come back.
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  const std::string written = "\"" + quoted + "\",5\n";
  for (const auto& [words, five] :
       data::csv<std::string, int>(file_of(std::as_bytes(std::span(written))), {.header = false}))
    MUST(words == text && five == 5);
}

std::string_view text_of(const_bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Grey or colour, it is an image or it is not; an image is written as PNG and comes back.
void decoded(std::string_view file, const data::decode_options& how) {
  data::image<1> grey(shape(0, 0, 1));
  data::image<3> colour(shape(0, 0, 3));
  const error_code one = code_of([&] { grey = data::decode_image<1>(file, how); });
  const error_code three = code_of([&] { colour = data::decode_image<3>(file, how); });
  MUST(one == three && is_one_of(one, {ok, error_code::data_loss, error_code::invalid_argument,
                                       error_code::resource_exhausted, error_code::unimplemented}));
  if (one != ok) return;
  MUST(grey.elements() > 0 && grey.elements() <= how.max_pixels && colour.elements() == 3 * grey.elements());
  const auto same = [](const auto& a, const auto& b) {
    return a.extents() == b.extents() && std::memcmp(a.data(), b.data(), a.elements()) == 0;
  };
  MUST(same(grey, data::decode_png<1>(data::encode_png(grey))));
  MUST(same(colour, data::decode_png<3>(data::encode_png(colour))));
}

/// A JPEG file of which some bytes have changed, or any bytes behind a signature.
void jpeg(input in) {
  const unsigned how = in.byte();
  data::decode_options options{.max_pixels = 1u << 14};
  if (how & 1u) options.min_height = options.min_width = 1 + how / 16;
  byte_list file;
  if (how & 2u) {
    std::vector<std::uint8_t> pixels(3 * 40 * 24);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * i / 7 * how);
    const std::string truth = data::encode_jpeg(pixels.data(), 40, how & 4u ? 72 : 24, how & 4u ? 1 : 3, 1 + how / 3);
    const const_bytes bytes = std::as_bytes(std::span(truth));
    if (how & 8u) {  // nothing has changed, but the end is gone
      const std::size_t size = in.number() % (truth.size() + 1);
      const error_code cut = code_of([&] { data::decode_image(std::string_view(truth).substr(0, size), options); });
      return MUST((cut == ok) == (size == truth.size()));
    }
    file = changed(in, byte_list(bytes.begin(), bytes.end()));
  } else {
    for (const int c : {0xff, 0xd8, 0xff}) file.push_back(static_cast<std::byte>(c));
    const const_bytes all = in.all();
    file.insert(file.end(), all.begin(), all.end());
  }
  decoded(text_of(file), options);
}

/// Chunks whose checksums are right; pixels of any kind, packed from the fuzzer's bytes.
void png(input in) {
  std::string file = "\x89PNG\r\n\x1a\n", header;
  const auto number = [](std::string& to, std::uint32_t x) {
    for (unsigned i = 0; i < 4; ++i) to += static_cast<char>(x >> (24 - 8 * i));
  };
  const auto chunk = [&](std::string kind, std::string_view content) {
    number(file, static_cast<std::uint32_t>(content.size()));
    kind += content;
    file += kind;
    number(file, crc32(std::as_bytes(std::span(kind))));
  };
  const unsigned how = in.byte();
  number(header, how & 1u ? static_cast<std::uint32_t>(in.number()) : in.byte());
  number(header, in.byte());
  header += static_cast<char>(how & 2u ? 1u << in.byte() % 5 : in.byte());
  header += static_cast<char>(how & 4u ? in.byte() % 7 : in.byte());
  header += std::string(2, '\0') + static_cast<char>(in.byte() % 3);
  chunk("IHDR", header);
  for (unsigned more = how / 32; more > 0; --more) {
    static constexpr const char* kinds[] = {"PLTE", "tRNS", "gAMA", "iCCP", "zTXt", "bKGD", "pHYs", "abcd"};
    const char* const kind = kinds[in.byte() % std::size(kinds)];
    chunk(kind, text_of(in.take(in.byte() % 64)));
  }
  if (how & 8u) {
    std::string rows(text_of(in.all()));
    rows.resize(rows.size() + (how & 16u ? 1u << 14 : 0));
    chunk("IDAT", data::detail::compressed(rows));
    chunk("IEND", {});
  } else {
    chunk("IDAT", text_of(in.take(in.byte())));
    file += text_of(in.all());
  }
  decoded(file, {.max_pixels = 1u << 14});
}

void example(input in) {
  const unsigned how = in.byte();
  std::string record;
  if (how % 4 == 0) {
    const const_bytes any = in.all();
    record.assign(reinterpret_cast<const char*>(any.data()), any.size());
  } else {
    std::vector<std::int64_t> numbers;
    for (unsigned i = 0; i < how / 16; ++i) numbers.push_back(static_cast<std::int64_t>(in.number() >> in.byte() % 64));
    record =
        data::example_writer().add("i", numbers).add("x", std::vector<float>(how / 8, 1.5f)).add("t", "text").bytes();
    const auto [i, t] = data::parse_example<tensor<std::int64_t, dims<dyn<"n">>>, std::string>(
        data::example_feature("i", 0), "t")(record);
    MUST(std::equal(i.begin(), i.end(), numbers.begin(), numbers.end()) && t == "text");
    const byte_list lie = changed(in, byte_list(reinterpret_cast<const std::byte*>(record.data()),
                                                reinterpret_cast<const std::byte*>(record.data() + record.size())));
    record.assign(reinterpret_cast<const char*>(lie.data()), lie.size());
  }
  const error_code code = code_of([&] {
    const auto [i, x, t, b] =
        data::parse_example<tensor<std::int32_t, dims<dyn<"n">, 2>>, tensor<float, dims<dyn<"n">>>,
                            std::vector<std::string>, std::uint8_t>("i", data::example_feature("x", 0), "t",
                                                                    data::example_feature("b", 3))(record);
    MUST(i.elements() <= record.size() && x.elements() <= record.size() && t.size() <= record.size());
  });
  MUST(is_one_of(code, {ok, error_code::data_loss, error_code::not_found, error_code::invalid_argument}));
}

/// The lines that the command weft shows of an event file.
void events(input in) {
  std::string all;
  while (!in.empty()) {
    const const_bytes next = in.take(in.byte());
    data::append_record(all, {reinterpret_cast<const char*>(next.data()), next.size()});
  }
  const std::string& path = file_of(std::as_bytes(std::span(all)));
  const error_code code = code_of([&] {
    tool::event_reader file(path);
    for (std::vector<tool::event_line> lines; file.next(lines);)
      for (const tool::event_line& line : lines) {
        const std::string json = tool::json_line(line, path);
        MUST(json.starts_with("{\"file\":") && json.ends_with("}") && weft::detail::is_utf8(json));
        MUST(json.find_first_of(std::string("\n\0", 2)) == std::string::npos);
        weft::detail::json_reader reader(json, path, 0);
        reader.skip();
      }
  });
  MUST(is_one_of(code, {ok, error_code::data_loss}));
}

void secret(input in) {
  const const_bytes bytes = in.all();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 4096));
  std::string_view line = text;
  if (line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  line = line.substr(0, line.find('\n'));
  while (!line.empty() && std::string_view(" \t\r").find(line.back()) != line.npos) line.remove_suffix(1);
  const error_code code = code_of([&] {
    const cluster_secret read = cluster_secret::from_file(file_of(bytes));
    MUST(read.proof()({bytes}) == cluster_secret(line).proof()({bytes}));
  });
  MUST(code == (line.size() < cluster_secret::least_bytes ? error_code::invalid_argument : ok));
}

// ---- which ----

struct target {
  const char* name;
  void (*run)(input);
};

constexpr target targets[] = {
    {"header", header_of_frame},
    {"frames", frames},
    {"frames_with_tags", frames_with_tags},
    {"messages", messages},
    {"manifest", manifest},
    {"shard", shard},
    {"offer", offer},
    {"enroll", enroll},
    {"rows", rows},
    {"once", once},
    {"strangers_to_listener", strangers_to_listener},
    {"strangers_to_dialler", strangers_to_dialler},
    {"insiders_to_listener", insiders_to_listener},
    {"insiders_to_dialler", insiders_to_dialler},
    {"cluster", cluster},
    {"environment", environment},
    {"device", device},
    {"text", shown_text},
    {"idx", idx},
    {"gzip", gzip},
    {"npy", npy},
    {"npz", npz},
    {"table", table},
    {"tensorflow", tensorflow},
    {"onnx_model", onnx_model},
    {"snappy", snappy},
    {"records", records},
    {"csv", csv},
    {"jpeg", jpeg},
    {"png", png},
    {"example", example},
    {"events", events},
    {"secret", secret},
};

const target* chosen() {
  const char* const wanted = std::getenv("WEFT_FUZZ_TARGET");
  if (!wanted) return nullptr;
  for (const target& each : targets)
    if (std::strcmp(each.name, wanted) == 0) return &each;
  std::fprintf(stderr, "WEFT_FUZZ_TARGET=%s is none of:", wanted);
  for (const target& each : targets) std::fprintf(stderr, " %s", each.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const target* const only = chosen();
  input in({reinterpret_cast<const std::byte*>(bytes), size});
  const target& which = only ? *only : targets[in.byte() % std::size(targets)];
  which.run(in);
  return 0;
}

// SPDX-License-Identifier: BSL-1.0
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>
#include <weft/deadline.hpp>
#include <weft/transport/event_loop.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/host_lookup.hpp>
#include <weft/transport/in_process.hpp>
#include <weft/transport/owned_descriptor.hpp>
#include <weft/transport/tcp.hpp>

#include "errors.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::says;

namespace {

using transports = boost::mpl::list<in_process, tcp>;

template <typename T>
struct pair_of_streams {
  T network;
  typename T::listener listener = network.listen({"127.0.0.1", 0});
  typename T::stream left = network.connect(listener.address());
  typename T::stream right = accepted();

  typename T::stream accepted() {
    typename T::stream stream;
    typename T::wait_item item{&listener, true, false};
    BOOST_REQUIRE(network.wait({&item, 1}, 5s));
    BOOST_REQUIRE(listener.accept(stream));
    return stream;
  }
};

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

/// Moves one frame from one side to the other; both in this thread.
template <typename Stream>
void transfer(frame_writer& out, Stream& to, frame_reader& in, Stream& from, std::vector<std::byte>& payload) {
  const deadline until = 60s;
  while (!in.complete()) {
    out.advance(to);
    in.advance(from);
    if (in.needs_destination()) {
      payload.resize(in.header().payload_length);
      in.payload_to(mutable_bytes(payload));
    }
    BOOST_REQUIRE(!until.expired());
  }
}

/// Bytes that come as they come, to read frames from.
struct recorded {
  std::vector<std::byte> bytes;
  std::size_t at = 0, step = 1;

  std::size_t read_some(std::span<const mutable_bytes> into) {
    if (at == bytes.size()) throw error(error_code::unavailable, "", "closed");
    const std::size_t n = std::min({step, into[0].size(), bytes.size() - at});
    std::memcpy(into[0].data(), bytes.data() + at, n);
    at += n;
    return n;
  }
  std::size_t write_some(std::span<const const_bytes> from) {
    std::size_t n = 0;
    for (const_bytes piece : from) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      n += piece.size();
    }
    return n;
  }
  bool is_open() const { return true; }
  void close() {}
};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(frames_of_every_size_arrive, T, transports) {
  pair_of_streams<T> ends;
  frame_writer out;
  frame_reader in;
  for (const std::size_t size : {0u, 1u, 63u, 64u, 1'000u, 65'536u, 65'537u, 5'000'000u}) {
    const auto sent = pattern(size);
    frame_header header;
    header.kind = frame_kind::values;
    header.step = static_cast<std::int64_t>(size);
    const std::vector<const_bytes> pieces{std::span(sent).first(size / 3), std::span(sent).subspan(size / 3)};
    out.start(header, pieces);
    in.expect(std::uint64_t{10'000'000});
    std::vector<std::byte> received;
    transfer(out, ends.left, in, ends.right, received);
    BOOST_TEST(out.idle());
    BOOST_TEST(in.header().step == header.step);
    BOOST_CHECK(received == sent);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(more_pieces_than_one_gather_write_carries, T, transports) {
  pair_of_streams<T> ends;
  const auto sent = pattern(100 * 37);
  std::vector<const_bytes> pieces;
  for (std::size_t i = 0; i < 100; ++i) pieces.push_back(std::span(sent).subspan(i * 37, 37));
  std::vector<std::byte> received(sent.size());
  std::vector<mutable_bytes> targets;
  for (std::size_t i = 0; i < 50; ++i) targets.push_back(std::span(received).subspan(i * 74, 74));
  frame_header header;
  header.kind = frame_kind::values;
  frame_writer out;
  out.start(header, pieces);
  frame_reader in;
  in.expect(targets);
  std::vector<std::byte> unused;
  transfer(out, ends.left, in, ends.right, unused);
  BOOST_CHECK(received == sent);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_detached_payload_may_change, T, transports) {
  pair_of_streams<T> ends;
  auto sent = pattern(16'000'000);
  const auto original = sent;
  frame_header header;
  header.kind = frame_kind::values;
  frame_writer out;
  out.start(header, const_bytes(sent));
  out.advance(ends.left);
  BOOST_REQUIRE(!out.idle());
  out.detach();
  std::fill(sent.begin(), sent.end(), std::byte{0});
  // The bytes that the kernel has taken were copied then; the rest was copied by detach().
  frame_reader in;
  in.expect(std::uint64_t{16'000'000});
  std::vector<std::byte> received;
  transfer(out, ends.left, in, ends.right, received);
  BOOST_CHECK(received == original);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_end_of_a_stream_is_an_error_once_all_is_read, T, transports) {
  pair_of_streams<T> ends;
  const auto sent = pattern(10);
  const const_bytes piece(sent);
  BOOST_TEST(ends.left.write_some({&piece, 1}) == 10u);
  ends.left.close();
  std::vector<std::byte> received(10);
  const mutable_bytes target(received);
  const deadline until = 5s;
  while (ends.right.read_some({&target, 1}) == 0) BOOST_REQUIRE(!until.expired());
  BOOST_CHECK(received == sent);
  const auto closed = [&] {
    while (!until.expired()) ends.right.read_some({&target, 1});
  };
  BOOST_CHECK_EXCEPTION(closed(), error, says(error_code::unavailable));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_signal_ends_a_wait, T, transports) {
  T network;
  typename T::signal bell(network);
  typename T::wait_item item{&bell, true, false};
  BOOST_TEST(!network.wait({&item, 1}, 1ms));
  std::thread other([&] { bell.notify(); });
  BOOST_TEST(network.wait({&item, 1}, 10s));
  other.join();
  bell.clear();
  BOOST_TEST(!network.wait({&item, 1}, 1ms));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_watch_calls_once_for_each_time_that_it_is_armed, T, transports) {
  pair_of_streams<T> streams;
  typename T::event_loop loop;
  typename T::signal signal{streams.network};
  const std::array<char, 3> text{'a', 'b', 'c'};
  const const_bytes three = std::as_bytes(std::span(text));
  int reads = 0, writes = 0, rings = 0;
  std::size_t read = 0;
  typename T::watch writable(loop, streams.left, [&] {
    ++writes;
    streams.left.write_some({&three, 1});
  });
  typename T::watch rung(loop, signal, [&] {
    ++rings;
    signal.clear();
    loop.stop();
  });
  typename T::watch readable(loop, streams.right, [&] {
    ++reads;
    std::array<std::byte, 8> bytes;
    const mutable_bytes into(bytes);
    read += streams.right.read_some({&into, 1});
    BOOST_TEST(streams.right.read_some({&into, 1}) == 0u);
    rung.arm(true, false);
    signal.notify();
  });
  readable.arm(true, false);
  readable.arm(true, false);
  writable.arm(false, true);
  loop.run();
  BOOST_TEST(reads == 1);
  BOOST_TEST(writes == 1);
  BOOST_TEST(rings == 1);
  BOOST_TEST(read == 3u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_watch_that_has_ended_calls_nothing, T, transports) {
  pair_of_streams<T> streams;
  typename T::event_loop loop;
  bool called = false;
  {
    typename T::watch ready(loop, streams.left, [&] { called = true; });
    ready.arm(false, true);  // it is: the call may be on its way already
  }
  {
    typename T::watch waits(loop, streams.right, [&] { called = true; });
    waits.arm(true, false);
  }
  streams.left.close();
  typename T::event_loop::timer end(loop);
  end.start(5ms, [&] { loop.stop(); });
  loop.run();
  BOOST_TEST(!called);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_watch_hears_the_end_of_a_stream_and_those_that_come, T, transports) {
  pair_of_streams<T> streams;
  typename T::event_loop loop;
  int heard = 0;
  typename T::watch end(loop, streams.right, [&] {
    std::array<std::byte, 8> bytes;
    const mutable_bytes into(bytes);
    BOOST_CHECK_EXCEPTION(streams.right.read_some({&into, 1}), error,
                          says(error_code::unavailable, "closed the connection"));
    if (++heard == 2) loop.stop();
  });
  typename T::watch door(loop, streams.listener, [&] {
    typename T::stream next;
    BOOST_TEST(streams.listener.accept(next));
    if (++heard == 2) loop.stop();
  });
  end.arm(true, false);
  door.arm(true, false);
  std::thread other([&] {
    streams.left.close();
    streams.network.connect(streams.listener.address());
  });
  loop.run();
  other.join();
  BOOST_TEST(heard == 2);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_loop_goes_on_after_a_handler_has_thrown, T, transports) {
  typename T::event_loop loop;
  std::string order;
  loop.post([&] {
    order += 'a';
    throw error(error_code::internal, "handler", "out of order");
  });
  loop.post([&] { order += 'b'; });
  typename T::event_loop::timer late(loop), early(loop), never(loop), again(loop);
  late.start(20ms, [&] {
    order += 'd';
    loop.stop();
  });
  early.start(1ms, [&] { order += 'c'; });
  never.start(0ms, [&] { order += 'x'; });
  never.cancel();
  again.start(0ms, [&] { order += 'y'; });
  again.start(std::chrono::hours(24 * 365 * 200), [&] { order += 'z'; });  // further than a clock counts
  BOOST_CHECK_EXCEPTION(loop.run(), error, says(error_code::internal, "out of order"));
  loop.run();
  BOOST_TEST(order == "abcd");
}

BOOST_AUTO_TEST_CASE(a_descriptor_is_watched_until_its_watch_ends) {
  std::array<int, 2> ends{};
  BOOST_REQUIRE(::pipe(ends.data()) == 0);
  const owned_descriptor out(ends[0]), in(ends[1]);
  event_loop loop;
  int calls = 0;
  {
    event_loop::descriptor_watch watch(loop, out.get(), [&] {
      ++calls;
      loop.stop();
    });
    watch.post();  // the pipe is empty
    watch.post();
    loop.run();
    BOOST_TEST(calls == 1);
    watch.arm(true, false);
    watch.post();
  }
  BOOST_REQUIRE(::write(in.get(), "x", 1) == 1);  // open, and nobody is called
  event_loop again;
  std::optional<event_loop::descriptor_watch> watch;
  watch.emplace(again, out.get(), [&] {
    ++calls;
    watch.reset();  // by its own handler
    again.stop();
  });
  watch->arm(true, false);
  again.run();
  BOOST_TEST(calls == 2);
  char byte = 0;
  BOOST_TEST(::read(out.get(), &byte, 1) == 1);
}

BOOST_AUTO_TEST_CASE(a_timer_may_be_moved) {
  event_loop loop;
  std::string order;
  event_loop::timer moved(loop);
  moved.start(1ms, [&] { order += 'a'; });
  event_loop::timer first = std::move(moved);
  event_loop::timer replaced(loop), last(loop);
  replaced.start(0ms, [&] { order += 'x'; });
  replaced = event_loop::timer(loop);
  moved.cancel();  // has no effect on the timer that was moved away
  moved.start(20ms, [&] { order += 'b'; });
  last.start(40ms, [&] { loop.stop(); });
  loop.run();
  BOOST_TEST(order == "ab");
}

BOOST_AUTO_TEST_CASE(what_has_been_moved_from_or_closed_is_not_open) {
  pair_of_streams<tcp> streams;
  static_assert(std::is_nothrow_move_constructible_v<tcp::stream> && std::is_nothrow_move_assignable_v<tcp::stream>);
  static_assert(std::is_nothrow_move_constructible_v<tcp::listener> &&
                std::is_nothrow_move_assignable_v<tcp::listener>);
  static_assert(!std::is_copy_constructible_v<tcp::stream> && !std::is_copy_constructible_v<tcp::listener>);
  tcp::stream none, moved = std::move(streams.left), closed = std::move(streams.right);
  tcp::listener no_listener, door = std::move(streams.listener);
  closed.close();
  closed.close();
  BOOST_TEST(moved.is_open());
  BOOST_TEST(door.is_open());
  std::array<std::byte, 1> byte{};
  const mutable_bytes into(byte);
  const const_bytes from(byte);
  for (tcp::stream* each : {&none, &streams.left, &closed}) {
    BOOST_TEST(!each->is_open());
    BOOST_TEST(each->descriptor() == -1);
    BOOST_TEST(each->remote_host().empty());
    BOOST_TEST(!each->is_encrypted());
    BOOST_TEST(each->certifies("/job:worker/task:0"));
    BOOST_TEST(each->certified_names().empty());
    const auto fails = says(error_code::failed_precondition, "this side of the connection is closed");
    BOOST_CHECK_EXCEPTION(each->read_some({&into, 1}), error, fails);
    BOOST_CHECK_EXCEPTION(each->write_some({&from, 1}), error, fails);
    each->close();
  }
  BOOST_TEST(!no_listener.is_open());
  BOOST_TEST(!streams.listener.is_open());
  streams.listener.close();
  streams.left = streams.network.connect(door.address());
  BOOST_TEST(streams.left.is_open());
  moved = tcp::stream();
  BOOST_TEST(!moved.is_open());
}

BOOST_AUTO_TEST_CASE(a_connection_that_is_on_its_way_is_waited_for) {
  tcp network;
  tcp::listener door = network.listen({"localhost", 0});
  tcp::event_loop loop;
  const auto pending = network.start_connect(door.address());
  tcp::stream made;
  std::string refused;
  tcp::watch connected(loop, *pending, [&] {
    if (pending->finish(made)) loop.stop();
  });
  connected.arm(false, true);
  loop.run();
  BOOST_TEST(made.is_open());

  const endpoint gone = door.address();
  made.close();
  door.close();
  const auto find_nobody = [&] {
    const auto nobody = network.start_connect(gone);
    tcp::wait_item item{nobody.get(), false, true};
    BOOST_TEST(network.wait({&item, 1}, 5s));
    nobody->finish(made);
  };
  BOOST_CHECK_EXCEPTION(find_nobody(), error, says(error_code::unavailable, "no process listens at"));
}

BOOST_AUTO_TEST_CASE(a_host_that_does_not_answer_holds_nobody_up) {
  tcp network;
  const owned_descriptor door(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in local{};
  local.sin_family = AF_INET;
  local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof local;
  BOOST_REQUIRE(::bind(door.get(), reinterpret_cast<const sockaddr*>(&local), size) == 0);
  BOOST_REQUIRE(::listen(door.get(), 0) == 0);
  BOOST_REQUIRE(::getsockname(door.get(), reinterpret_cast<sockaddr*>(&local), &size) == 0);
  const endpoint where{"127.0.0.1", ntohs(local.sin_port)};
  // Where its queue is full the system drops what comes, as a firewall does.
  std::vector<std::unique_ptr<tcp::pending_stream>> queued;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) queued.push_back(network.start_connect(where));
  tcp::stream made;
  BOOST_TEST(!queued.back()->finish(made));
  BOOST_CHECK_EXCEPTION(network.connect(where, 50ms), error, says(error_code::unavailable, "no process listens at"));
  BOOST_CHECK_EXCEPTION(queued.back()->time_out(), error, says(error_code::unavailable, "timed out"));
  BOOST_TEST((std::chrono::steady_clock::now() - begin < 10s));  // the system would give up after two minutes
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_port_is_taken_once_and_free_again, T, transports) {
  T network;
  auto first = network.listen({"127.0.0.1", 0});
  const endpoint where = first.address();
  BOOST_TEST(where.port != 0);
  BOOST_CHECK_EXCEPTION(network.listen(where), error, says(error_code::already_exists, to_string(where)));
  first.close();
  BOOST_CHECK_NO_THROW(network.listen(where));
  BOOST_CHECK_EXCEPTION(network.connect(where), error, says(error_code::unavailable));
}

BOOST_AUTO_TEST_CASE(tcp_stays_on_loopback) {
  tcp network;
  for (const char* host : {"0.0.0.0", "10.0.0.1", "example.org", "127.0.0.1.example.org", "127.1", "::", "127.0.0.01"})
    BOOST_CHECK_EXCEPTION(network.listen({host, 0}), error, says(error_code::permission_denied));
  for (const char* host : {"127.0.0.1", "localhost", "127.3.2.1"}) BOOST_CHECK_NO_THROW(network.listen({host, 0}));
}

BOOST_AUTO_TEST_CASE(tcp_reaches_other_hosts_where_it_may) {
  tcp network;
  network.allow_other_hosts();
  // All addresses of the machine, known by another: what a connection is told is where it leads.
  auto listener = network.listen({"127.0.0.1", 0}, {"0.0.0.0", 0});
  BOOST_TEST(listener.address().host == "127.0.0.1");
  auto there = network.connect(listener.address());
  tcp::stream here;
  tcp::wait_item item{&listener, true, false};
  BOOST_REQUIRE(network.wait({&item, 1}, 5s));
  BOOST_TEST(listener.accept(here));
  // This machine's own name, which many systems take for a loopback address.
  std::array<char, 256> name{};
  BOOST_REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  auto by_name = network.listen({name.data(), 0});
  BOOST_TEST(by_name.address().host == name.data());
  BOOST_CHECK_NO_THROW(network.connect(by_name.address(), 5s));
  BOOST_CHECK_EXCEPTION(
      network.listen({"192.0.2.1", 0}), error,
      says(error_code::unavailable, "192.0.2.1:0: Cannot assign requested address; this host does not have"));
  // A name that there is not (RFC 6761), and where it takes long, only as long as asked.
  const auto start = std::chrono::steady_clock::now();
  BOOST_CHECK_EXCEPTION(network.connect({"no.such.host.invalid", 1}, 300ms), error, [](const error& e) {
    return (e.code() == error_code::not_found || e.code() == error_code::unavailable) && e.operation() == "lookup" &&
           test::contains(e.what(), "no.such.host.invalid");
  });
  BOOST_CHECK(std::chrono::steady_clock::now() - start < 2s);
}

BOOST_AUTO_TEST_CASE(what_is_known_of_a_host_counts_while_it_is_looked_up_again) {
  host_lookup names;
  const std::string short_form = "127.1";  // no address as Asio reads them, and one that the C library finds by itself
  const auto found = names.find(short_form, 20s);
  BOOST_REQUIRE_EQUAL(found.size(), 1U);
  BOOST_TEST(found[0] == "127.0.0.1");
  for (int i = 0; i < 100; ++i) {
    names.forget(short_form);
    BOOST_CHECK_NO_THROW(names.find(short_form, 0ms));
  }
}

BOOST_AUTO_TEST_CASE(a_socket_that_listens_is_taken_over) {
  tcp network;
  auto listener = network.listen({"127.0.0.1", 0});
  auto taken = network.adopt(::dup(listener.descriptor()), {"localhost", 0});
  BOOST_TEST(taken.address().port == listener.address().port);
  listener.close();
  tcp::stream stream, there = network.connect(taken.address());
  tcp::wait_item item{&taken, true, false};
  BOOST_REQUIRE(network.wait({&item, 1}, 5s));
  BOOST_TEST(taken.accept(stream));
  for (const int wrong : {-1, 0, there.descriptor()})
    BOOST_CHECK_EXCEPTION(network.adopt(wrong, {"localhost", 0}), error,
                          says(error_code::invalid_argument, "is not a listening TCP socket"));
}

BOOST_AUTO_TEST_CASE(a_writer_may_be_moved_while_its_frame_is_leaving) {
  const auto first = pattern(100), second = pattern(3);
  frame_header one, other;
  one.kind = frame_kind::values;
  one.step = 1;
  other.kind = frame_kind::refuse;
  other.step = 2;
  frame_writer writer;
  writer.start(one, const_bytes(first));
  writer.detach();  // the bytes that it keeps move along
  frame_writer moved = std::move(writer);
  writer = frame_writer();
  writer.start(other, const_bytes(second));
  recorded stream;
  moved.advance(stream);
  BOOST_TEST(moved.idle());
  frame_reader in;
  in.expect(std::uint64_t{100});
  stream.step = 1000;
  std::vector<std::byte> received;
  while (!in.complete()) {
    in.advance(stream);
    if (!in.needs_destination()) continue;
    received.resize(in.header().payload_length);
    in.payload_to(mutable_bytes(received));
  }
  BOOST_TEST(in.header().step == 1);
  BOOST_CHECK(received == first);
  static_assert(!std::is_copy_constructible_v<frame_writer> && !std::is_copy_constructible_v<frame_reader>,
                "a copy would borrow what the first one keeps");
}

BOOST_AUTO_TEST_CASE(every_cut_and_every_flipped_bit_is_noticed) {
  recorded good;
  const auto payload = pattern(100);
  frame_header header;
  header.kind = frame_kind::values;
  frame_writer out;
  out.start(header, const_bytes(payload));
  out.advance(good);
  BOOST_REQUIRE(good.bytes.size() == frame_header_size + 100);

  const auto read = [](recorded from) {
    frame_reader in;
    in.expect(std::uint64_t{100});
    std::vector<std::byte> received;
    while (!in.complete()) {
      in.advance(from);
      if (in.needs_destination()) {
        received.resize(in.header().payload_length);
        in.payload_to(mutable_bytes(received));
      }
    }
    return received;
  };
  for (const std::size_t step : {1u, 7u, 64u, 1000u}) {
    recorded same = good;
    same.step = step;
    BOOST_CHECK(read(same) == payload);
  }
  for (std::size_t size = 0; size < good.bytes.size(); ++size) {
    recorded cut = good;
    cut.bytes.resize(size);
    BOOST_CHECK_THROW(read(cut), error);
  }
  for (std::size_t bit = 0; bit < 8 * good.bytes.size(); ++bit) {
    recorded bad = good;
    bad.bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    bad.step = 50;
    BOOST_CHECK_THROW(read(bad), error);
  }
}

BOOST_AUTO_TEST_CASE(a_payload_of_another_length_than_due_is_refused) {
  recorded stream;
  const auto payload = pattern(99);
  frame_header header;
  header.kind = frame_kind::reduce;
  frame_writer out;
  out.start(header, const_bytes(payload));
  out.advance(stream);
  stream.step = 1000;
  std::vector<std::byte> target(100);
  const mutable_bytes piece(target);
  frame_reader in;
  in.expect({&piece, 1});
  BOOST_CHECK_EXCEPTION(in.advance(stream), error, says(error_code::invalid_argument));
}

#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <span>
#include <thread>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/transport/endpoint.hpp>

namespace weft {

/// Bytes to write into.
using mutable_bytes = std::span<std::byte>;
/// Bytes to read.
using const_bytes = std::span<const std::byte>;

/// Most buffers that one gather write or scatter read carries.
inline constexpr std::size_t max_buffers = 16;

/// A connected stream of bytes that never blocks. Reading and writing return how many bytes moved, 0 when none can at
/// the moment, and throw weft::error (unavailable) when the other side has closed. Bytes that were offered and did not
/// move are offered again, the same ones, before any other.
template <typename Stream>
concept byte_stream = std::movable<Stream> &&
                      requires(Stream stream, std::span<const mutable_bytes> into, std::span<const const_bytes> from) {
                        { stream.read_some(into) } -> std::same_as<std::size_t>;
                        { stream.write_some(from) } -> std::same_as<std::size_t>;
                        { stream.is_open() } -> std::same_as<bool>;
                        stream.close();
                      };

/// Moves bytes between tasks. A transport is a cheap handle, copied freely.
///   listen(endpoint)   a listener; its address() tells the real port, its accept(stream&) never blocks,
///                      and may throw weft::error (resource_exhausted) where this side has nothing left for a stream
///   connect(endpoint, time)   a stream; throws weft::error (unavailable) when nobody listens there, or nobody has
///                      answered after `time`, which has a default
///   check(endpoint)    throws weft::error (permission_denied) for an address that this transport refuses
///   wait(items, time)  sleeps until one of the items is ready, or the time is over; false when none is
///   event_loop, watch  handlers of one thread, as weft::event_loop has them, with timers, and a watch that calls one
///   of
///                      them when a stream, listener or signal is ready
///   start_connect(endpoint)   optional: a connection that is on its way, where connect() would wait for it
///   listen(endpoint, bound), adopt(descriptor, endpoint)   optional: where the address that others know is not the one
///                      that is bound, or a socket listens already
///   allow_other_hosts()   optional: check() passes addresses that it refused before
///   same_host(one, other)   optional: whether tasks at these two endpoints may share memory
///   stream::authenticate(sends, receives), stream::authentication()   optional: keys for the tags of its frames
///   use_tls(credentials)   optional: streams made later are encrypted; they have is_encrypted(), certifies(task) and
///                      certified_names()
///   within_process     optional: true where nobody else can come, and tasks need no secret
///   fill_random(bytes) optional: the random numbers that tasks take, where a run is to be repeated
///   signal             something that another thread may notify() to end a wait
///   wait_item          {source, read, write}: a stream, listener or signal and what it is waited for
template <typename T>
concept transport =
    std::copy_constructible<T> && byte_stream<typename T::stream> &&
    requires(T& network, const endpoint& where, typename T::listener& listener, typename T::stream& stream,
             typename T::signal& signal, std::span<typename T::wait_item> items, typename T::event_loop& loop,
             typename T::watch& watch, typename T::event_loop::timer& timer, typename T::event_loop::handler what) {
      { network.listen(where) } -> std::same_as<typename T::listener>;
      { network.connect(where) } -> std::same_as<typename T::stream>;
      { network.connect(where, std::chrono::milliseconds{}) } -> std::same_as<typename T::stream>;
      network.check(where);
      { network.wait(items, std::chrono::nanoseconds{}) } -> std::same_as<bool>;
      { listener.address() } -> std::convertible_to<endpoint>;
      { listener.accept(stream) } -> std::same_as<bool>;
      signal.notify();
      signal.clear();
      loop.run();
      loop.stop();
      loop.post(what);
      timer.start(std::chrono::nanoseconds{}, what);
      timer.cancel();
      watch.arm(true, true);
    };

/// Whether a transport's tasks at these addresses may share memory.
template <typename T>
bool same_host(const endpoint& one, const endpoint& other) {
  if constexpr (requires { T::same_host(one, other); })
    return T::same_host(one, other);
  else
    return false;
}

/// How long a thread that waits for bytes asks for them again and again before it goes to sleep. Waking a sleeping
/// thread takes 50 to 100 microseconds on a virtual machine, a tenth of that on an idle core of a real one; but a
/// thread that polls takes a core from the thread that could do the work it waits for.
struct wait_policy {
  std::chrono::nanoseconds spin{};
  bool yield = false;  ///< give the core away between two questions

  /// The policy for a task that shares `cores` cores with `tasks - 1` others.
  static wait_policy for_tasks(std::size_t tasks, std::size_t cores = std::thread::hardware_concurrency()) {
    // Yielding costs a lonely poller next to nothing, and lets the peer run where some other program takes a core.
    if (tasks <= std::max<std::size_t>(cores, 1)) return {std::chrono::microseconds(200), true};
    return {std::chrono::nanoseconds(0), false};
  }
};

/// One thread's wait for bytes: asks for a while, then sleeps. Call moved() whenever some arrived or left, pause() when
/// none did.
template <transport T, typename Clock = std::chrono::steady_clock>
class waiter {
 public:
  waiter(T network, wait_policy policy) : network_(std::move(network)), policy_(policy) {}

  void moved() { idle_ = false; }

  /// Returns after a moment, at the latest when `until` is reached or after 50 milliseconds, so that the caller can
  /// look at what else may have ended its wait. Returns whether it slept.
  bool pause(std::span<typename T::wait_item> items, const basic_deadline<Clock>& until) {
    if (policy_.spin.count() > 0) {
      const auto now = Clock::now();
      if (!idle_) {
        idle_ = true;
        since_ = now;
      }
      if (now - since_ < policy_.spin) {
        if (policy_.yield) std::this_thread::yield();
        return false;
      }
    }
    const auto slice = std::chrono::duration_cast<typename Clock::duration>(std::chrono::milliseconds(50));
    network_.wait(items, std::chrono::duration_cast<std::chrono::nanoseconds>(until.remaining(slice)));
    idle_ = false;
    return true;
  }

 private:
  T network_;
  wait_policy policy_;
  bool idle_ = false;
  typename Clock::time_point since_{};
};

}  // namespace weft

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <span>
#include <thread>
#include <utility>

#include <weft/transport/endpoint.hpp>

namespace weft {

/// A buffer to read into.
using mutable_bytes = std::span<std::byte>;
/// A buffer to write from.
using const_bytes = std::span<const std::byte>;

/// The maximum number of buffers of a scatter read or gather write.
inline constexpr std::size_t max_buffers = 16;

/// A connected, non-blocking stream of bytes. read_some() and write_some() return the number of bytes moved, or 0 if
/// none can move now. They throw weft::error (unavailable) when the other side has closed the connection; read_some()
/// first returns all bytes that arrived before. If write_some() takes only some of the bytes, the caller offers the
/// rest again before any others. One thread at a time uses a stream.
template <typename Stream>
concept byte_stream = std::movable<Stream> &&
                      requires(Stream stream, std::span<const mutable_bytes> into, std::span<const const_bytes> from) {
                        { stream.read_some(into) } -> std::same_as<std::size_t>;
                        { stream.write_some(from) } -> std::same_as<std::size_t>;
                        { stream.is_open() } -> std::same_as<bool>;
                        stream.close();
                      };

/// Connects the tasks of a cluster and moves bytes between them. A transport is a cheap handle: its copies share the
/// network, and several threads call functions of one object at the same time. Functions throw weft::error with the
/// codes named here. docs/how-to/transports.md contains an example.
///
/// Required of a transport `T`:
/// - `listen(where)` returns a T::listener; port 0 selects a free port. Throws already_exists if the endpoint is in
///   use.
/// - `connect(where)`, `connect(where, milliseconds)` return a connected T::stream. They throw unavailable if no task
///   listens there or none answers in time.
/// - `check(where)` throws permission_denied for an endpoint that the transport must not use.
/// - `wait(items, nanoseconds)` sleeps until an item is ready or the time, rounded up, is over. Returns true if an item
///   is ready.
/// - `wait_item{&source, read, write}` is a stream, listener or signal, and the events to wait for.
/// - `stream` is a byte_stream with a default constructor.
/// - `listener`: `address()` returns the endpoint with the port that was bound. `accept(stream&)` never blocks: it
///   returns false if no connection waits. It throws resource_exhausted if the process cannot open another one.
///   `close()` frees the port.
/// - `signal(T&)`: any thread calls `notify()` to end a wait. The signal stays ready until `clear()`.
/// - `event_loop` runs handlers and timers on one thread; see weft::event_loop. It has a default constructor.
/// - `watch(loop, source, handler)`: after `arm(read, write)`, calls the handler once on the loop's thread when the
///   source is ready. It calls nothing after its destruction, which precedes closing or moving the source.
///
/// Optional members of a transport. detail::network_over looks for them; detail::network has their defaults:
/// - `static same_host(one, other)` returns true if tasks at these endpoints can share memory. Default: false.
/// - `static constexpr bool within_process`: if it exists, no other process can connect, and tasks need no secret.
/// - `fill_random(bytes)` generates identifiers and nonces, for simulations. Default: the system's random numbers.
/// - `allow_other_hosts()`: check() accepts endpoints of other hosts from now on.
/// - `listen(where, bound)` and `adopt(descriptor, where)`, both or neither: listen at an endpoint other than the one
///   that other tasks use, or on a socket that already listens. Default: the server rejects the options for this.
/// - `look_up(where)` looks up a host name without waiting. Throws not_found, or unavailable while there is no answer.
/// - `refuses(where)` returns true if the host answers that no process listens there. Default: true if connect() fails
///   with unavailable.
/// - `pending_stream` and `start_connect(where)`, which returns a std::unique_ptr to one: connect without blocking. A
///   pending stream is a source that is writable when the attempt has ended. `finish(stream&)` returns false while it
///   has not, and throws as connect() does. `time_out()` continues with the next address of the host, or throws
///   unavailable. Default: connect().
/// - `use_tls(credentials)` encrypts all later streams. Default: the server rejects certificates.
/// - `disk_delay()` returns the time that writing a file takes, in a simulation.
///
/// Optional members of a stream; detail::network_stream has their defaults:
/// - `authenticate(sends, receives)` and `authentication() const`: the keys and the state of frame tags. Default:
///   frames have no tags.
/// - `is_encrypted() const`; `certifies(task) const` and `certified_names() const`: the tasks that the certificate of
///   the other side names. Default: no encryption.
/// - `stays_on_host() const` returns false if other hosts can see the bytes. Default: true.
/// - `remote_host() const` returns the address of the other side. Default: unknown.
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

/// Returns true if tasks of this transport at these endpoints can share memory.
template <typename T>
bool same_host(const endpoint& one, const endpoint& other) {
  if constexpr (requires { T::same_host(one, other); })
    return T::same_host(one, other);
  else
    return false;
}

/// How long a thread polls for bytes before it sleeps. Waking a sleeping thread takes 50 to 100 microseconds on a
/// virtual machine, and a tenth of that on an idle core of a physical one. A polling thread takes a core from the
/// thread that could do the work it waits for.
struct wait_policy {
  std::chrono::nanoseconds spin{};
  bool yield = false;  ///< yield the core between two polls

  /// The policy for a task that shares `cores` cores with `tasks - 1` other tasks.
  static wait_policy for_tasks(std::size_t tasks, std::size_t cores = std::thread::hardware_concurrency()) {
    // Yielding costs almost nothing if no other thread is ready, and lets the peer run if another program takes a core.
    if (tasks <= std::max<std::size_t>(cores, 1)) return {std::chrono::microseconds(200), true};
    return {std::chrono::nanoseconds(0), false};
  }
};

}  // namespace weft

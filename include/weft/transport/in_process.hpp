// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

#include <weft/transport/endpoint.hpp>
#include <weft/transport/event_loop.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/transport.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <algorithm>
  #include <condition_variable>
  #include <cstdint>
  #include <cstring>
  #include <deque>
  #include <map>
  #include <mutex>
  #include <string>
  #include <utility>
  #include <vector>

  #include <weft/deadline.hpp>
  #include <weft/error.hpp>
#endif

namespace weft {

/// A network inside one process, for tests and in-graph replication: several tasks, each with its own threads. Copies
/// of an in_process share the network; networks that were created separately are not connected. One lock guards the
/// network, for simplicity.
class in_process {
  struct pipe;     // one direction of a stream: a bounded ring of bytes
  struct port;     // an address with a listener
  struct watched;  // a source that a loop waits for
  struct network;
  using network_ptr = std::shared_ptr<network>;

  class source {  // an object to wait for; its functions require the network's lock
   public:
    source() = default;
    explicit source(network_ptr net);
    source(source&&) = default;
    source& operator=(source&&) = default;
    virtual ~source() = default;
    virtual bool readable() const = 0;
    virtual bool writable() const = 0;

   protected:
    friend in_process;
    network_ptr network_;
  };

 public:
  /// A stream, listener or signal, and the events to wait for.
  struct wait_item {
    const source* from = nullptr;
    bool read = false, write = false;

    bool is_ready() const { return (read && from->readable()) || (write && from->writable()); }
  };

  /// A connected stream of bytes; see byte_stream.
  class stream : public source {
   public:
    stream() = default;
    stream(network_ptr net, std::shared_ptr<pipe> in, std::shared_ptr<pipe> out);
    stream(stream&&) = default;
    stream& operator=(stream&& other);
    ~stream() override;

    bool is_open() const { return network_ != nullptr; }
    std::size_t read_some(std::span<const mutable_bytes> into);
    std::size_t write_some(std::span<const const_bytes> from);
    void close();

    bool readable() const override;
    bool writable() const override;

   private:
    template <typename Action>
    std::size_t with_lock(Action action);

    using source::network_;
    std::shared_ptr<pipe> in_, out_;
  };

  /// Accepts connections at an address.
  class listener : public source {
   public:
    listener() = default;
    listener(network_ptr net, endpoint where, std::shared_ptr<port> at);
    listener(listener&&) = default;
    listener& operator=(listener&& other);
    ~listener() override;

    const endpoint& address() const { return address_; }
    bool is_open() const { return network_ != nullptr; }
    bool accept(stream& accepted);
    void close();

    bool readable() const override;
    bool writable() const override;

   private:
    using source::network_;
    endpoint address_;
    std::shared_ptr<port> port_;
  };

  /// Ends a wait: any thread calls notify().
  class signal : public source {
   public:
    explicit signal(in_process& owner);

    void notify();
    void clear();

    bool readable() const override;
    bool writable() const override;

   private:
    using source::network_;
    bool raised_ = false;
  };

  using event_loop = weft::event_loop;

  /// Calls a handler on the loop's thread when a source is ready. Must be destroyed before the source is closed or
  /// moved.
  class watch {
   public:
    watch(event_loop& loop, const source& from, event_loop::handler when_ready);
    watch(const watch&) = delete;
    watch& operator=(const watch&) = delete;
    ~watch();

    /// Requests one call of the handler. Has no effect while a call is pending.
    void arm(bool read, bool write);

   private:
    network_ptr network_;
    std::shared_ptr<watched> state_;
  };

  in_process();

  /// Other processes cannot connect, so tasks need no secret.
  static constexpr bool within_process = true;

  static void check(const endpoint&) {}

  listener listen(endpoint where);
  stream connect(const endpoint& where, std::chrono::nanoseconds = {});
  bool wait(std::span<wait_item> items, std::chrono::nanoseconds time);

 private:
  static constexpr std::size_t max_pending = 4096;

  network_ptr network_;
};

static_assert(transport<in_process>);

#if WEFT_DISTRIBUTED_DEFINITIONS

struct in_process::pipe {
  std::vector<std::byte> ring = std::vector<std::byte>(std::size_t{64} << 10);
  std::size_t first = 0, held = 0;
  bool closed = false;
};
struct in_process::port {
  std::deque<std::pair<std::shared_ptr<pipe>, std::shared_ptr<pipe>>> pending;  // read and write ends of the acceptor
};
struct in_process::watched {
  event_loop* loop;
  event_loop::handler when_ready;
  wait_item item;
  bool is_posted = false;
};
struct in_process::network {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<port>> ports;
  std::vector<std::shared_ptr<watched>> watches;  // armed watches
  std::uint16_t next_port = 40000;

  /// Wakes the threads and watches whose wait is over.
  void notify() {
    changed.notify_all();
    std::lock_guard lock(mutex);
    std::erase_if(watches, [&](const std::shared_ptr<watched>& each) {
      if (!each->item.is_ready()) return false;
      post(each);
      return true;
    });
  }

  /// Requires the lock.
  void post(const std::shared_ptr<watched>& which) {
    which->is_posted = true;
    which->loop->post([this, awaited = std::weak_ptr<watched>(which)] {
      const auto here = awaited.lock();
      if (!here) return;
      {
        std::lock_guard lock(mutex);
        here->is_posted = false;
      }
      here->when_ready();
    });
  }
};

WEFT_DISTRIBUTED_DECL in_process::in_process() : network_(std::make_shared<network>()) {}
WEFT_DISTRIBUTED_DECL in_process::source::source(network_ptr net) : network_(std::move(net)) {}

// ---- streams ----

WEFT_DISTRIBUTED_DECL in_process::stream::stream(network_ptr net, std::shared_ptr<pipe> in, std::shared_ptr<pipe> out)
    : source(std::move(net)), in_(std::move(in)), out_(std::move(out)) {}
WEFT_DISTRIBUTED_DECL in_process::stream& in_process::stream::operator=(stream&& other) {
  close();
  network_ = std::move(other.network_);
  in_ = std::move(other.in_);
  out_ = std::move(other.out_);
  return *this;
}
WEFT_DISTRIBUTED_DECL in_process::stream::~stream() { close(); }

template <typename Action>
std::size_t in_process::stream::with_lock(Action action) {
  if (!network_) throw error(error_code::failed_precondition, "in_process", "this side of the stream is closed");
  std::unique_lock lock(network_->mutex);
  const std::size_t moved = action();
  lock.unlock();
  if (moved > 0) network_->notify();
  return moved;
}

namespace detail {
[[noreturn]] inline void closed_by_peer() {
  throw error(error_code::unavailable, "in_process", "the other side closed the connection");
}
}  // namespace detail

WEFT_DISTRIBUTED_DECL std::size_t in_process::stream::read_some(std::span<const mutable_bytes> into) {
  return with_lock([&] {
    if (in_->held == 0 && in_->closed) detail::closed_by_peer();
    std::size_t moved = 0;
    for (mutable_bytes rest : into)
      while (!rest.empty() && in_->held > 0) {
        const std::size_t n = std::min({rest.size(), in_->held, in_->ring.size() - in_->first});
        std::memcpy(rest.data(), in_->ring.data() + in_->first, n);
        in_->first = (in_->first + n) % in_->ring.size();
        in_->held -= n;
        rest = rest.subspan(n);
        moved += n;
      }
    return moved;
  });
}

WEFT_DISTRIBUTED_DECL std::size_t in_process::stream::write_some(std::span<const const_bytes> from) {
  return with_lock([&] {
    if (out_->closed) detail::closed_by_peer();
    std::size_t moved = 0;
    for (const_bytes rest : from)
      while (!rest.empty() && out_->held < out_->ring.size()) {
        const std::size_t at = (out_->first + out_->held) % out_->ring.size();
        const std::size_t n = std::min({rest.size(), out_->ring.size() - out_->held, out_->ring.size() - at});
        std::memcpy(out_->ring.data() + at, rest.data(), n);
        out_->held += n;
        rest = rest.subspan(n);
        moved += n;
      }
    return moved;
  });
}

WEFT_DISTRIBUTED_DECL void in_process::stream::close() {
  if (!network_) return;
  {
    std::lock_guard lock(network_->mutex);
    in_->closed = out_->closed = true;
  }
  network_->notify();
  network_ = nullptr;
}

WEFT_DISTRIBUTED_DECL bool in_process::stream::readable() const { return in_->held > 0 || in_->closed; }
WEFT_DISTRIBUTED_DECL bool in_process::stream::writable() const {
  return out_->held < out_->ring.size() || out_->closed;
}

// ---- listeners ----

WEFT_DISTRIBUTED_DECL in_process::listener::listener(network_ptr net, endpoint where, std::shared_ptr<port> at)
    : source(std::move(net)), address_(std::move(where)), port_(std::move(at)) {}
WEFT_DISTRIBUTED_DECL in_process::listener& in_process::listener::operator=(listener&& other) {
  close();
  network_ = std::move(other.network_);
  address_ = std::move(other.address_);
  port_ = std::move(other.port_);
  return *this;
}
WEFT_DISTRIBUTED_DECL in_process::listener::~listener() { close(); }

WEFT_DISTRIBUTED_DECL bool in_process::listener::accept(stream& accepted) {
  std::pair<std::shared_ptr<pipe>, std::shared_ptr<pipe>> ends;
  {
    std::lock_guard lock(network_->mutex);
    if (port_->pending.empty()) return false;
    ends = std::move(port_->pending.front());
    port_->pending.pop_front();
  }
  accepted = stream(network_, std::move(ends.first), std::move(ends.second));
  return true;
}

WEFT_DISTRIBUTED_DECL void in_process::listener::close() {
  if (!network_) return;
  {
    std::lock_guard lock(network_->mutex);
    network_->ports.erase(to_string(address_));
    for (auto& [in, out] : port_->pending) in->closed = out->closed = true;
    port_->pending.clear();
  }
  network_->notify();
  network_ = nullptr;
}

WEFT_DISTRIBUTED_DECL bool in_process::listener::readable() const { return !port_->pending.empty(); }
WEFT_DISTRIBUTED_DECL bool in_process::listener::writable() const { return false; }

// ---- signals and watches ----

WEFT_DISTRIBUTED_DECL in_process::signal::signal(in_process& owner) : source(owner.network_) {}
WEFT_DISTRIBUTED_DECL void in_process::signal::notify() {
  {
    std::lock_guard lock(network_->mutex);
    raised_ = true;
  }
  network_->notify();
}
WEFT_DISTRIBUTED_DECL void in_process::signal::clear() {
  std::lock_guard lock(network_->mutex);
  raised_ = false;
}

WEFT_DISTRIBUTED_DECL bool in_process::signal::readable() const { return raised_; }
WEFT_DISTRIBUTED_DECL bool in_process::signal::writable() const { return false; }

WEFT_DISTRIBUTED_DECL in_process::watch::watch(event_loop& loop, const source& from, event_loop::handler when_ready)
    : network_(from.network_), state_(std::make_shared<watched>(watched{&loop, std::move(when_ready), {&from}})) {}
WEFT_DISTRIBUTED_DECL in_process::watch::~watch() {
  std::lock_guard lock(network_->mutex);
  std::erase(network_->watches, state_);
}
WEFT_DISTRIBUTED_DECL void in_process::watch::arm(bool read, bool write) {
  std::lock_guard lock(network_->mutex);
  if (state_->is_posted) return;
  std::erase(network_->watches, state_);
  state_->item.read = read;
  state_->item.write = write;
  if (state_->item.is_ready())
    network_->post(state_);
  else
    network_->watches.push_back(state_);
}

// ---- the network ----

WEFT_DISTRIBUTED_DECL in_process::listener in_process::listen(endpoint where) {
  std::lock_guard lock(network_->mutex);
  if (where.port == 0) where.port = network_->next_port++;
  auto [place, fresh] = network_->ports.try_emplace(to_string(where), std::make_shared<port>());
  if (!fresh)
    throw error(error_code::already_exists, "listen",
                {to_string(where), " is in use by another task; choose another port"});
  return listener(network_, where, place->second);
}

WEFT_DISTRIBUTED_DECL in_process::stream in_process::connect(const endpoint& where, std::chrono::nanoseconds) {
  auto to = std::make_shared<pipe>(), from = std::make_shared<pipe>();
  {
    std::lock_guard lock(network_->mutex);
    const auto found = network_->ports.find(to_string(where));
    if (found == network_->ports.end())
      throw error(error_code::unavailable, "connect", {"no process listens at ", to_string(where)});
    if (found->second->pending.size() >= max_pending)
      throw error(error_code::unavailable, "connect", {"too many connections are waiting at ", to_string(where)});
    found->second->pending.emplace_back(to, from);
  }
  network_->notify();
  return stream(network_, std::move(from), std::move(to));
}

WEFT_DISTRIBUTED_DECL bool in_process::wait(std::span<wait_item> items, std::chrono::nanoseconds time) {
  std::unique_lock lock(network_->mutex);
  for (const deadline until = time;;) {
    if (std::any_of(items.begin(), items.end(), [](const wait_item& each) { return each.is_ready(); })) return true;
    if (until.expired()) return false;
    detail::sleep(network_->changed, lock, std::chrono::duration_cast<std::chrono::nanoseconds>(until.remaining()));
  }
}

#endif

}  // namespace weft

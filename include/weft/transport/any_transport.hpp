// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/transport/frame_authentication.hpp>
#include <weft/transport/random_bytes.hpp>
#include <weft/transport/tls.hpp>
#include <weft/transport/transport.hpp>

namespace weft {

namespace detail {

// The interfaces through which any_transport calls a transport. A virtual function with a body is an optional member of
// the transport; the body is its default.

struct network_loop;
struct network_watch;

/// A stream, listener or signal, or a connection that is not established yet.
struct network_source {
  using handler = std::function<void()>;

  virtual ~network_source() = default;
  /// Assigns the transport's wait_item for this source to `*at`.
  virtual void write_wait_item(void* at, bool read, bool write) const = 0;
  virtual owned<network_watch> watch(network_loop& loop, handler when_ready) const = 0;
};

struct network_stream : network_source {
  virtual std::size_t read_some(std::span<const mutable_bytes> into) = 0;
  virtual std::size_t write_some(std::span<const const_bytes> from) = 0;
  virtual bool is_open() const = 0;
  virtual void close() = 0;

  /// The address of the other side, or an empty string if it is unknown.
  virtual std::string remote_host() const { return {}; }
  /// Returns false if other hosts can see the bytes of the stream.
  virtual bool stays_on_host() const { return true; }
  /// Sets the keys of the tags. All later frames have tags.
  virtual void authenticate(frame_key sends, frame_key receives) {
    static_cast<void>(sends), static_cast<void>(receives);
  }
  /// Null if frames have no tags.
  virtual frame_authentication* authentication() const { return nullptr; }
  virtual bool is_encrypted() const { return false; }
  /// Returns true if the certificate of the other side names the task, or if the stream is not encrypted.
  virtual bool certifies(std::string_view task) const { return static_cast<void>(task), true; }
  virtual std::string certified_names() const { return {}; }
};

struct network_listener : network_source {
  virtual endpoint address() const = 0;
  /// Returns the next stream, or null if no connection waits.
  virtual owned<network_stream> accept() = 0;
  virtual void close() = 0;
};

struct network_signal : network_source {
  virtual void notify() = 0;
  virtual void clear() = 0;
};

struct network_connection : network_source {
  /// Returns the stream, or null while the connection is not established. Throws as connect() does.
  virtual owned<network_stream> finish() = 0;
  /// Tries the next address of the host. Throws weft::error (unavailable) if there is none.
  virtual void time_out() = 0;
};

struct network_timer {
  virtual ~network_timer() = default;
  virtual void start(std::chrono::nanoseconds after, std::function<void()> then) = 0;
  virtual void cancel() = 0;
};

struct network_watch {
  virtual ~network_watch() = default;
  virtual void arm(bool read, bool write) = 0;
};

struct network_loop {
  virtual ~network_loop() = default;
  virtual void run() = 0;
  virtual void stop() = 0;
  virtual void post(std::function<void()> what) = 0;
  virtual owned<network_timer> timer() = 0;
};

/// A source and the events to wait for.
struct network_item {
  const network_source* from = nullptr;
  bool read = false, write = false;
};

/// A transport. The comment on the concept `transport` describes the functions.
struct network {
  virtual ~network() = default;
  virtual owned<network_listener> listen(const endpoint& where) = 0;
  /// Without a time, the transport's own default applies.
  virtual owned<network_stream> connect(const endpoint& where, std::optional<std::chrono::milliseconds> time) = 0;
  /// Throws weft::error (permission_denied) for an endpoint that the transport must not use.
  virtual void check(const endpoint& where) = 0;
  virtual bool wait(std::span<const network_item> items, std::chrono::nanoseconds time) = 0;
  virtual owned<network_signal> signal() = 0;
  virtual owned<network_loop> loop() = 0;

  /// check() accepts endpoints of other hosts from now on.
  virtual void allow_other_hosts() {}
  /// Returns true if tasks at these endpoints can share memory.
  virtual bool same_host(const endpoint&, const endpoint&) const { return false; }
  /// Returns true if no other process can connect, so that tasks need no secret.
  virtual bool is_within_process() const { return false; }
  virtual void fill_random(std::span<std::byte> bytes) { weft::fill_random(bytes); }
  virtual bool can_authenticate() const { return false; }
  virtual bool can_encrypt() const { return false; }
  virtual void use_tls(const tls_credentials&) {}
  /// Returns true if the transport has listen(where, bound) and adopt().
  virtual bool can_adopt() const { return false; }
  /// Listens at the second endpoint; other tasks connect to the first.
  virtual owned<network_listener> listen(const endpoint& where, const endpoint&) { return listen(where); }
  /// Takes over a socket that already listens.
  virtual owned<network_listener> adopt(int, const endpoint& where) { return listen(where); }
  /// Looks up the host if it is a name, without waiting. Throws weft::error: not_found if no host has this name,
  /// unavailable while there is no answer.
  virtual void look_up(const endpoint&) {}
  /// Returns true if the host answers that no process listens there.
  virtual bool refuses(const endpoint& where) = 0;
  /// Starts to connect, without blocking. Returns null if the transport can only connect().
  virtual owned<network_connection> start_connect(const endpoint&) { return {}; }
  /// The time that writing a file takes in a simulation.
  virtual std::optional<std::chrono::nanoseconds> disk_delay() { return {}; }
};

template <transport T>
class event_loop_over final : public network_loop {
 public:
  using native = typename T::event_loop;

  void run() override { loop_.run(); }
  void stop() override { loop_.stop(); }
  void post(std::function<void()> what) override { loop_.post(std::move(what)); }
  owned<network_timer> timer() override { return owned<network_timer>(new timer_over(loop_)); }

  template <typename Source>
  owned<network_watch> watch(const Source& from, std::function<void()> when_ready) {
    return owned<network_watch>(new watch_over(loop_, from, std::move(when_ready)));
  }

 private:
  struct timer_over final : network_timer {
    typename native::timer its;
    explicit timer_over(native& loop) : its(loop) {}
    void start(std::chrono::nanoseconds after, std::function<void()> then) override {
      its.start(after, std::move(then));
    }
    void cancel() override { its.cancel(); }
  };
  struct watch_over final : network_watch {
    typename T::watch its;
    template <typename Source>
    watch_over(native& loop, const Source& from, std::function<void()> when_ready)
        : its(loop, from, std::move(when_ready)) {}
    void arm(bool read, bool write) override { its.arm(read, write); }
  };

  native loop_;
};

/// Implements `Base`, a kind of source, by a `Native` of the transport.
template <transport T, typename Native, typename Base>
class source_over : public Base {
 public:
  template <typename... Arguments>
  explicit source_over(Arguments&&... arguments) : its_(std::forward<Arguments>(arguments)...) {}

  void write_wait_item(void* at, bool read, bool write) const override {
    *static_cast<typename T::wait_item*>(at) = {&its_, read, write};
  }
  owned<network_watch> watch(network_loop& loop, std::function<void()> when_ready) const override {
    return static_cast<event_loop_over<T>&>(loop).watch(its_, std::move(when_ready));
  }

 protected:
  Native its_;
};

template <transport T>
class stream_over final : public source_over<T, typename T::stream, network_stream> {
  using native = typename T::stream;
  using source_over<T, native, network_stream>::its_;

 public:
  explicit stream_over(native its) : source_over<T, native, network_stream>(std::move(its)) {}

  std::size_t read_some(std::span<const mutable_bytes> into) override { return its_.read_some(into); }
  std::size_t write_some(std::span<const const_bytes> from) override { return its_.write_some(from); }
  bool is_open() const override { return its_.is_open(); }
  void close() override { its_.close(); }
  std::string remote_host() const override {
    if constexpr (requires { its_.remote_host(); })
      return its_.remote_host();
    else
      return network_stream::remote_host();
  }
  bool stays_on_host() const override {
    if constexpr (requires { its_.stays_on_host(); })
      return its_.stays_on_host();
    else
      return network_stream::stays_on_host();
  }
  void authenticate(frame_key sends, frame_key receives) override {
    if constexpr (requires { its_.authenticate(sends, receives); }) its_.authenticate(sends, receives);
  }
  frame_authentication* authentication() const override {
    if constexpr (requires { its_.authentication(); })
      return its_.authentication();
    else
      return network_stream::authentication();
  }
  bool is_encrypted() const override {
    if constexpr (requires { its_.is_encrypted(); })
      return its_.is_encrypted();
    else
      return network_stream::is_encrypted();
  }
  bool certifies(std::string_view task) const override {
    if constexpr (requires { its_.certifies(task); })
      return its_.certifies(task);
    else
      return network_stream::certifies(task);
  }
  std::string certified_names() const override {
    if constexpr (requires { its_.certified_names(); })
      return its_.certified_names();
    else
      return network_stream::certified_names();
  }
};

template <transport T>
class listener_over final : public source_over<T, typename T::listener, network_listener> {
  using native = typename T::listener;
  using source_over<T, native, network_listener>::its_;

 public:
  explicit listener_over(native its) : source_over<T, native, network_listener>(std::move(its)) {}

  endpoint address() const override { return its_.address(); }
  owned<network_stream> accept() override {
    typename T::stream accepted;
    return owned<network_stream>(its_.accept(accepted) ? new stream_over<T>(std::move(accepted)) : nullptr);
  }
  void close() override { its_.close(); }
};

template <transport T>
class signal_over final : public source_over<T, typename T::signal, network_signal> {
  using source_over<T, typename T::signal, network_signal>::its_;

 public:
  explicit signal_over(T& network) : source_over<T, typename T::signal, network_signal>(network) {}

  void notify() override { its_.notify(); }
  void clear() override { its_.clear(); }
};

template <transport T, typename Native>
class connection_over final : public network_connection {
 public:
  explicit connection_over(std::unique_ptr<Native> its) : its_(std::move(its)) {}

  void write_wait_item(void* at, bool read, bool write) const override {
    *static_cast<typename T::wait_item*>(at) = {its_.get(), read, write};
  }
  owned<network_watch> watch(network_loop& loop, std::function<void()> when_ready) const override {
    return static_cast<event_loop_over<T>&>(loop).watch(*its_, std::move(when_ready));
  }
  owned<network_stream> finish() override {
    typename T::stream made;
    return owned<network_stream>(its_->finish(made) ? new stream_over<T>(std::move(made)) : nullptr);
  }
  void time_out() override { its_->time_out(); }

 private:
  std::unique_ptr<Native> its_;
};

/// Implements `network` by a transport. The classes of this file are the only place that looks for optional members.
template <transport T>
class network_over final : public network {
 public:
  explicit network_over(T its) : its_(std::move(its)) {}

  owned<network_listener> listen(const endpoint& where) override { return made(its_.listen(where)); }
  owned<network_stream> connect(const endpoint& where, std::optional<std::chrono::milliseconds> time) override {
    return owned<network_stream>(new stream_over<T>(time ? its_.connect(where, *time) : its_.connect(where)));
  }
  void check(const endpoint& where) override { its_.check(where); }
  bool wait(std::span<const network_item> items, std::chrono::nanoseconds time) override {
    std::array<typename T::wait_item, 32> few;
    std::vector<typename T::wait_item> many(items.size() > few.size() ? items.size() : 0);
    const std::span<typename T::wait_item> all(many.empty() ? few.data() : many.data(), items.size());
    for (std::size_t i = 0; i < items.size(); ++i)
      items[i].from->write_wait_item(&all[i], items[i].read, items[i].write);
    return its_.wait(all, time);
  }
  owned<network_signal> signal() override { return owned<network_signal>(new signal_over<T>(its_)); }
  owned<network_loop> loop() override { return owned<network_loop>(new event_loop_over<T>); }

  void allow_other_hosts() override {
    if constexpr (requires { its_.allow_other_hosts(); }) its_.allow_other_hosts();
  }
  bool same_host(const endpoint& one, const endpoint& other) const override { return weft::same_host<T>(one, other); }
  bool is_within_process() const override {
    return requires { T::within_process; };
  }
  void fill_random(std::span<std::byte> bytes) override { weft::fill_random(its_, bytes); }
  bool can_authenticate() const override {
    return requires(const typename T::stream& stream) { stream.authentication(); };
  }
  bool can_encrypt() const override {
    return requires(T& its, const tls_credentials& mine) { its.use_tls(mine); };
  }
  void use_tls(const tls_credentials& mine) override {
    if constexpr (requires { its_.use_tls(mine); }) its_.use_tls(mine);
  }
  bool can_adopt() const override { return adopts; }
  owned<network_listener> listen(const endpoint& where, const endpoint& bound) override {
    if constexpr (adopts)
      return made(its_.listen(where, bound));
    else
      return listen(where);
  }
  owned<network_listener> adopt(int descriptor, const endpoint& where) override {
    if constexpr (adopts)
      return made(its_.adopt(descriptor, where));
    else
      return network::adopt(descriptor, where);
  }
  void look_up(const endpoint& where) override {
    if constexpr (requires { its_.look_up(where); }) its_.look_up(where);
  }
  bool refuses(const endpoint& where) override {
    if constexpr (requires { its_.refuses(where); })
      return its_.refuses(where);
    else
      return fails_to_connect(where);
  }
  owned<network_connection> start_connect(const endpoint& where) override {
    if constexpr (requires { typename T::pending_stream; })
      return owned<network_connection>(new connection_over<T, typename T::pending_stream>(its_.start_connect(where)));
    else
      return {};
  }
  std::optional<std::chrono::nanoseconds> disk_delay() override {
    if constexpr (requires { its_.disk_delay(); })
      return its_.disk_delay();
    else
      return {};
  }

 private:
  static constexpr bool adopts = requires(T& its, const endpoint& where) { its.adopt(0, where); };

  bool fails_to_connect(const endpoint& where) {
    try {
      its_.connect(where);
      return false;
    } catch (const error& problem) {
      return problem.code() == error_code::unavailable;
    }
  }
  static owned<network_listener> made(typename T::listener native) {
    return owned<network_listener>(new listener_over<T>(std::move(native)));
  }

  T its_;
};

}  // namespace detail

/// A transport of any type, which is what servers, clients and all-reduce groups use. Each call is one virtual call;
/// most transports then make a system call, which takes much longer. Copies share one transport object.
class any_transport {
 public:
  template <typename T>
    requires(!std::same_as<T, any_transport> && transport<T>)
  any_transport(T network) : its_(std::make_shared<detail::network_over<T>>(std::move(network))) {}

  /// An object to wait for: a stream, listener, signal or pending stream.
  class source {
   public:
    /// Null for a stream that was default-constructed or moved from.
    const detail::network_source* get() const { return source_; }

   protected:
    const detail::network_source* source_ = nullptr;
  };

  /// A source and the events to wait for.
  struct wait_item {
    const source* from = nullptr;
    bool read = false, write = false;
  };

  /// A connected stream of bytes; see byte_stream.
  class stream : public source {
   public:
    stream() = default;
    explicit stream(owned<detail::network_stream> its) : its_(std::move(its)) { source_ = its_.get(); }
    /// Wraps a stream of the transport `T`.
    template <transport T>
    static stream of(typename T::stream its) {
      return stream(owned<detail::network_stream>(new detail::stream_over<T>(std::move(its))));
    }
    stream(stream&& other) noexcept { *this = std::move(other); }
    stream& operator=(stream&& other) noexcept {
      its_ = std::move(other.its_);
      source_ = std::exchange(other.source_, nullptr);
      return *this;
    }

    bool is_open() const { return its_ && its_->is_open(); }
    std::size_t read_some(std::span<const mutable_bytes> into) { return open().read_some(into); }
    std::size_t write_some(std::span<const const_bytes> from) { return open().write_some(from); }
    void close() {
      if (its_) its_->close();
    }
    std::string remote_host() const { return its_ ? its_->remote_host() : std::string(); }
    bool stays_on_host() const { return its_ && its_->stays_on_host(); }
    void authenticate(frame_key sends, frame_key receives) { its_->authenticate(sends, receives); }
    detail::frame_authentication* authentication() const { return its_ ? its_->authentication() : nullptr; }
    bool is_encrypted() const { return its_ && its_->is_encrypted(); }
    bool certifies(std::string_view task) const { return its_->certifies(task); }
    std::string certified_names() const { return its_->certified_names(); }

   private:
    detail::network_stream& open() {
      if (!its_) throw error(error_code::failed_precondition, "stream", "this side of the connection is closed");
      return *its_;
    }

    owned<detail::network_stream> its_;
  };

  /// Accepts connections at an endpoint.
  class listener : public source {
   public:
    explicit listener(owned<detail::network_listener> its) : its_(std::move(its)), address_(its_->address()) {
      source_ = its_.get();
    }

    /// The endpoint, with the port that was bound.
    const endpoint& address() const { return address_; }
    bool accept(stream& accepted) {
      auto next = its_->accept();
      if (!next) return false;
      accepted = stream(std::move(next));
      return true;
    }
    void close() { its_->close(); }

   private:
    owned<detail::network_listener> its_;
    endpoint address_;
  };

  /// Ends a wait: any thread may call notify(). The signal stays ready until clear().
  class signal : public source {
   public:
    explicit signal(any_transport& owner) : its_(owner.its_->signal()) { source_ = its_.get(); }
    signal(const signal&) = delete;
    signal& operator=(const signal&) = delete;

    void notify() { its_->notify(); }
    void clear() { its_->clear(); }

   private:
    owned<detail::network_signal> its_;
  };

  /// A connection that is not established yet. It becomes writable when the attempt has succeeded or failed.
  class pending_stream : public source {
   public:
    explicit pending_stream(owned<detail::network_connection> its) : its_(std::move(its)) { source_ = its_.get(); }

    /// Moves the connection into `made` and returns true, or returns false if it must wait again. Throws as connect()
    /// does. The source may change, so create a new watch after a call.
    bool finish(stream& made) {
      auto its = its_->finish();
      if (!its) return false;
      made = stream(std::move(its));
      return true;
    }
    /// Tries the next address of the host. Throws weft::error (unavailable) if there is none.
    void time_out() { its_->time_out(); }

   private:
    owned<detail::network_connection> its_;
  };

  /// Runs handlers and timers on one thread; see weft::event_loop.
  class event_loop {
   public:
    using handler = std::function<void()>;

    explicit event_loop(any_transport& owner) : its_(owner.its_->loop()) {}

    void run() { its_->run(); }
    void stop() { its_->stop(); }
    void post(handler what) { its_->post(std::move(what)); }

    /// Calls a handler once, on the loop's thread.
    class timer {
     public:
      explicit timer(event_loop& loop) : its_(loop.its_->timer()) {}
      void start(std::chrono::nanoseconds after, handler then) { its_->start(after, std::move(then)); }
      void cancel() { its_->cancel(); }

     private:
      owned<detail::network_timer> its_;
    };

   private:
    friend any_transport;
    owned<detail::network_loop> its_;
  };

  /// Calls a handler on the loop's thread when a source is ready. Must be destroyed before the source is closed.
  class watch {
   public:
    watch(event_loop& loop, const source& from, event_loop::handler when_ready)
        : its_(from.get()->watch(*loop.its_, std::move(when_ready))) {}

    /// Requests one call of the handler. Has no effect while the watch is armed.
    void arm(bool read, bool write) { its_->arm(read, write); }

   private:
    owned<detail::network_watch> its_;
  };

  listener listen(const endpoint& where) { return listener(its_->listen(where)); }
  listener listen(const endpoint& advertised, const endpoint& bound) {
    return listener(its_->listen(advertised, bound));
  }
  listener adopt(int descriptor, const endpoint& advertised) { return listener(its_->adopt(descriptor, advertised)); }
  stream connect(const endpoint& where, std::optional<std::chrono::milliseconds> time = {}) {
    return stream(its_->connect(where, time));
  }
  /// Returns null if the transport can only connect().
  owned<pending_stream> start_connect(const endpoint& where) {
    auto its = its_->start_connect(where);
    return owned<pending_stream>(its ? new pending_stream(std::move(its)) : nullptr);
  }
  bool wait(std::span<const wait_item> items, std::chrono::nanoseconds time) {
    std::array<detail::network_item, 32> few;
    std::vector<detail::network_item> many(items.size() > few.size() ? items.size() : 0);
    const std::span<detail::network_item> all(many.empty() ? few.data() : many.data(), items.size());
    for (std::size_t i = 0; i < items.size(); ++i) all[i] = {items[i].from->get(), items[i].read, items[i].write};
    return its_->wait(all, time);
  }

  void check(const endpoint& where) { its_->check(where); }
  void allow_other_hosts() { its_->allow_other_hosts(); }
  bool same_host(const endpoint& one, const endpoint& other) const { return its_->same_host(one, other); }
  bool is_within_process() const { return its_->is_within_process(); }
  void fill_random(std::span<std::byte> bytes) { its_->fill_random(bytes); }
  bool can_authenticate() const { return its_->can_authenticate(); }
  bool can_encrypt() const { return its_->can_encrypt(); }
  void use_tls(const tls_credentials& mine) { its_->use_tls(mine); }
  bool can_adopt() const { return its_->can_adopt(); }
  void look_up(const endpoint& where) { its_->look_up(where); }
  bool refuses(const endpoint& where) { return its_->refuses(where); }
  std::optional<std::chrono::nanoseconds> disk_delay() { return its_->disk_delay(); }

 private:
  std::shared_ptr<detail::network> its_;
};

}  // namespace weft

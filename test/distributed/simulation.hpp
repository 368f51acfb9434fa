// SPDX-License-Identifier: BSL-1.0
#pragma once

// A cluster in one process, in virtual time: real threads of which one runs at a time, a network that keeps what is
// sent for a while, and tasks that can be killed, stopped and continued. All events follow from a seed alone: which
// thread runs next, how long bytes travel, which random numbers the tasks draw. Time goes on only when everybody waits,
// and a little with each turn.
//
// A thread gives its turn away where it waits by the clock or for the network, and now and then where it reads, writes
// or connects: nothing else may block it. So a server is stopped by simulation::stop().
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <weft/time_source.hpp>
#include <weft/transport/transport.hpp>

namespace test {

class simulation;

/// The time of the simulation, for all that waits in it. Threads that take no part, such as those of a session's pool,
/// wait for each other as usual.
class virtual_time final : public weft::detail::time_source {
 public:
  explicit virtual_time(simulation& in) : in_(in) { install(this); }
  ~virtual_time() override { install(nullptr); }

  time_point now() override;
  void sleep(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
             std::chrono::nanoseconds time) override;
  void sleep(std::chrono::nanoseconds time) override;
  std::thread start_thread(std::function<void()> body) override;
  void join(std::thread& thread) override;

 private:
  simulation& in_;
};

class simulation {
 public:
  using time_point = virtual_time::time_point;
  using duration = std::chrono::nanoseconds;

  /// The exception that ends a killed process, wherever it is.
  struct killed {};

  struct process;

  /// An object that a wait can look at.
  class source {
   public:
    virtual ~source() = default;
    virtual bool readable(time_point now) const = 0;
    virtual bool writable() const = 0;
    virtual time_point next() const { return time_point::max(); }  // when it may become readable by itself
  };

  struct wait_item {
    const source* from = nullptr;
    bool read = false, write = false;
  };

  bool is_ready(std::span<const wait_item> items) const {
    return std::any_of(items.begin(), items.end(), [&](const wait_item& each) {
      return (each.read && each.from->readable(now_)) || (each.write && each.from->writable());
    });
  }

 private:
  struct strand {  // a thread
    process* of = nullptr;
    bool serves = false;  // a server's own thread, not the process's first
    bool finished = false, waits = false;
    std::span<const wait_item> items;
    bool hears = false;  // may be woken by what another thread says to it
    std::uint64_t heard = 0;
    const strand* joins = nullptr;
    time_point until = time_point::max();
    std::condition_variable go;
  };

 public:
  /// A task while it runs.
  struct process {
    simulation* in = nullptr;
    bool stopped = false, dead = false, stopping = false;
    strand* service = nullptr;
    strand* first = nullptr;
    std::thread thread;

    bool has_ended() const { return first->finished; }
  };

  struct options {
    std::uint64_t seed = 0;
    std::chrono::microseconds latency{1000};  // at most
    std::size_t capacity = std::size_t{64} << 10;
  };

  explicit simulation(options how) : how_(how), random_(how.seed) {
    auto& mine = *strands_.emplace_back(std::make_unique<strand>());
    self() = running_ = &mine;
    current() = this;
  }
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;
  ~simulation() {
    self() = nullptr;
    current() = nullptr;
  }

  time_point now() const { return now_; }
  std::uint64_t turns() const { return turns_; }
  std::uint64_t draw() { return random_(); }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  /// A process whose first thread does `body`.
  template <class Body>
  void start(process& p, Body body) {
    p.in = this;
    {
      std::lock_guard lock(mutex_);
      p.first = strands_.emplace_back(std::make_unique<strand>()).get();
      p.first->of = &p;
      p.first->waits = true;
      p.first->until = now_;
    }
    p.thread = std::thread([this, &p, body] {
      self() = p.first;
      {
        std::unique_lock lock(mutex_);
        p.first->go.wait(lock, [&] { return running_ == p.first; });
        p.first->waits = false;
        p.first->until = time_point::max();
      }
      try {
        body();
      } catch (const killed&) {
      }
      leave(*p.first);
    });
  }

  /// The thread that a new server of this process has begun belongs to the simulation from here on.
  void adopt(process& p) {
    std::unique_lock lock(mutex_);
    registered_.wait(lock, [&] { return p.service != nullptr; });
  }

  /// Starts a thread of the process whose thread runs.
  std::thread start_thread(std::function<void()> body) {
    strand* mine = nullptr;
    {
      const std::lock_guard lock(mutex_);
      mine = strands_.emplace_back(std::make_unique<strand>()).get();
      mine->of = self()->of;
      mine->serves = true;
      mine->waits = true;
      mine->until = now_;
    }
    std::thread made([this, mine, does = std::move(body)] {
      self() = mine;
      {
        std::unique_lock lock(mutex_);
        mine->go.wait(lock, [&] { return running_ == mine; });
        mine->waits = false;
        mine->until = time_point::max();
      }
      does();
      leave(*mine);
    });
    started_.emplace(made.get_id(), mine);
    return made;
  }
  /// Waits for the end of a thread that start_thread() has started; the process may die meanwhile.
  void join(std::thread& thread) {
    const auto found = started_.find(thread.get_id());
    if (found == started_.end()) return thread.join();
    if (!found->second->finished) {
      self()->joins = found->second;
      give_way(*self(), false);
    }
    started_.erase(found);
    thread.join();
  }

  /// Stops the process's server; its own thread comes to its end meanwhile. `server` is null once another has stopped
  /// and destroyed it.
  template <class Server>
  void stop(process& p, Server* const& server) {
    shielded() = true;
    while (p.stopping) sleep(std::chrono::milliseconds(1));
    if (server) {
      p.stopping = true;
      joining() = p.service;
      server->stop();
      joining() = nullptr;
      p.stopping = false;
    }
    shielded() = false;
  }

  /// A process has a server, which the controller knows by `known_as` until it is stopped.
  template <typename Server>
  class serving {
   public:
    serving(simulation& world, process& of, Server& server, Server*& known_as)
        : world_(world), of_(of), known_as_(known_as) {
      world_.adopt(of_);
      known_as_ = &server;
    }
    serving(const serving&) = delete;
    serving& operator=(const serving&) = delete;
    ~serving() {
      world_.stop(of_, known_as_);
      known_as_ = nullptr;
    }

   private:
    simulation& world_;
    process& of_;
    Server*& known_as_;
  };

  // ---- what a controller does to processes ----

  void stop(process& p) { p.stopped = true; }
  void go_on(process& p) { p.stopped = false; }
  /// Its connections end, or, where it is `cut_off`, nothing is heard from them any more.
  void kill(process& p, bool cut_off);
  /// A machine that was cut off is there again, and knows nothing of its old connections.
  void restarted(const process& before);

  void sleep(duration time) {
    strand& me = *self();
    me.until = now_ + std::max(time, duration::zero());
    give_way(me);
  }

  /// Sleeps until it is notified, or earlier.
  void sleep(std::unique_lock<std::mutex>& lock, duration time) {
    strand& me = *self();
    me.until = now_ + std::max(time, duration::zero());
    me.hears = true;
    lock.unlock();
    const auto again = [&] { lock.lock(); };
    try {
      give_way(me);
    } catch (...) {
      again();
      throw;
    }
    again();
  }

  bool wait(std::span<const wait_item> items, duration time) {
    strand& me = *self();
    const bool ghost = me.of && me.of->dead;
    if (!ghost && is_ready(items)) {
      now_ += std::chrono::microseconds(1);
      ++turns_;
      maybe_give_way();
      return true;
    }
    me.until = time >= time_point::max() - now_ ? time_point::max() : now_ + std::max(time, duration::zero());
    if (!ghost) me.items = items;
    give_way(me);
    return is_ready(items);
  }

  /// Somebody else may take a turn here.
  void maybe_give_way() {
    if (draw(16) != 0) return check_alive();
    self()->until = now_;
    give_way(*self());
  }

  void something_happened() { ++version_; }
  void rings() {
    something_happened();
    if (!joining()) return;
    self()->joins = joining();
    give_way(*self(), false);
  }

  static simulation*& current() {
    static simulation* one = nullptr;
    return one;
  }

  /// The process of the thread that runs.
  process* here() const { return self()->of; }

  /// Whether the calling thread does.
  static bool takes_part() { return self() != nullptr; }
  /// Called in any thread: it takes part from now on, and belongs to the process that has begun it.
  void take_part() {
    if (self()) return;
    std::unique_lock lock(mutex_);
    strand& mine = *strands_.emplace_back(std::make_unique<strand>());
    mine.of = running_->of;
    mine.serves = true;
    mine.waits = true;
    mine.until = now_;
    mine.of->service = &mine;
    static thread_local struct ending {
      simulation* in = nullptr;
      strand* which = nullptr;
      ~ending() {
        if (in) in->leave(*which);
      }
    } at_end;
    at_end.in = this;
    at_end.which = &mine;
    self() = &mine;
    registered_.notify_all();
    mine.go.wait(lock, [&] { return running_ == &mine; });
    mine.waits = false;
  }

  class network;

 private:
  friend class network;
  struct pipe;

  static strand*& self() {
    static thread_local strand* mine = nullptr;
    return mine;
  }
  static bool& shielded() {
    static thread_local bool yes = false;
    return yes;
  }
  static const strand*& joining() {
    static thread_local const strand* whom = nullptr;
    return whom;
  }

  duration travel() { return std::chrono::microseconds(draw(static_cast<std::uint64_t>(how_.latency.count()) + 1)); }

  bool can_run(const strand& each) const {
    if (each.finished || !each.waits || (each.of && each.of->stopped)) return false;
    if (each.joins) return each.joins->finished;
    if (each.of && each.of->dead && !each.serves) return true;
    return each.until <= now_ || (each.hears && each.heard != version_) || is_ready(each.items);
  }

  void check_alive() const {
    const strand& me = *self();
    if (me.of && me.of->dead && !me.serves && !shielded() && std::uncaught_exceptions() == 0) throw killed{};
  }

  void give_way(strand& me, bool may_die = true) {
    {
      std::unique_lock lock(mutex_);
      me.waits = true;
      me.heard = version_;
      next_turn();
      me.go.wait(lock, [&] { return running_ == &me; });
      me.waits = me.hears = false;
      me.items = {};
      me.joins = nullptr;
      me.until = time_point::max();
    }
    if (may_die) check_alive();
  }

  void leave(strand& me) {
    std::lock_guard lock(mutex_);
    me.finished = true;
    something_happened();
    next_turn();
  }

  /// Decides whose turn it is; under the lock.
  void next_turn() {
    ++turns_;
    now_ += std::chrono::microseconds(2);
    for (;;) {
      ready_.clear();
      for (const auto& each : strands_)
        if (can_run(*each)) ready_.push_back(each.get());
      if (!ready_.empty()) break;
      time_point next = time_point::max();
      for (const auto& each : strands_) {
        if (each->finished || !each->waits || (each->of && each->of->stopped)) continue;
        next = std::min(next, each->until);
        for (const wait_item& item : each->items)
          if (item.read) next = std::min(next, item.from->next());
      }
      if (next == time_point::max()) {
        std::fprintf(stderr, "everybody waits for ever\n");
        std::abort();
      }
      now_ = std::max(now_, next);
    }
    running_ = ready_[draw(ready_.size())];
    running_->go.notify_one();
  }

  virtual_time time_{*this};
  options how_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable registered_;
  std::vector<std::unique_ptr<strand>> strands_;
  std::vector<strand*> ready_;
  strand* running_ = nullptr;
  time_point now_{std::chrono::seconds(1000)};
  std::uint64_t version_ = 0, turns_ = 0;

  struct port {
    process* of;
    std::deque<std::pair<std::shared_ptr<pipe>, std::shared_ptr<pipe>>> pending;
  };
  std::map<std::string, std::shared_ptr<port>> ports_;
  std::map<std::thread::id, strand*> started_;
  std::set<std::string> unreachable_;  // ports of machines that are cut off
  std::vector<std::weak_ptr<pipe>> pipes_;
  std::uint16_t next_port_ = 40000;

 public:
  /// The number of ports, and of directions of streams, that are left of the network.
  std::size_t remains() const {
    return ports_.size() + static_cast<std::size_t>(std::count_if(pipes_.begin(), pipes_.end(),
                                                                  [](const auto& each) { return !each.expired(); }));
  }
};

struct simulation::pipe {  // one direction of a stream
  struct chunk {
    time_point arrives;
    std::vector<std::byte> bytes;
    std::size_t read = 0;
  };
  std::deque<chunk> chunks;
  std::size_t held = 0;
  bool closed = false, silent = false;
  time_point last{}, closes{};
  process *writer = nullptr, *reader = nullptr;
};

/// The network as one process sees it.
class simulation::network {
 public:
  class stream : public source {
   public:
    stream() = default;
    stream(simulation* in, std::shared_ptr<pipe> from, std::shared_ptr<pipe> to)
        : world_(in), in_(std::move(from)), out_(std::move(to)) {}
    stream(stream&& other) noexcept { *this = std::move(other); }
    stream& operator=(stream&& other) noexcept {
      close();
      world_ = std::exchange(other.world_, nullptr);
      in_ = std::move(other.in_);
      out_ = std::move(other.out_);
      return *this;
    }
    ~stream() override { close(); }

    bool is_open() const { return world_ != nullptr; }

    std::size_t read_some(std::span<const weft::mutable_bytes> into) {
      before();
      std::size_t moved = 0, most = limit();
      for (weft::mutable_bytes rest : into)
        while (!rest.empty() && moved < most && arrived()) {
          pipe::chunk& first = in_->chunks.front();
          const std::size_t n = std::min({rest.size(), first.bytes.size() - first.read, most - moved});
          std::memcpy(rest.data(), first.bytes.data() + first.read, n);
          first.read += n;
          in_->held -= n;
          moved += n;
          rest = rest.subspan(n);
          if (first.read == first.bytes.size()) in_->chunks.pop_front();
        }
      if (moved > 0)
        world_->something_happened();
      else if (readable(world_->now_))
        gone();
      return moved;
    }

    std::size_t write_some(std::span<const weft::const_bytes> from) {
      before();
      if (out_->closed && in_->closed && in_->closes <= world_->now_) gone();
      const std::size_t room = world_->how_.capacity - std::min(world_->how_.capacity, out_->held);
      const std::size_t most = std::min(limit(), room);
      std::vector<std::byte> bytes;
      for (const weft::const_bytes each : from) {
        const std::size_t n = std::min(each.size(), most - bytes.size());
        bytes.insert(bytes.end(), each.begin(), each.begin() + static_cast<std::ptrdiff_t>(n));
      }
      const std::size_t moved = bytes.size();
      if (moved == 0) return 0;
      if (out_->closed) return moved;  // on its way to who is gone
      out_->held += moved;
      if (out_->silent) return moved;
      out_->last = std::max(out_->last, world_->now_ + world_->travel());
      out_->chunks.push_back({out_->last, std::move(bytes)});
      world_->something_happened();
      return moved;
    }

    void close() {
      if (!world_) return;
      if (!in_->silent && !in_->closed) {
        end(*out_);
        end(*in_);
      }
      world_->something_happened();
      world_ = nullptr;
      in_.reset();
      out_.reset();
    }

    bool readable(time_point now) const override {
      return !in_->chunks.empty() ? in_->chunks.front().arrives <= now : in_->closed && in_->closes <= now;
    }
    bool writable() const override { return out_->closed || out_->held < world_->how_.capacity; }
    time_point next() const override {
      return !in_->chunks.empty() ? in_->chunks.front().arrives : in_->closed ? in_->closes : time_point::max();
    }

   private:
    void before() {
      if (!world_) throw weft::error(weft::error_code::failed_precondition, "simulation", "this side is closed");
      world_->maybe_give_way();
      if (const process* const mine = world_->here(); mine && mine->dead) gone();
    }
    bool arrived() const { return !in_->chunks.empty() && in_->chunks.front().arrives <= world_->now_; }
    std::size_t limit() { return world_->draw(8) == 0 ? 1 + world_->draw(100) : std::size_t{1} << 30; }
    void end(pipe& each) {
      each.closed = true;
      each.closes = std::max(each.last, world_->now_ + world_->travel());
    }
    [[noreturn]] static void gone() {
      throw weft::error(weft::error_code::unavailable, "simulation", "the other side closed the connection");
    }

    simulation* world_ = nullptr;
    std::shared_ptr<pipe> in_, out_;
  };

  class listener : public source {
   public:
    listener() = default;
    listener(simulation* in, weft::endpoint where, std::shared_ptr<port> at)
        : world_(in), address_(std::move(where)), port_(std::move(at)) {}
    listener(listener&& other) noexcept { *this = std::move(other); }
    listener& operator=(listener&& other) noexcept {
      close();
      world_ = std::exchange(other.world_, nullptr);
      address_ = std::move(other.address_);
      port_ = std::move(other.port_);
      return *this;
    }
    ~listener() override { close(); }

    const weft::endpoint& address() const { return address_; }
    bool is_open() const { return world_ != nullptr; }

    bool accept(stream& accepted) {
      world_->maybe_give_way();
      if (port_->pending.empty()) return false;
      auto ends = std::move(port_->pending.front());
      port_->pending.pop_front();
      accepted = stream(world_, std::move(ends.first), std::move(ends.second));
      return true;
    }

    void close() {
      if (!world_) return;
      const auto found = world_->ports_.find(to_string(address_));
      if (found != world_->ports_.end() && found->second == port_) world_->ports_.erase(found);
      for (auto& [in, out] : port_->pending) stream(world_, std::move(in), std::move(out)).close();
      port_.reset();
      world_ = nullptr;
    }

    bool readable(time_point) const override { return !port_->pending.empty(); }
    bool writable() const override { return false; }

   private:
    simulation* world_ = nullptr;
    weft::endpoint address_;
    std::shared_ptr<port> port_;
  };

  class signal : public source {
   public:
    explicit signal(network& of) : world_(of.world_) {}
    void notify() {
      raised_ = true;
      world_->rings();
    }
    void clear() { raised_ = false; }
    bool readable(time_point) const override { return raised_; }
    bool writable() const override { return false; }

   private:
    simulation* world_;
    bool raised_ = false;
  };

  using wait_item = simulation::wait_item;

  class watch;

  /// As weft::event_loop, in virtual time.
  class event_loop {
   public:
    using handler = std::function<void()>;

    event_loop() : world_(simulation::current()) {}

    void run() {
      world_->take_part();
      while (!bell_.stopped) {
        if (!bell_.posted.empty()) {
          const handler next = std::move(bell_.posted.front());
          bell_.posted.pop_front();
          next();
          continue;
        }
        const auto due = std::min_element(timers_.begin(), timers_.end(),
                                          [](const timer* one, const timer* other) { return one->at_ < other->at_; });
        if (due != timers_.end() && (*due)->at_ <= world_->now()) {
          timer& fires = **due;
          timers_.erase(due);
          const handler then = std::move(fires.then_);
          then();
          continue;
        }
        wait(due == timers_.end() ? duration::max() : (*due)->at_ - world_->now());
      }
    }

    void stop() {
      bell_.stopped = true;
      world_->rings();
    }
    void post(handler what) {
      bell_.posted.push_back(std::move(what));
      world_->something_happened();
    }

    class timer {
     public:
      explicit timer(event_loop& loop) : loop_(loop) {}
      timer(const timer&) = delete;
      timer& operator=(const timer&) = delete;
      ~timer() { cancel(); }

      void start(std::chrono::nanoseconds after, handler then) {
        cancel();
        loop_.world_->take_part();
        at_ = loop_.world_->now() + std::max(after, duration::zero());
        then_ = std::move(then);
        loop_.timers_.push_back(this);
      }
      void cancel() { std::erase(loop_.timers_, this); }

     private:
      friend event_loop;
      event_loop& loop_;
      time_point at_{};
      handler then_;
    };

   private:
    friend watch;

    struct bell final : source {
      std::deque<handler> posted;
      bool stopped = false;
      bool readable(time_point) const override { return stopped || !posted.empty(); }
      bool writable() const override { return false; }
    };

    struct watched {
      handler when_ready;
      wait_item item;
    };

    void wait(duration time) {
      items_.assign(1, {&bell_, true, false});
      for (const auto& each : watches_) items_.push_back(each->item);
      world_->wait(items_, time);
      std::erase_if(watches_, [&](const std::shared_ptr<watched>& each) {
        if (!world_->is_ready({&each->item, 1})) return false;
        bell_.posted.push_back([awaited = std::weak_ptr<watched>(each)] {
          if (const auto here = awaited.lock()) here->when_ready();
        });
        return true;
      });
    }

    simulation* world_;
    bell bell_;
    std::vector<timer*> timers_;
    std::vector<std::shared_ptr<watched>> watches_;  // that wait
    std::vector<wait_item> items_;
  };

  class watch {
   public:
    watch(event_loop& loop, const source& from, event_loop::handler when_ready)
        : loop_(loop),
          state_(std::make_shared<event_loop::watched>(event_loop::watched{std::move(when_ready), {&from}})) {}
    watch(const watch&) = delete;
    watch& operator=(const watch&) = delete;
    ~watch() { std::erase(loop_.watches_, state_); }

    void arm(bool read, bool write) {
      std::erase(loop_.watches_, state_);
      state_->item.read = read;
      state_->item.write = write;
      loop_.watches_.push_back(state_);
    }

   private:
    event_loop& loop_;
    std::shared_ptr<event_loop::watched> state_;
  };

  explicit network(simulation& in) : world_(&in) {}

  static constexpr bool within_process = true;
  static void check(const weft::endpoint&) {}

  void fill_random(std::span<std::byte> bytes) {
    for (std::byte& each : bytes) each = static_cast<std::byte>(world_->draw());
  }

  /// How long it takes to write a file.
  std::chrono::nanoseconds disk_delay() {
    return std::chrono::milliseconds(world_->draw(4) == 0 ? world_->draw(400) : 1);
  }

  listener listen(weft::endpoint where) {
    world_->maybe_give_way();
    if (where.port == 0) where.port = world_->next_port_++;
    const auto [place, fresh] = world_->ports_.try_emplace(to_string(where), nullptr);
    if (!fresh)
      throw weft::error(weft::error_code::already_exists, "listen", to_string(where) + " is in use by another task");
    place->second = std::make_shared<port>(port{world_->here(), {}});
    world_->unreachable_.erase(to_string(where));
    return listener(world_, where, place->second);
  }

  stream connect(const weft::endpoint& where, std::chrono::nanoseconds = {}) {
    world_->maybe_give_way();
    const auto found = world_->ports_.find(to_string(where));
    process* const mine = world_->here();
    if (found == world_->ports_.end() || (mine && mine->dead))
      throw weft::error(weft::error_code::unavailable, "connect", "no process listens at " + to_string(where));
    auto to = std::make_shared<pipe>(), from = std::make_shared<pipe>();
    to->writer = from->reader = mine;
    to->reader = from->writer = found->second->of;
    world_->pipes_.push_back(to);
    world_->pipes_.push_back(from);
    found->second->pending.emplace_back(to, from);
    world_->something_happened();
    return stream(world_, std::move(from), std::move(to));
  }

  /// Whether the host is there, and says that nobody listens.
  bool refuses(const weft::endpoint& where) {
    world_->maybe_give_way();
    return !world_->ports_.contains(to_string(where)) && !world_->unreachable_.contains(to_string(where));
  }

  bool wait(std::span<wait_item> items, std::chrono::nanoseconds time) { return world_->wait(items, time); }

 private:
  simulation* world_;
};

inline void simulation::kill(process& p, bool cut_off) {
  p.dead = true;
  p.stopped = false;
  for (auto each = ports_.begin(); each != ports_.end();) {
    if (each->second->of != &p) {
      ++each;
      continue;
    }
    if (cut_off) unreachable_.insert(each->first);
    each = ports_.erase(each);
  }
  for (const std::weak_ptr<pipe>& each : pipes_) {
    const auto held = each.lock();
    if (!held || (held->reader != &p && held->writer != &p)) continue;
    if (cut_off) {
      held->silent = true;
      held->chunks.clear();
    } else if (!held->closed) {
      held->closed = true;
      held->closes = std::max(held->last, now_ + travel());
    }
  }
  something_happened();
}

inline void simulation::restarted(const process& before) {
  for (const std::weak_ptr<pipe>& each : pipes_) {
    const auto held = each.lock();
    if (!held || !held->silent || held->closed || (held->reader != &before && held->writer != &before)) continue;
    held->closed = true;
    held->closes = now_ + std::chrono::milliseconds(250);  // the other has said something by then, and is told so
  }
  something_happened();
}

inline virtual_time::time_point virtual_time::now() { return in_.now(); }
inline void virtual_time::sleep(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                                std::chrono::nanoseconds time) {
  if (simulation::takes_part())
    in_.sleep(lock, time);
  else
    changed.wait_for(lock, std::min<std::chrono::nanoseconds>(time, std::chrono::milliseconds(50)));
}
inline void virtual_time::sleep(std::chrono::nanoseconds time) {
  if (simulation::takes_part())
    in_.sleep(time);
  else
    std::this_thread::sleep_for(time);
}
inline std::thread virtual_time::start_thread(std::function<void()> body) {
  return simulation::takes_part() ? in_.start_thread(std::move(body)) : std::thread(std::move(body));
}
inline void virtual_time::join(std::thread& thread) { in_.join(thread); }

}  // namespace test

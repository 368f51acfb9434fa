#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/remote/task_table.hpp>
#include <weft/error.hpp>
#include <weft/graph/graph.hpp>
#include <weft/plan/device_number.hpp>
#include <weft/plan/step_request.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft::detail {

/// Largest payload, in bytes, of a message about a step; values have limits of their own.
inline constexpr std::uint64_t max_step_message_bytes = std::uint64_t{4} << 20;
/// Most devices of one kind that a task can have, and most values that a step can be fed with.
inline constexpr std::uint32_t max_devices = 4096, max_feeds = 1u << 16;

/// The weight of a write_variable frame that has no value: a variable without a value gets its first one.
inline constexpr std::uint32_t initializes = 1;

/// Everything from which a task recomputes its part of a step: the same graph, and this. The client places the nodes,
/// so sessions may have other pins and options than the program of a task.
struct step_registration {
  /// Consecutive nodes on one device. The task of nodes that fit no device is the number of tasks.
  struct placed_nodes {
    std::uint32_t count = 0;
    plan::device_number on;
  };

  std::uint64_t graph = 0, seed = 0;  // hash and seed
  std::string container;              // of the variables
  std::vector<placed_nodes> placed;
  std::vector<std::uint32_t> cpus, gpus;  // of each task
  std::vector<std::uint32_t> restarted;   // tasks of which the client knows an earlier process
  plan::step_request request;

  void write(message_writer& out) const {
    out.number(graph).number(seed).text(container);
    const auto count = [&](std::size_t n) { out.number(static_cast<std::uint32_t>(n)); };
    count(placed.size());
    for (const placed_nodes& p : placed)
      out.number(p.count).number(p.on.task).number(p.on.ordinal).number(static_cast<std::uint8_t>(p.on.gpu));
    count(cpus.size());
    for (std::size_t t = 0; t < cpus.size(); ++t) out.number(cpus[t]).number(gpus[t]);
    count(restarted.size());
    for (const std::uint32_t t : restarted) out.number(t);
    count(request.fetches.size());
    for (const value v : request.fetches) out.number(v.node).number(v.output);
    count(request.targets.size());
    for (const std::uint32_t t : request.targets) out.number(t);
    count(request.feeds.size());
    for (const value v : request.feeds) out.number(v.node).number(v.output);
  }

  static step_registration read(message_reader& in) {
    step_registration said;
    said.graph = in.number<std::uint64_t>();
    said.seed = in.number<std::uint64_t>();
    said.container = in.text();
    for (std::uint32_t n = count(in, 13); n > 0; --n) {
      placed_nodes& p = said.placed.emplace_back();
      p.count = in.number<std::uint32_t>();
      p.on.task = in.number<std::uint32_t>();
      p.on.ordinal = in.number<std::uint32_t>();
      p.on.gpu = in.flag();
    }
    const std::uint32_t tasks = count(in, 8);
    for (std::uint32_t t = 0; t < tasks; ++t) {
      said.cpus.push_back(in.number<std::uint32_t>());
      said.gpus.push_back(in.number<std::uint32_t>());
      if (said.cpus.back() == 0 || said.cpus.back() > max_devices || said.gpus.back() > max_devices)
        message_reader::malformed();
    }
    for (std::uint32_t n = count(in, 4); n > 0; --n) said.restarted.push_back(in.number<std::uint32_t>());
    const auto read_value = [&] {
      const auto node = in.number<std::uint32_t>();
      return value{node, in.number<std::uint32_t>()};
    };
    for (std::uint32_t n = count(in, 8); n > 0; --n) said.request.fetches.push_back(read_value());
    for (std::uint32_t n = count(in, 4); n > 0; --n) said.request.targets.push_back(in.number<std::uint32_t>());
    for (std::uint32_t n = count(in, 8); n > 0; --n) said.request.feeds.push_back(read_value());
    return said;
  }

  /// Identifies the graph, its container and its placement among those of other sessions.
  std::uint64_t key() const {
    step_registration placement = *this;
    placement.request = {};
    placement.restarted.clear();
    message_writer out;
    placement.write(out);
    hasher h;
    for (const std::byte b : out.take()) h.add(static_cast<std::uint64_t>(b));
    return h.result();
  }
  bool is_of(const weft::graph& g) const { return graph == g.hash() && seed == g.seed(); }

  /// Throws invalid_argument for nodes and devices that do not exist.
  void check(const weft::graph& g, std::size_t tasks) const {
    std::uint64_t nodes = 0;
    for (const placed_nodes& p : placed) nodes += p.count;
    const auto has = [&](value v) { return v.node < nodes && v.output < g[v.node].def.outputs.size(); };
    bool fits = cpus.size() == tasks && nodes <= g.size();  // the program may have recorded more since
    for (const placed_nodes& p : placed) {
      const bool nowhere = p.on.task == tasks;
      fits = fits && (nowhere || (p.on.task < tasks && p.on.ordinal < (p.on.gpu ? gpus : cpus)[p.on.task]));
    }
    for (const value v : request.fetches) fits = fits && has(v);
    for (const value v : request.feeds) fits = fits && has(v);
    for (const std::uint32_t t : request.targets) fits = fits && t < nodes;
    if (!fits) message_reader::malformed();
  }

 private:
  /// The length of a list, whose elements have at least so many bytes.
  static std::uint32_t count(message_reader& in, std::size_t bytes) {
    const auto n = in.number<std::uint32_t>();
    if (n > in.left() / bytes) message_reader::malformed();
    return n;
  }
};

/// Small values that travel at the end of a message, to save frames.
class small_values {
 public:
  struct value {
    std::uint32_t to = 0, number = 0;  // the task, and the transfer
    std::vector<std::byte> bytes;
  };

  /// Returns false for a value that needs a frame of its own.
  bool add(std::uint32_t to, std::uint32_t number, const_bytes bytes) {
    if (bytes.size() > max_value || bytes_ + bytes.size() + 12 > max_together) return false;
    bytes_ += bytes.size() + 12;
    all_.push_back({to, number, {bytes.begin(), bytes.end()}});
    return true;
  }
  const std::vector<value>& all() const { return all_; }
  void clear() {
    all_.clear();
    bytes_ = 0;
  }

  void write(message_writer& out) const {
    out.number(static_cast<std::uint32_t>(all_.size()));
    for (const value& each : all_) {
      out.number(each.to).number(each.number).number(static_cast<std::uint32_t>(each.bytes.size()));
      for (const std::byte b : each.bytes) out.number(static_cast<std::uint8_t>(b));
    }
  }
  static small_values read(message_reader& in) {
    small_values said;
    const auto count = in.number<std::uint32_t>();
    if (count > in.left() / 12) message_reader::malformed();
    for (std::uint32_t n = 0; n < count; ++n) {
      const auto to = in.number<std::uint32_t>(), number = in.number<std::uint32_t>();
      const auto size = in.number<std::uint32_t>();
      if (!said.add(to, number, in.bytes(size))) message_reader::malformed();
    }
    return said;
  }

 private:
  static constexpr std::size_t max_value = 4096, max_together = 16'384;

  std::vector<value> all_;
  std::size_t bytes_ = 0;
};

/// A run of a step. The frame's tag is the client's session, and its step the run's number.
struct run_message {
  std::uint32_t client_rank = 0;  // the number of tasks: a client that is no task
  std::uint64_t client_incarnation = 0;
  std::uint64_t signature = 0;
  std::uint64_t placement = 0;              // step_registration::key()
  std::int64_t position = 0;                // in the random numbers
  std::vector<std::uint32_t> participants;  // tasks
  std::vector<std::uint64_t> processes;     // the incarnation of each participant
  std::vector<shape> extents;               // of what is fed
  bool waits = false;  // operations of queues wait in it: it takes no turn, since other runs may end the wait
  bool registers = false;
  step_registration registration;
  small_values fed = {};

  std::vector<std::byte> bytes() const {
    message_writer out;
    out.number(client_rank).number(client_incarnation).number(signature).number(placement).number(position);
    out.number(static_cast<std::uint32_t>(participants.size()));
    for (std::size_t k = 0; k < participants.size(); ++k) out.number(participants[k]).number(processes[k]);
    out.number(static_cast<std::uint32_t>(extents.size()));
    for (const shape& e : extents) {
      out.number(static_cast<std::uint8_t>(e.rank));
      for (std::size_t a = 0; a < e.rank; ++a) out.number(e[a]);
    }
    out.number(static_cast<std::uint8_t>(waits)).number(static_cast<std::uint8_t>(registers));
    if (registers) registration.write(out);
    fed.write(out);
    return out.take();
  }

  static run_message read(const_bytes bytes, std::size_t tasks) {
    message_reader in(bytes);
    run_message said;
    said.client_rank = in.number<std::uint32_t>();
    said.client_incarnation = in.number<std::uint64_t>();
    said.signature = in.number<std::uint64_t>();
    said.placement = in.number<std::uint64_t>();
    said.position = in.number<std::int64_t>();
    const auto participants = in.number<std::uint32_t>();
    if (participants > tasks) message_reader::malformed();
    for (std::uint32_t k = 0; k < participants; ++k) {
      said.participants.push_back(in.number<std::uint32_t>());
      said.processes.push_back(in.number<std::uint64_t>());
      if (said.participants.back() >= tasks) message_reader::malformed();
    }
    const auto feeds = in.number<std::uint32_t>();
    if (feeds > in.left() || feeds > max_feeds) message_reader::malformed();
    for (std::uint32_t f = 0; f < feeds; ++f) {
      const auto rank = in.number<std::uint8_t>();
      shape e;
      if (rank > max_rank) message_reader::malformed();
      for (std::uint8_t a = 0; a < rank; ++a) {
        e.push_back(in.number<std::int64_t>());
        if (e[a] < 0) message_reader::malformed();
      }
      said.extents.push_back(e);
    }
    said.waits = in.flag();
    said.registers = in.flag();
    // A signature of 0 would keep the task from comparing its placement with the client's.
    if (said.client_rank > tasks || said.position < 0 || said.signature == 0) message_reader::malformed();
    if (said.registers) said.registration = step_registration::read(in);
    said.fed = small_values::read(in);
    in.end();
    for (const small_values::value& each : said.fed.all())
      if (each.to >= tasks) message_reader::malformed();
    return said;
  }
};

/// What a task tells a client of itself.
struct task_message {
  /// What has become of the task's variables. Clients raise it, in the order of the tasks, so that the next one can
  /// tell a task that has lost them from one that nobody has used yet.
  enum class memory : std::uint8_t { unused, met, used, lost };

  std::uint32_t cpus = 1, gpus = 0;
  memory variables = memory::unused;
  std::vector<std::string> jobs, addresses;  // of all tasks: "worker", "0@10.0.0.1:2222,1@10.0.0.2:2222"

  std::vector<std::byte> bytes() const {
    message_writer out;
    out.number(cpus).number(gpus).number(static_cast<std::uint8_t>(variables));
    out.number(static_cast<std::uint32_t>(jobs.size()));
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      out.text(jobs[j]).number(static_cast<std::uint32_t>(addresses[j].size()));
      for (const char c : addresses[j]) out.number(c);
    }
    return out.take();
  }
  static task_message read(const_bytes bytes) {
    message_reader in(bytes);
    task_message said;
    said.cpus = in.number<std::uint32_t>();
    said.gpus = in.number<std::uint32_t>();
    const auto variables = in.number<std::uint8_t>();
    if (said.cpus == 0 || said.cpus > max_devices || said.gpus > max_devices ||
        variables > static_cast<std::uint8_t>(memory::lost))
      message_reader::malformed();
    said.variables = static_cast<memory>(variables);
    const auto jobs = in.number<std::uint32_t>();
    if (jobs > in.left() / 8) message_reader::malformed();
    for (std::uint32_t j = 0; j < jobs; ++j) {
      said.jobs.push_back(in.text());
      const const_bytes list = in.bytes(in.number<std::uint32_t>());
      said.addresses.emplace_back(reinterpret_cast<const char*>(list.data()), list.size());
    }
    in.end();
    return said;
  }
};

/// The end of a task's part of a run, or of another request: values that are fetched, or what it failed with.
struct end_message {
  bool failed = false, follows = false;  // follows: because of what failed elsewhere
  std::uint8_t code = 0;
  std::string operation, sentence;
  small_values fetched = {};

  static end_message of(const error& e, bool follows) {
    return {true, follows, static_cast<std::uint8_t>(e.code()), printable(e.operation(), 1000),
            printable(e.sentence(), 4000)};
  }
  std::vector<std::byte> bytes() const {
    message_writer out;
    out.number(static_cast<std::uint8_t>(failed ? (follows ? 2 : 1) : 0)).number(code);
    out.text(printable(operation, 1000)).text(printable(sentence, 4000));
    fetched.write(out);
    return out.take();
  }
  static end_message read(const_bytes bytes) {
    message_reader in(bytes);
    end_message said;
    const auto how = in.number<std::uint8_t>();
    if (how > 2) message_reader::malformed();
    said.failed = how != 0, said.follows = how == 2;
    said.code = in.number<std::uint8_t>();
    if (said.failed && (said.code == 0 || said.code > static_cast<std::uint8_t>(error_code::unauthenticated)))
      message_reader::malformed();
    said.operation = in.text();
    said.sentence = in.text();
    said.fetched = small_values::read(in);
    in.end();
    return said;
  }
  /// As the client throws it.
  error from(const std::string& task) const {
    return error(static_cast<error_code>(code), operation, {sentence, " (in ", task, ")"});
  }
};

}  // namespace weft::detail

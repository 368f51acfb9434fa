// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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
/// Largest number of devices of one kind in a task, and of values that are fed to a step.
inline constexpr std::uint32_t max_devices = 4096, max_feeds = 1u << 16;
/// Largest number of elements in other lists of a message about a step.
inline constexpr std::uint64_t max_listed = max_step_message_bytes / 4;

/// The weight of a write_variable frame that contains no value, but initializes a variable that has none.
inline constexpr std::uint32_t initializes = 1;

/// Everything that a task requires, in addition to the same graph, to compute its part of a step. The client places the
/// nodes, so its pins and options can differ from those of the task's program.
struct step_registration {
  /// Consecutive nodes on one device. The task of nodes that fit no device is the number of tasks.
  struct placed_nodes {
    std::uint32_t count = 0;
    plan::device_number on;
  };

  std::uint64_t graph = 0, seed = 0;  // hash and seed of the graph
  std::string container;              // container of the variables
  std::vector<placed_nodes> placed;
  std::vector<std::uint32_t> cpus, gpus;  // device counts of each task
  std::vector<std::uint32_t> restarted;   // tasks that the client has used in an earlier process
  plan::step_request request;

  void fields(message_fields& io);

  /// Returns a hash of the graph, the container and the placement.
  std::uint64_t key() const {
    step_registration placement = *this;
    placement.request = {};
    placement.restarted.clear();
    hasher h;
    for (const std::byte b : write_message(std::move(placement))) h.add(static_cast<std::uint64_t>(b));
    return h.result();
  }
  bool is_of(const weft::graph& g) const { return graph == g.hash() && seed == g.seed(); }

  /// Throws invalid_argument for nodes and devices that do not exist.
  void check(const weft::graph& g, std::size_t tasks) const {
    std::uint64_t nodes = 0;
    for (const placed_nodes& p : placed) nodes += p.count;
    const auto has = [&](value v) { return v.node < nodes && v.output < g[v.node].def.outputs.size(); };
    bool fits = cpus.size() == tasks && nodes <= g.size();  // this process may have recorded more nodes since
    for (const placed_nodes& p : placed) {
      const bool nowhere = p.on.task == tasks;
      fits = fits && (nowhere || (p.on.task < tasks && p.on.ordinal < (p.on.gpu ? gpus : cpus)[p.on.task]));
    }
    for (const value v : request.fetches) fits = fits && has(v);
    for (const value v : request.feeds) fits = fits && has(v);
    for (const std::uint32_t t : request.targets) fits = fits && t < nodes;
    if (!fits) message_reader::malformed();
  }
};

/// Small values that travel at the end of a message, to save frames.
class small_values {
 public:
  struct value {
    std::uint32_t to = 0, number = 0;  // the receiving task, and the transfer's number
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

  void fields(message_fields& io);

 private:
  static constexpr std::size_t max_value = 4096, max_together = 16'384;

  std::vector<value> all_;
  std::size_t bytes_ = 0;
};

/// A run of a step. The frame's tag is the client's session, the frame's step the number of the run.
struct run_message {
  std::uint32_t client_rank = 0;  // the number of tasks if the client is outside the cluster
  std::uint64_t client_incarnation = 0;
  std::uint64_t signature = 0;
  std::uint64_t placement = 0;              // step_registration::key()
  std::int64_t position = 0;                // position in the random numbers
  std::vector<std::uint32_t> participants;  // tasks
  std::vector<std::uint64_t> processes;     // the incarnation of each participant
  std::vector<shape> extents;               // extents of the fed values
  bool waits = false;  // has queue operations: takes no turn, because other runs may have to end its waits
  bool registers = false;
  step_registration registration;
  small_values fed = {};

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static run_message read(const_bytes from, std::size_t tasks) { return read_message<run_message>(from, tasks); }
};

/// A task's description of itself, for clients.
struct task_message {
  /// The state of the task's variables. Clients raise it, in the order of the tasks, so that later clients can
  /// distinguish a task that has lost its variables from a task that no client has used yet.
  enum class memory : std::uint8_t { unused, met, used, lost };

  std::uint32_t cpus = 1, gpus = 0;
  memory variables = memory::unused;
  std::vector<std::string> jobs, addresses;  // of all tasks: "worker", "0@10.0.0.1:2222,1@10.0.0.2:2222"

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static task_message read(const_bytes from) { return read_message<task_message>(from); }
};

/// The end of a task's part of a run, or of another request: the fetched values, or the error.
struct end_message {
  bool failed = false, follows = false;  // follows: caused by a failure elsewhere
  std::uint8_t code = 0;
  std::string operation, sentence;
  small_values fetched = {};

  static end_message of(const error& e, bool follows) {
    return {true, follows, static_cast<std::uint8_t>(e.code()), printable(e.operation(), 1000),
            printable(e.sentence(), 4000)};
  }
  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static end_message read(const_bytes from) { return read_message<end_message>(from); }
  /// Returns the error that the client throws.
  error from(const std::string& task) const {
    return error(static_cast<error_code>(code), operation, {sentence, " (in ", task, ")"});
  }
};

/// A request to read or write a variable. The frame's header contains the variable's node.
struct variable_message {
  step_registration registration;
  const_bytes value;  // empty unless the variable is written

  void fields(message_fields& io) {
    registration.fields(io);
    io.rest(value);
  }
};

/// A request to close the variables, queues and other resources of these containers.
struct reset_message {
  std::vector<std::string> containers;

  void fields(message_fields& io) {
    io.list(containers, max_text_bytes, [&](std::string& each) { io.text(each); });
  }
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void step_registration::fields(message_fields& io) {
  const auto numbers = [&](auto& all) { io.list(all, max_listed, [&](std::uint32_t& each) { io.number(each); }); };
  const auto values = [&](sequence<value>& all) {
    io.list(all, max_listed, [&](value& each) { io.number(each.node).number(each.output); });
  };
  io.number(graph).number(seed).text(container);
  io.list(placed, max_listed, [&](placed_nodes& each) {
    io.number(each.count).number(each.on.task).number(each.on.ordinal).flag(each.on.gpu);
  });
  io.repeat(cpus.size(), max_listed, [&](std::size_t task) {
    io.number(io.at(cpus, task), 1, max_devices).number(io.at(gpus, task), 0, max_devices);
  });
  numbers(restarted);
  values(request.fetches);
  numbers(request.targets);
  values(request.feeds);
}

WEFT_DISTRIBUTED_DECL void small_values::fields(message_fields& io) {
  bytes_ = 0;
  io.list(all_, max_together / 12, [&](value& each) {
    io.number(each.to).number(each.number).bytes(each.bytes, max_value);
    bytes_ += each.bytes.size() + 12;
    io.must_hold(bytes_ <= max_together);
  });
}

WEFT_DISTRIBUTED_DECL void run_message::fields(message_fields& io) {
  const std::size_t tasks = io.peers();
  io.number(client_rank).number(client_incarnation);
  io.number(signature, 1);  // with 0, the task would not compare its placement with the client's
  io.number(placement).number(position, 0);
  io.repeat(participants.size(), tasks,
            [&](std::size_t k) { io.peer(io.at(participants, k)).number(io.at(processes, k)); });
  io.list(extents, max_feeds, [&](shape& each) {
    auto rank = static_cast<std::uint8_t>(each.rank);
    io.number(rank, 0, max_rank);
    for (std::size_t a = 0; a < rank; ++a) {
      if (a == each.rank) each.push_back(0);
      io.number(each[a], 0);
    }
  });
  io.flag(waits).flag(registers);
  io.must_hold(client_rank <= tasks);
  if (registers) registration.fields(io);
  fed.fields(io);
  for (const small_values::value& each : fed.all()) io.must_hold(each.to < tasks);
}

WEFT_DISTRIBUTED_DECL void task_message::fields(message_fields& io) {
  io.number(cpus, 1, max_devices).number(gpus, 0, max_devices).one_of(variables, memory::unused, memory::lost);
  io.repeat(jobs.size(), max_step_message_bytes,
            [&](std::size_t job) { io.text(io.at(jobs, job)).text(io.at(addresses, job), max_step_message_bytes); });
}

WEFT_DISTRIBUTED_DECL void end_message::fields(message_fields& io) {
  io.flags({&failed, &follows}).number(code).sentence(operation, 1000).sentence(sentence);
  io.must_hold(failed ? code > 0 && code <= static_cast<std::uint8_t>(error_code::unauthenticated) : !follows);
  fetched.fields(io);
}

#endif

}  // namespace weft::detail

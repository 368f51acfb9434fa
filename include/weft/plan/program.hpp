// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/graph.hpp>
#include <weft/plan/device_number.hpp>
#include <weft/plan/index.hpp>
#include <weft/plan/step_request.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// A node of the graph as a part of a step. It has a number in the graph and an index in `program::nodes`.
struct step_node {
  std::uint32_t number = 0;  ///< in the graph
  bool runs = false;         ///< false if it is fed, or only its extents are used
  bool fed = false;
  device_number on;
  std::uint32_t first_buffer = 0;  ///< of its first output; those of other outputs follow
  std::uint32_t follower = none;   ///< the node that is fused with this one and reads its result
  std::uint32_t leader = none;     ///< the node whose result this one reads in the fused kernel
  std::uint32_t snapshot = none;   ///< for a variable whose old value is copied before the step: the buffer of the copy
  std::uint32_t workspace = none;  ///< the buffer for the working memory of a node with subgraphs
  bool reads_snapshots = false;    ///< reads the old value of a variable after a write
  bool in_parts = false;           ///< other kernels read or write the parts that it would copy, so it has no kernel
  image_layout layout = image_layout::channels_last;  ///< of its images
};

/// The location of a buffer's elements.
enum class buffer_kind : unsigned char {
  unused,    ///< not computed; only the extents are known
  arena,     ///< in a block of the program's memory
  variable,  ///< in the session's memory
  constant,  ///< in the graph
  resident,  ///< a constant's copy on a device, made once
  fed,       ///< in the caller's input
  caller,    ///< in the caller's output
};

/// A place for one value, or for several values in sequence.
struct step_buffer {
  value_info declared;     ///< extents can be names
  std::uint32_t root = 0;  ///< the buffer whose memory it uses; otherwise its own number
  operand_part part;       ///< of the root
  buffer_kind kind = buffer_kind::unused;
  image_layout layout = image_layout::channels_last;
  std::uint32_t space = 0;  ///< 0: host memory; n + 1: memory of GPU n
  std::uint32_t arena = 0;
  std::uint32_t first = none, last = none;  ///< instructions: the first that writes it, the last that reads it
  std::uint32_t forwarded_from = none;      ///< the buffer whose memory it reuses
  bool reserved = false;                    ///< its memory is allocated before the first instruction and not shared
  bool pinned = false;                      ///< a GPU copies from this address, so no other buffer may reuse the memory
};

enum class instruction_kind : unsigned char {
  compute,
  copy,     ///< from its read buffer to its written buffer
  send,     ///< sends its read buffer to another task; never waits
  receive,  ///< receives its written buffer from another task
};

/// A unit of execution: a node, two fused nodes, updates of several variables, a copy, or one side of a transfer
/// between two tasks.
struct instruction {
  std::uint32_t node = none;       ///< the node whose result it computes; for other kinds, the node that it serves
  std::uint32_t leader = none;     ///< the node that is fused into `node`
  std::uint32_t assigned = none;   ///< the variable in whose memory it computes its first result
  sequence<std::uint32_t> beside;  ///< updates of other variables that run in the same kernel
  instruction_kind kind = instruction_kind::compute;
  std::uint32_t transfer = none;  ///< number of a send or a receive; the same in both tasks
  device_number on;
  std::uint32_t lane = 0;
  sequence<std::uint32_t> reads, writes;  ///< root buffers
  sequence<std::uint32_t> read_for;       ///< for each read buffer, the original if it is a copy; empty: no copies
  sequence<std::uint32_t> dependencies;   ///< instructions of other lanes or queues that it waits for
};

/// A block of memory that buffers of one lane share.
struct arena_info {
  enum class kind_type : unsigned char { host, pinned, gpu } kind = kind_type::host;
  std::uint32_t gpu = 0;
};

/// A step as data. Passes build it, and each pass reads the results of the earlier ones. Independent of extents that
/// are known only at run time: a `binding` contains everything that depends on them.
struct program {
  program(const graph& of, step_request what) : g(of), request(static_cast<step_request&&>(what)) {}
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  const graph& g;
  step_request request;
  bool is_subgraph = false;  ///< of a node
  device_number home;        ///< the device of fed and fetched values
  std::uint32_t self = 0;    ///< the task that runs this program

  // prune, order
  sequence<step_node> nodes;  ///< those that run come first, in execution order
  std::uint32_t running = 0;  ///< number of nodes that run
  /// Graph nodes whose value is the session's random position: one for each device scope that draws random numbers.
  sequence<std::uint32_t> positions;
  sequence<std::uint32_t> index;                 ///< of each graph node in `nodes`
  sequence<std::uint32_t> variables, constants;  ///< nodes that run
  /// Readers of a variable's old value that run after a write.
  struct snapshot_reader {
    std::uint32_t node, variable;  ///< node: none if the caller fetches the value
  };
  sequence<snapshot_reader> snapshot_readers;

  // place
  std::size_t lanes_per_device = 1, cpus = 1, gpus = 0;

  // number_buffers, list_instructions, group_updates
  sequence<step_buffer> buffers;
  sequence<std::uint32_t> feed_buffers, fetch_buffers;
  sequence<instruction> instructions;
  sequence<std::uint32_t> written_variables;  ///< as nodes of the graph

  // assign_lanes
  sequence<sequence<std::uint32_t>> lanes;  ///< lists of instructions
  sequence<arena_info> arenas;

  // ---- queries that all passes share ----

  const graph_node& node_of(std::uint32_t n) const { return g[nodes[n].number]; }
  const node_def& def(std::uint32_t n) const { return g[nodes[n].number].def; }
  const operation& op(std::uint32_t n) const { return *def(n).op; }
  const std::string& name(std::uint32_t n) const { return node_of(n).name; }
  /// Returns "matmul", "matmul and map" for fused nodes, or "adam_3 and 2 more" for grouped updates.
  std::string name(const instruction& i) const {
    if (!i.beside.empty()) return str_cat({name(i.node), " and ", i.beside.size(), " more"});
    if (i.leader == none) return name(i.node);
    return str_cat({name(i.leader), " and ", name(i.node)});
  }
  /// Returns "cpu:0", or "cpu:0.1" if a device has several lanes.
  std::string lane_name(const instruction& i) const {
    std::string text = str_cat({(i.on.gpu ? "gpu:" : "cpu:"), i.on.ordinal});
    if (lanes_per_device > 1) append(text, {".", i.lane % lanes_per_device});
    return text;
  }
  std::uint32_t index_of(value v) const { return index[v.node]; }
  std::uint32_t buffer_of(value v) const { return nodes[index[v.node]].first_buffer + v.output; }
  std::uint32_t root_of(value v) const { return buffers[buffer_of(v)].root; }

  /// Returns true if the node runs a kernel.
  bool computes(std::uint32_t n) const {
    const operation* o = def(n).op;
    return nodes[n].runs && !nodes[n].in_parts && !is_operation<variable_op>(o) && !is_operation<constant_op>(o) &&
           !is_operation<placeholder_op>(o) && !is_operation<group_op>(o) && !o->alias;
  }
  bool has_subgraphs(const instruction& i) const {
    return i.kind == instruction_kind::compute && !def(i.node).subgraphs.empty();
  }
  static bool reads(const node_def& c, std::size_t input) {
    if (!c.op->use) return true;
    const operand_use use = c.op->use(c, input);
    return use == operand_use::read || use == operand_use::update;
  }
  /// Returns true if a node can write its first output over an operand with equal extents.
  bool works_in_place(std::uint32_t n) const {
    const node_def& c = def(n);
    if (!c.op->in_place) return false;
    sequence<value_info> inputs;
    for (const value& v : c.inputs) inputs.push_back(g.info(v));
    return c.op->in_place(c, inputs.data(), c.outputs[0]);
  }
  static bool writes(const node_def& c, std::size_t input) {
    if (!c.op->writes) return false;
    const operand_use use = c.op->use(c, input);
    return use == operand_use::write || use == operand_use::update;
  }

  /// Returns the node that computes a value, ignoring aliases, or whose value is fed.
  std::uint32_t computed_by(value v) const {
    while (def(index_of(v)).op->alias && !nodes[index_of(v)].fed) v = def(index_of(v)).inputs[0];
    return index_of(v);
  }
  /// Returns the variable whose old value this is, ignoring aliases; none for the result of a write, which is the new
  /// value.
  std::uint32_t variable_behind(value v) const {
    const std::uint32_t n = computed_by(v);
    return is_operation<variable_op>(def(n).op) && !nodes[n].fed ? n : none;
  }
  /// Returns the write whose first output, the variable, is this value, ignoring aliases; none if there is no such
  /// write.
  std::uint32_t writer_behind(value v) const {
    while (def(index_of(v)).op->alias && !nodes[index_of(v)].fed) v = def(index_of(v)).inputs[0];
    const std::uint32_t n = index_of(v);
    return def(n).op->writes && v.output == 0 && !nodes[n].fed ? n : none;
  }
  bool reads_snapshot(std::uint32_t reader, std::uint32_t variable) const {
    for (const snapshot_reader& s : snapshot_readers)
      if (s.node == reader && s.variable == variable) return true;
    return false;
  }
  /// Returns the root buffer that a node reads for one of its inputs; for reader none, the buffer that the caller
  /// receives.
  std::uint32_t read_buffer(std::uint32_t reader, value v) const {
    const std::uint32_t variable = snapshot_readers.empty() ? none : variable_behind(v);
    if (variable != none && (reader == none || nodes[reader].reads_snapshots) && reads_snapshot(reader, variable))
      return nodes[variable].snapshot;
    return root_of(v);
  }
  static std::uint32_t space_of(device_number d) { return d.gpu ? d.ordinal + 1 : 0; }
  /// Returns the arena for values that a lane writes to a memory space.
  std::uint32_t arena_of(std::uint32_t lane, std::uint32_t space) const {
    const bool copied_to_host = space == 0 && arenas[lane].kind == arena_info::kind_type::gpu;
    return copied_to_host ? static_cast<std::uint32_t>(lanes.size()) + lane : lane;
  }

  /// Adds a buffer with the type, extents and memory space of another.
  std::uint32_t add_buffer(std::uint32_t like) {
    step_buffer b;
    b.declared = buffers[like].declared;
    b.layout = buffers[like].layout;
    b.space = buffers[like].space;
    b.root = static_cast<std::uint32_t>(buffers.size());
    buffers.push_back(b);
    return b.root;
  }
};

}  // namespace weft::plan

WEFT_COLD_END

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

/// A node of the graph as a part of a step. Its index in `program::nodes` is its number there.
struct step_node {
  std::uint32_t number = 0;  ///< in the graph
  bool runs = false;         ///< false: it is fed, or only its extents are asked for
  bool fed = false;
  device_number on;
  std::uint32_t first_buffer = 0;  ///< its first output's; the others follow
  std::uint32_t follower = none;   ///< the node that runs with it, on what it computes
  std::uint32_t leader = none;     ///< the node whose result it takes in
  std::uint32_t snapshot = none;   ///< the copy's buffer, for a variable whose old value is copied before the step
  std::uint32_t workspace = none;  ///< the buffer for what a node with subgraphs, and they, need while they run
  bool reads_snapshots = false;    ///< the old value of a variable, after a write of it
  image_layout layout = image_layout::channels_last;  ///< its images'
};

/// Where the elements of a buffer are.
enum class buffer_kind : unsigned char {
  unused,    ///< nowhere: its extents are known, its value is not computed
  arena,     ///< in a block of the program's memory
  variable,  ///< in the session's memory
  constant,  ///< in the graph
  resident,  ///< a constant's copy on a device, made once
  fed,       ///< where the caller has them
  caller,    ///< where the caller will have them
};

/// A place for one value, or for several of which one is there after the other.
struct step_buffer {
  value_info declared;     ///< extents may be names
  std::uint32_t root = 0;  ///< the buffer whose place it has; its own number where it has one itself
  buffer_kind kind = buffer_kind::unused;
  image_layout layout = image_layout::channels_last;
  std::uint32_t space = 0;  ///< whose memory it is in: 0 the host's, else that of the GPU before this number
  std::uint32_t arena = 0;
  std::uint32_t first = none, last = none;  ///< the instructions that first write and last read it
  std::uint32_t forwarded_from = none;      ///< the buffer whose place it takes over
  bool reserved = false;                    ///< it has its place before the first instruction, and keeps it
  bool pinned = false;                      ///< a GPU copies from this very address: nobody takes it over
};

enum class instruction_kind : unsigned char {
  compute,
  copy,     ///< its one read buffer to its one written buffer
  send,     ///< its read buffer to another task; never waits
  receive,  ///< its written buffer from another task
};

/// A unit that runs as a whole: a node, a node and what follows it, updates of several variables, a copy, or half of a
/// transfer between two tasks.
struct instruction {
  std::uint32_t node = none;       ///< whose result it computes; of all other kinds, the node it is made for
  std::uint32_t leader = none;     ///< the node whose result that one takes in
  std::uint32_t assigned = none;   ///< a variable that it computes its first result in
  sequence<std::uint32_t> beside;  ///< other variables' updates that run with an update, as one kernel
  instruction_kind kind = instruction_kind::compute;
  std::uint32_t transfer = none;  ///< of a send or a receive; the same number on both tasks
  device_number on;
  std::uint32_t lane = 0;
  sequence<std::uint32_t> reads, writes;  ///< root buffers
  sequence<std::uint32_t> read_for;       ///< the original of each read buffer, or itself; empty: all are themselves
  sequence<std::uint32_t> dependencies;   ///< instructions of other lanes, or queues, that it waits for
};

/// A block of memory that buffers share. Buffers of one arena are used by one lane.
struct arena_info {
  enum class kind_type : unsigned char { host, pinned, gpu } kind = kind_type::host;
  std::uint32_t gpu = 0;
};

/// A step as data, made by passes, each of which reads what those before it have written. Nothing here depends on
/// extents that are known at run time only: that is what a `binding` is for.
struct program {
  program(const graph& of, step_request what) : g(of), request(static_cast<step_request&&>(what)) {}
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  const graph& g;
  step_request request;
  bool is_subgraph = false;  ///< a node's
  device_number home;        ///< where what is fed and fetched lies
  std::uint32_t self = 0;    ///< the task whose part this is

  // prune, order
  sequence<step_node> nodes;  ///< first those that run, in order
  std::uint32_t running = 0;  ///< how many run
  /// Nodes of the graph that have the session's position in its random numbers, where it is read: one for each device
  /// scope in which some are drawn.
  sequence<std::uint32_t> positions;
  sequence<std::uint32_t> index;                 ///< in `nodes`, of each node of the graph
  sequence<std::uint32_t> variables, constants;  ///< those that run
  /// Readers of a variable's old value that run after a write of it.
  struct snapshot_reader {
    std::uint32_t node, variable;  ///< node: none for the caller that fetches it
  };
  sequence<snapshot_reader> snapshot_readers;

  // place
  std::size_t lanes_per_device = 1, cpus = 1, gpus = 0;

  // number_buffers, list_instructions, group_updates
  sequence<step_buffer> buffers;
  sequence<std::uint32_t> feed_buffers, fetch_buffers;
  sequence<instruction> instructions;
  sequence<std::uint32_t> written_variables;  ///< nodes of the graph

  // assign_lanes
  sequence<sequence<std::uint32_t>> lanes;  ///< instructions
  sequence<arena_info> arenas;

  // ---- what every pass asks ----

  const graph_node& node_of(std::uint32_t n) const { return g[nodes[n].number]; }
  const node_def& def(std::uint32_t n) const { return g[nodes[n].number].def; }
  const operation& op(std::uint32_t n) const { return *def(n).op; }
  const std::string& name(std::uint32_t n) const { return node_of(n).name; }
  /// "matmul" or, of two nodes that run as one, "matmul and map"; of updates, "adam_3 and 2 more".
  std::string name(const instruction& i) const {
    if (!i.beside.empty()) return str_cat({name(i.node), " and ", i.beside.size(), " more"});
    if (i.leader == none) return name(i.node);
    return str_cat({name(i.leader), " and ", name(i.node)});
  }
  /// "cpu:0" or, where a device has several lanes, "cpu:0.1".
  std::string lane_name(const instruction& i) const {
    std::string text = str_cat({(i.on.gpu ? "gpu:" : "cpu:"), i.on.ordinal});
    if (lanes_per_device > 1) append(text, {".", i.lane % lanes_per_device});
    return text;
  }
  std::uint32_t index_of(value v) const { return index[v.node]; }
  std::uint32_t buffer_of(value v) const { return nodes[index[v.node]].first_buffer + v.output; }
  std::uint32_t root_of(value v) const { return buffers[buffer_of(v)].root; }

  /// Whether a kernel runs for it.
  bool computes(std::uint32_t n) const {
    const operation* o = def(n).op;
    return nodes[n].runs && !is_operation<variable_op>(o) && !is_operation<constant_op>(o) &&
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
  /// Whether a node may write its first output over an operand of the same extents.
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

  /// The node behind a value's aliases: one that is fed, or that computes it.
  std::uint32_t computed_by(value v) const {
    while (def(index_of(v)).op->alias && !nodes[index_of(v)].fed) v = def(index_of(v)).inputs[0];
    return index_of(v);
  }
  /// The variable whose old value this is, under whatever name; none of what a write yields, which is the new one.
  std::uint32_t variable_behind(value v) const {
    const std::uint32_t n = computed_by(v);
    return is_operation<variable_op>(def(n).op) && !nodes[n].fed ? n : none;
  }
  /// The write whose first output, the variable, this is, under whatever name; none where it is not one.
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
  /// The root buffer that a node reads for one of its inputs; of reader none, the one that the caller is given.
  std::uint32_t read_buffer(std::uint32_t reader, value v) const {
    const std::uint32_t variable = snapshot_readers.empty() ? none : variable_behind(v);
    if (variable != none && (reader == none || nodes[reader].reads_snapshots) && reads_snapshot(reader, variable))
      return nodes[variable].snapshot;
    return root_of(v);
  }
  static std::uint32_t space_of(device_number d) { return d.gpu ? d.ordinal + 1 : 0; }
  /// The block for what is written on a lane and lies in a space.
  std::uint32_t arena_of(std::uint32_t lane, std::uint32_t space) const {
    const bool copied_to_host = space == 0 && arenas[lane].kind == arena_info::kind_type::gpu;
    return copied_to_host ? static_cast<std::uint32_t>(lanes.size()) + lane : lane;
  }

  /// A buffer for a value like that of another, in the same memory.
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

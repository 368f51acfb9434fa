#pragma once

#include <time.h>

#include <cstdint>
#include <string>
#include <utility>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/graph.hpp>
#include <weft/ops/fused.hpp>
#include <weft/session/extent_bindings.hpp>
#include <weft/session/memory_plan.hpp>
#include <weft/session/placement.hpp>
#include <weft/session/schedule.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// What a step computes, without its types: fetched values, nodes run for their effect, and fed values.
struct step_request {
  sequence<value> fetches;
  sequence<std::uint32_t> targets;
  sequence<value> feeds;
};

/// Where a session keeps a variable: on the host, or on the GPU that it is placed on.
struct variable_state {
  storage data;
  std::byte* on_gpu = nullptr;
  device_number where;
  bool initialized = false;
  std::byte* address() const { return where.gpu ? on_gpu : data.data(); }
};

/// Is told when the kernels of steps ran, in nanoseconds of one clock.
class step_observer {
 public:
  virtual void kernel_ran(const std::string& device, const std::string& node, const std::string& kernel,
                          std::uint64_t began, std::uint64_t ended) = 0;
  virtual void step_ended() = 0;

 protected:
  ~step_observer() = default;
};

/// What a session gives its plans to work with.
struct session_devices {
  const placement& place;
  std::size_t cpus;
  std::size_t lanes_per_device;
  const memory_source& memory;
};

/// A step for known extents: kernels in order, and blocks of memory in which every intermediate value has its place.
/// Running it allocates nothing.
///
/// A lane is a thread's list of kernels, with memory of its own; a device has one, or several where independent kernels
/// may run at the same time. Which lane a kernel is on is decided here, once: at run time a lane only waits for what it
/// needs from others.
///
/// This plan knows CPU devices, which share one memory; gpu_plan adds those that do not, where the virtual functions
/// are.
class plan {
 public:
  plan(const graph& g, const schedule& order, const step_request& request, const extent_bindings& extents,
       sequence<variable_state>& variables, const session_devices& devices)
      : graph_(g), order_(order), request_(request), extents_(extents), variables_(variables), devices_(devices) {}
  plan(const plan&) = delete;
  plan& operator=(const plan&) = delete;
  virtual ~plan() {
    for (instruction& i : instructions_) delete i.code;
  }

  /// Once, before anything else.
  void make() {
    place_nodes();
    number_slots();
    resolve_aliases_and_infos();
    choose_fusions();
    choose_layouts();
    list_instructions();
    compute_in_variables();
    assign_lanes();
    place_buffers();
    prepare_kernels();
    find_waits();
  }

  std::size_t lanes() const { return lanes_.size(); }
  std::size_t slot_of(value v) const { return slots_[first_slot_[v.node] + v.output].root; }
  const value_info& info(value v) const { return slots_[first_slot_[v.node] + v.output].info; }
  /// Whether a fetched value can be computed straight into memory that the caller provides.
  bool is_written_to_caller(std::size_t fetch) const { return slots_[fetch_slots_[fetch]].place == place_kind::caller; }
  std::size_t fetch_slot(std::size_t fetch) const { return fetch_slots_[fetch]; }
  std::byte*& buffer(std::size_t of) { return buffers_[of]; }

  /// Runs the kernels of one lane in order. A kernel that needs what another lane computes waits for it.
  void run_lane(std::size_t number, thread_pool& threads) {
    const frame f{buffers_.data(), &threads};
    for (const std::uint32_t i : lanes_[number].instructions) {
      instruction& next = instructions_[i];
      for (const std::uint32_t w : next.waits)
        if (!await(w)) return;
      run(next, f);
      if (lanes_.size() > 1) __atomic_store_n(&next.done, stamp_, __ATOMIC_RELEASE);
    }
  }

  /// Runs the kernels of all lanes on this thread, for where there are no others.
  void run_in_order(thread_pool& threads) {
    const frame f{buffers_.data(), &threads};
    for (instruction& next : instructions_) run(next, f);
  }

  /// Runs a plan that needs more than lanes of CPU threads, if this is one; returns whether it is.
  virtual bool run_by_itself(thread_pool&) { return false; }

  /// Before each run of a plan of several lanes.
  void begin() {
    ++stamp_;
    failed_ = false;
  }

  /// Throws failed_precondition if a variable that the step reads has no value.
  void check_initialized() {
    if (checked_) return;
    for (const std::uint32_t n : order_.order()) {
      const invocation& what = graph_[n].what;
      for (std::size_t i = 0; i < what.inputs.size(); ++i)
        if (schedule::reads(what, i)) check_initialized(what.inputs[i]);
    }
    for (const value& v : request_.fetches) check_initialized(v);
    checked_ = true;
  }

  /// Marks what the step's assignments have given values.
  void mark_written() {
    for (const std::uint32_t v : written_) variables_[v].initialized = true;
    written_.clear();
  }

  /// Whether the next runs measure their kernels, and what the last one measured.
  void measure(bool on) { measured_ = on; }
  void report(step_observer& to) const {
    for (const instruction& i : instructions_)
      if (i.ended) to.kernel_ran(lane_name(i), name_of(i), i.code->describe(), i.began, i.ended);
    to.step_ended();
  }

  virtual std::size_t arena_bytes() const {
    std::size_t bytes = 0;
    for (const lane& l : lanes_) bytes += l.memory.total();
    return bytes;
  }
  std::size_t kernels() const { return instructions_.size(); }

  /// Where each operation runs, in TensorFlow's form.
  std::string placement_log() const {
    std::string text;
    for (const std::uint32_t n : order_.order())
      if (computes(n) || what(n).op == &variable_operation)
        append(text, {graph_[n].name, ": (", what(n).op->name, "): /job:localhost/replica:0/task:0", to_string(on_[n]),
                      "\n"});
    return text;
  }

  /// Kernels in order, where each runs and how large the memory is: for `explain`.
  std::string describe() const {
    std::string text;
    std::size_t number = 0;
    for (const instruction& i : instructions_) {
      append(text, {number++, "  ", lane_name(i), "  ", graph_[i.node].name, "  ", i.code->describe()});
      if (i.assigned != none) append(text, {" into ", graph_[i.assigned].name});
      if (!i.waits.empty()) {
        text += "  waits for";
        for (const std::uint32_t w : i.waits) append(text, {" ", w});
      }
      text += "\n";
    }
    std::size_t separate = 0;
    for (const slot& s : slots_)
      if (s.place == place_kind::arena) separate += s.info.bytes();
    describe_stages(text);
    append(text, {instructions_.size(), " kernels; ", arena_bytes(), " bytes of memory for ", separate,
                  " bytes of intermediate values\n"});
    return text;
  }

 protected:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  enum class place_kind : unsigned char { unused, arena, variable, constant, uploaded, fed, caller };

  struct slot {
    value_info info;
    std::uint32_t root = 0;  // the slot whose buffer this is
    place_kind place = place_kind::unused;
    std::uint32_t lane = 0;
    std::size_t offset = 0;
    std::uint32_t first = none, last = 0;  // instructions that write and that last read it
    bool reserved = false;                 // it has its place before the first instruction
    bool taken_over = false;               // its place has gone to another slot
    bool crosses_lanes = false;
    bool copied = false;      // by a GPU, from this very address
    std::uint32_t space = 0;  // whose memory it is in: 0 the host's, else that of the GPU before this number
    image_layout layout = image_layout::channels_last;
  };

  struct instruction {
    std::uint32_t node;             // whose result it computes
    std::uint32_t product = none;   // what it takes in: a matmul, or what computes the upstream of a gradient
    std::uint32_t assigned = none;  // a variable that it computes its first result in
    bool copies = false;            // from its one read slot to its one written slot
    device_number on;
    std::uint32_t lane = 0;
    kernel* code = nullptr;
    sequence<std::uint32_t> reads, writes, waits;  // root slots, root slots, instructions
    sequence<std::uint32_t> stands_for;            // of each read slot that is a copy: what it copies; else itself
    std::uint64_t done = 0;
    std::uint64_t began = 0, ended = 0;  // in the last run that was measured
  };

  struct lane {
    memory_plan memory;
    storage arena;
    sequence<std::uint32_t> instructions;
  };

  const invocation& what(std::uint32_t node) const { return graph_[node].what; }
  std::uint32_t slot_number(value v) const { return first_slot_[v.node] + v.output; }
  slot& root_of(value v) { return slots_[slots_[slot_number(v)].root]; }

  bool computes(std::uint32_t n) const {
    const operation* op = what(n).op;
    return op != &variable_operation && op != &constant_operation && op != &placeholder_operation &&
           op != &group_operation && !op->alias;
  }

  // ---- where another memory takes part ----

  virtual void choose_layouts() {}
  virtual void bring_operands(instruction&) {}
  virtual std::uint32_t bring_to_host(std::uint32_t s, std::uint32_t) { return s; }
  virtual image_layout layout_of(std::uint32_t) const { return image_layout::channels_last; }
  virtual void reserve_memory() {}
  virtual memory_plan& memory_of(const slot& s) { return lanes_[s.lane].memory; }
  virtual kernel* prepare_elsewhere(std::uint32_t, const prepare_context&, const product_fusion*) const {
    return nullptr;
  }
  virtual void describe_stages(std::string& text) const {
    for (const std::uint32_t n : order_.order())
      if (computes(n) && devices_.place.moved(n)) append(text, {graph_[n].name, " ", devices_.place.explain(n), "\n"});
  }

  // ---- what the values are, and where they are computed ----

  virtual void place_nodes() {
    on_.resize(order_.nodes());
    for (std::uint32_t n = 0; n < order_.nodes(); ++n) {
      const operation* op = what(n).op;
      if (order_.is_fed(n) || !order_.needs(n) || op == &placeholder_operation || op == &constant_operation ||
          op == &group_operation || op->alias)
        continue;
      on_[n] = op == &variable_operation ? variables_[n].where
               : op->writes              ? variables_[variable_written_by(n)].where
                                         : devices_.place.of(n);
    }
    lanes_per_device_ = devices_.lanes_per_device;
    lanes_.resize(devices_.cpus * lanes_per_device_);
  }
  std::uint32_t variable_written_by(std::uint32_t n) const {
    do n = what(n).inputs[0].node;
    while (what(n).op->alias);
    return n;
  }
  virtual std::uint32_t first_lane_of(device_number d) const {
    return static_cast<std::uint32_t>(d.ordinal * lanes_per_device_);
  }
  static std::uint32_t space_of(device_number d) { return d.gpu ? d.ordinal + 1 : 0; }

  void number_slots() {
    std::uint32_t next = 0;
    first_slot_.resize(order_.nodes());
    for (std::uint32_t n = 0; n < order_.nodes(); ++n) {
      first_slot_[n] = next;
      next += static_cast<std::uint32_t>(what(n).outputs.size());
    }
    slots_.resize(next + order_.snapshots().size());
    for (std::uint32_t i = 0; i < order_.snapshots().size(); ++i) snapshot_slots_.push_back(next + i);
  }

  void resolve_aliases_and_infos() {
    for (std::uint32_t s = 0; s < slots_.size(); ++s) slots_[s].root = s;
    for (std::uint32_t n = 0; n < order_.nodes(); ++n) {
      const invocation& w = what(n);
      for (std::uint32_t o = 0; o < w.outputs.size(); ++o) {
        slot& s = slots_[first_slot_[n] + o];
        s.info = w.outputs[o];
        // Extents of values that are not computed may be asked for all the same; an unknown one is an error only if
        // used.
        if (order_.needs(n) || known(s.info.extents))
          s.info.extents = extents_.resolve(graph_, graph_[n].name, s.info.extents);
        if (order_.is_fed(n))
          s.place = place_kind::fed;
        else if (w.op == &variable_operation)
          s.place = place_kind::variable, s.space = space_of(on_[n]);
        else if (w.op == &constant_operation)
          s.place = place_kind::constant;
      }
      if (w.op->alias && !order_.is_fed(n) && order_.needs(n))
        slots_[first_slot_[n]].root = slots_[slot_number(w.inputs[0])].root;
      // What a write yields is the variable itself, after the write.
      if (w.op->writes && order_.needs(n)) slots_[first_slot_[n]].root = slots_[slot_number(w.inputs[0])].root;
    }
    for (std::size_t i = 0; i < snapshot_slots_.size(); ++i) {
      slots_[snapshot_slots_[i]].info = slots_[first_slot_[order_.snapshots()[i]]].info;
      slots_[snapshot_slots_[i]].space = slots_[first_slot_[order_.snapshots()[i]]].space;
    }
  }

  bool known(const shape& s) const {
    for (std::size_t i = 0; i < s.rank; ++i)
      if (s[i] < 0 && !extents_.find(s[i])) return false;
    return true;
  }

  /// The root slot that a node reads for one of its inputs.
  std::uint32_t read_slot(std::uint32_t reader, value v) const {
    const std::uint32_t variable = order_.variable_behind(v);
    for (std::size_t i = 0; i < snapshot_slots_.size(); ++i)
      if (variable == order_.snapshots()[i] && order_.reads_snapshot(reader, variable)) return snapshot_slots_[i];
    return slots_[slot_number(v)].root;
  }

  // ---- what runs as one kernel ----

  void choose_fusions() {
    fused_into_.assign(order_.nodes(), none);
    epilogue_of_.assign(order_.nodes(), none);
    sequence<std::uint32_t> position(order_.nodes(), 0), uses(slots_.size(), 0);
    for (std::uint32_t i = 0; i < order_.order().size(); ++i) {
      const std::uint32_t n = order_.order()[i];
      position[n] = i + 1;
      for (std::size_t k = 0; k < what(n).inputs.size(); ++k)
        if (!what(n).op->alias && schedule::reads(what(n), k)) ++uses[read_slot(n, what(n).inputs[k])];
    }
    for (const value& f : request_.fetches) uses[slots_[slot_number(f)].root] += 2;

    for (const std::uint32_t n : order_.order()) {
      const invocation& w = what(n);
      if (can_follow(n)) {
        for (std::size_t k = 0; k < w.inputs.size(); ++k) {
          const value in = w.inputs[k];
          const std::uint32_t m = in.node;
          // Of what a gradient does not read, the one reader is somebody else.
          if (!schedule::reads(w, k) || !is_private(in, uses)) continue;
          if (epilogue_of_[m] != none || !(on_[m] == on_[n])) continue;
          if (w.op->part == role::gradient ? !what(m).op->takes_gradients : what(m).op->part != role::product) continue;
          if (!(info(in).extents == info({n, 0}).extents) || info(in).type != info({n, 0}).type) continue;
          bool ready = true;  // all else that it needs is there when the product runs
          for (const value& other : w.inputs)
            if (!(other == in) && computes_later(other, position[m], position)) ready = false;
          if (!ready) continue;
          epilogue_of_[m] = n;
          fused_into_[n] = m;
          break;
        }
      } else if (w.op->part == role::descent) {
        const std::uint32_t m = w.inputs[1].node;
        if (!what(m).op->adds_to_variables || !is_private(w.inputs[1], uses)) continue;
        if (!(on_[m] == on_[n]) || reads_variable(m)) continue;
        epilogue_of_[m] = n;
        fused_into_[n] = m;
      }
    }
  }

  /// An expression can follow a product; on a CPU its gradient can follow what computes its upstream, in that one's
  /// place.
  bool can_follow(std::uint32_t n) const {
    const role part = what(n).op->part;
    return part == role::expression || (part == role::gradient && !on_[n].gpu && works_in_place(n));
  }
  /// Computed, and for one reader alone.
  bool is_private(value v, const sequence<std::uint32_t>& uses) const {
    return !order_.is_fed(v.node) && uses[slot_number(v)] == 1;
  }
  bool computes_later(value v, std::uint32_t than, const sequence<std::uint32_t>& position) const {
    const std::uint32_t n = order_.computed_by(v);
    return !order_.is_fed(n) && computes(n) && position[n] > than;
  }
  bool reads_variable(std::uint32_t n) const {
    for (const value& v : what(n).inputs)
      if (slots_[slots_[slot_number(v)].root].place == place_kind::variable) return true;
    return false;
  }

  // ---- in which order, on what ----

  void list_instructions() {
    sequence<std::uint32_t> kept(order_.nodes(), none);  // of writes: the slot of a fetched result that will not last
    for (const value& f : request_.fetches) {
      const std::uint32_t writer = order_.writer_behind(f);
      if (writer != none && kept[writer] == none && order_.is_overwritten(writer))
        kept[writer] = new_slot(slots_[slot_number(f)].root);
    }
    for (std::size_t i = 0; i < snapshot_slots_.size(); ++i) {
      const std::uint32_t variable = order_.snapshots()[i];
      list_copy(variable, on_[variable], slots_[first_slot_[variable]].root, snapshot_slots_[i]);
    }
    for (const std::uint32_t n : order_.order()) {
      if (!computes(n)) continue;
      const std::uint32_t epilogue = epilogue_of_[n];
      if (epilogue != none && what(epilogue).op->part == role::descent) continue;  // runs with the update
      if (fused_into_[n] != none && what(n).op->part != role::descent) continue;   // ran with the product
      instruction i;
      i.node = epilogue != none ? epilogue : n;
      i.product = epilogue != none ? n : fused_into_[n];
      i.on = on_[i.node];
      add_accesses(i, i.node, i.product);
      if (i.product != none) add_accesses(i, i.product, none);
      bring_operands(i);
      const std::uint32_t written = i.node;
      instructions_.push_back(static_cast<instruction&&>(i));
      if (kept[written] != none)
        list_copy(written, on_[written], slots_[slot_number({written, 0})].root, kept[written]);
    }
    for (std::size_t f = 0; f < request_.fetches.size(); ++f) {
      const value v = request_.fetches[f];
      const std::uint32_t writer = order_.writer_behind(v);
      const std::uint32_t s = writer != none && kept[writer] != none ? kept[writer] : read_slot(schedule::fetched, v);
      fetch_slots_.push_back(bring_to_host(s, v.node));
    }
  }

  /// A slot for a value like that of another, in the same memory.
  std::uint32_t new_slot(std::uint32_t like) {
    slot s;
    s.info = slots_[like].info;
    s.root = static_cast<std::uint32_t>(slots_.size());
    s.space = slots_[like].space;
    slots_.push_back(s);
    return s.root;
  }

  /// Before instruction `at`; else as the last one.
  void list_copy(std::uint32_t node, device_number on, std::uint32_t from, std::uint32_t to, std::size_t at = none) {
    instruction copy;
    copy.node = node;
    copy.copies = true;
    copy.on = on;
    copy.reads = {from};
    copy.writes = {to};
    instructions_.insert(at < instructions_.size() ? at : instructions_.size(), static_cast<instruction&&>(copy));
  }

  /// An elementwise result that is there to be assigned is computed in the variable's place, unless what is there is
  /// needed in between. Not one of integers: a division by zero would leave the variable half written.
  void compute_in_variables() {
    for (auto a = static_cast<std::uint32_t>(instructions_.size()); a-- > 0;) {
      const instruction& assignment = instructions_[a];
      if (assignment.copies || what(assignment.node).op->part != role::assignment) continue;
      const std::uint32_t from = assignment.reads[0], variable = assignment.writes[0];
      const std::uint32_t by = sole_source_of(a);
      if (by == none || !is_floating(slots_[from].info.type)) continue;
      if (!(slots_[from].info.extents == slots_[variable].info.extents)) continue;
      instruction& source = instructions_[by];
      if (contains(source.reads, variable) && (source.product != none || !works_in_place(source.node))) continue;
      source.writes[0] = variable;
      source.assigned = what(assignment.node).inputs[0].node;
      slots_[from].root = variable;
      instructions_.erase(a);
    }
  }

  /// The expression that computes the value of an assignment for it alone; none where there is no such, or where the
  /// variable is read or written after it.
  std::uint32_t sole_source_of(std::uint32_t a) const {
    const std::uint32_t from = instructions_[a].reads[0], variable = instructions_[a].writes[0];
    std::uint32_t by = none;
    for (std::uint32_t i = 0; i < instructions_.size(); ++i) {
      const instruction& in = instructions_[i];
      if (i == a) continue;
      if (contains(in.reads, from)) return none;
      if (by != none && i < a && (contains(in.reads, variable) || contains(in.writes, variable))) return none;
      if (contains(in.writes, from)) by = i;
    }
    if (by == none || contains(fetch_slots_, from)) return none;
    const instruction& source = instructions_[by];
    const bool computed = !source.copies && what(source.node).op->part == role::expression;
    return computed && source.on == instructions_[a].on ? by : none;
  }

  static bool contains(const sequence<std::uint32_t>& list, std::uint32_t x) {
    for (const std::uint32_t y : list)
      if (x == y) return true;
    return false;
  }

  bool works_in_place(std::uint32_t n) const {
    return what(n).op->in_place && what(n).op->in_place(what(n), operands_of(n).in.data(), info({n, 0}));
  }

  /// Gives each kernel the lane of its device on which it can start first, by what kernels are expected to take: one
  /// unit for an element read or written, and for 16 multiply-adds; 2,000 units to hear from another lane.
  void assign_lanes() {
    constexpr double hand_over = 2000;
    sequence<double> lane_free(lanes_.size(), 0), available(slots_.size(), 0);
    sequence<std::uint32_t> made_on(slots_.size(), none);
    for (std::uint32_t i = 0; i < instructions_.size(); ++i) {
      instruction& in = instructions_[i];
      const std::uint32_t first = first_lane_of(in.on),
                          count = in.on.gpu ? 1 : static_cast<std::uint32_t>(lanes_per_device_);
      double cost = 0, best = 0;
      for (const std::uint32_t s : in.reads) cost += static_cast<double>(slots_[s].info.extents.elements());
      for (const std::uint32_t s : in.writes) cost += static_cast<double>(slots_[s].info.extents.elements());
      cost += multiply_adds(in.product != none ? in.product : in.node) / 16;
      in.lane = none;
      for (auto l = first; l < first + count; ++l) {
        double start = lane_free[l];
        for (const std::uint32_t s : in.reads) {
          const double ready = available[s] + (made_on[s] != none && made_on[s] != l ? hand_over : 0);
          start = ready > start ? ready : start;
        }
        if (in.lane == none || start < best) in.lane = l, best = start;
      }
      lane_free[in.lane] = best + cost;
      for (const std::uint32_t s : in.writes) available[s] = best + cost, made_on[s] = in.lane;
      lanes_[in.lane].instructions.push_back(i);
    }
  }

  double multiply_adds(std::uint32_t n) const {
    if (what(n).op->part != role::product) return 0;
    const shape &a = info(what(n).inputs[0]).extents, &c = info({n, 0}).extents;
    return static_cast<double>(c.elements()) * static_cast<double>(a.elements()) / static_cast<double>(c[0] ? c[0] : 1);
  }

  void add_accesses(instruction& i, std::uint32_t n, std::uint32_t taken_in) {
    const invocation& w = what(n);
    for (std::size_t k = 0; k < w.inputs.size(); ++k)
      if (schedule::reads(w, k) && w.inputs[k].node != taken_in) i.reads.push_back(read_slot(n, w.inputs[k]));
    if (n != i.node) return;
    for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(w.op->writes); ++k)
      i.writes.push_back(slots_[slot_number(w.inputs[k])].root);
    if (w.op->writes) {
      written_.push_back(w.inputs[0].node);
      return;
    }
    for (std::uint32_t o = 0; o < w.outputs.size(); ++o) i.writes.push_back(first_slot_[n] + o);
  }

  // ---- where values lie ----

  void place_buffers() {
    for (const std::uint32_t s : fetch_slots_) slots_[s].last = none;
    for (std::uint32_t i = 0; i < instructions_.size(); ++i) {
      const instruction& in = instructions_[i];
      for (const std::uint32_t s : in.writes) {
        slots_[s].first = slots_[s].first == none ? i : slots_[s].first;
        slots_[s].lane = in.lane;
        if (slots_[s].place == place_kind::unused) slots_[s].place = place_kind::arena;
        if (slots_[s].last != none && slots_[s].last < i) slots_[s].last = i;
      }
      for (const std::uint32_t s : in.reads) {
        if (slots_[s].last != none && slots_[s].last < i) slots_[s].last = i;
        if (slots_[s].lane != in.lane) slots_[s].crosses_lanes = true;
      }
    }
    // The caller's memory takes a fetched value directly, unless it is fetched twice or something else aliases it.
    for (std::size_t f = 0; f < fetch_slots_.size(); ++f) {
      slot& s = slots_[fetch_slots_[f]];
      bool once = s.place == place_kind::arena && snapshot_of(fetch_slots_[f]) == none && !s.copied &&
                  request_.fetches[f].node < order_.nodes() && fetch_slots_[f] == slot_number(request_.fetches[f]);
      for (std::size_t other = 0; other < fetch_slots_.size(); ++other)
        if (other != f && fetch_slots_[other] == fetch_slots_[f]) once = false;
      if (once) s.place = place_kind::caller;
    }
    reserve_memory();
    sequence<sequence<std::uint32_t>> ends(instructions_.size());
    for (std::uint32_t s = 0; s < slots_.size(); ++s)
      if (slots_[s].place == place_kind::arena && slots_[s].last != none) ends[slots_[s].last].push_back(s);
    for (std::uint32_t i = 0; i < instructions_.size(); ++i) {
      for (std::size_t k = 0; k < instructions_[i].writes.size(); ++k) {
        slot& s = slots_[instructions_[i].writes[k]];
        if (s.place != place_kind::arena || s.first != i || s.reserved) continue;
        if (k == 0 && reuse_input(i, s)) continue;
        s.offset = memory_of(s).allocate(s.info.bytes());
      }
      for (const std::uint32_t e : ends[i]) {
        const slot& s = slots_[e];
        if (s.crosses_lanes || s.taken_over) continue;
        memory_of(s).release(s.offset, s.info.bytes());
      }
    }
    buffers_.resize(slots_.size());
    for (std::uint32_t n = 0; n < order_.nodes(); ++n) {
      const std::uint32_t s = first_slot_[n];
      if (what(n).op == &variable_operation && !order_.is_fed(n)) buffers_[s] = variables_[n].address();
      if (what(n).op == &constant_operation) buffers_[s] = graph_[n].init.data.data();
    }
    take_memory();
  }

  virtual void take_memory() {
    for (lane& l : lanes_) l.arena = storage(l.memory.total(), devices_.memory);
    for (std::uint32_t s = 0; s < slots_.size(); ++s)
      if (slots_[s].place == place_kind::arena) buffers_[s] = lanes_[slots_[s].lane].arena.data() + slots_[s].offset;
  }

  std::uint32_t snapshot_of(std::uint32_t s) const {
    for (std::size_t i = 0; i < snapshot_slots_.size(); ++i)
      if (snapshot_slots_[i] == s) return static_cast<std::uint32_t>(i);
    return none;
  }

  /// Lets an elementwise result take over the buffer of an operand that nobody needs any more.
  bool reuse_input(std::uint32_t i, slot& to) {
    const instruction& in = instructions_[i];
    if (in.copies || in.product != none || !works_in_place(in.node)) return false;
    for (const std::uint32_t s : in.reads) {
      slot& from = slots_[s];
      if (from.place != place_kind::arena || from.last != i || from.crosses_lanes || from.lane != in.lane ||
          from.taken_over || from.space != to.space || from.copied || !(from.info.extents == to.info.extents) ||
          from.info.type != to.info.type)
        continue;
      to.offset = from.offset;
      from.taken_over = true;
      return true;
    }
    return false;
  }

  // ---- kernels ----

  class copy_kernel final : public kernel {
   public:
    copy_kernel(std::uint32_t from, std::uint32_t to, std::size_t bytes) : from_(from), to_(to), bytes_(bytes) {}
    void run(const frame& f) override { __builtin_memcpy(f.buffers[to_], f.buffers[from_], bytes_); }
    std::string describe() const override { return concat({"snapshot of a variable, ", bytes_, " bytes"}); }

   private:
    std::uint32_t from_, to_;
    std::size_t bytes_;
  };

  struct operands {
    sequence<value_info> in, out;
    sequence<std::uint32_t> in_slots, out_slots;
  };

  operands operands_of(std::uint32_t n, const instruction* reader = nullptr) const {
    operands o;
    for (const value& v : what(n).inputs) {
      o.in.push_back(info(v));
      std::uint32_t s = read_slot(n, v);
      if (reader)
        for (std::size_t r = 0; r < reader->stands_for.size(); ++r)
          if (reader->stands_for[r] == s) s = reader->reads[r];
      o.in_slots.push_back(s);
    }
    for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(what(n).op->writes); ++k)
      o.in_slots[k] = slots_[slot_number(what(n).inputs[k])].root;
    for (std::uint32_t k = 0; k < what(n).outputs.size(); ++k) {
      o.out.push_back(info({n, k}));
      o.out_slots.push_back(slots_[first_slot_[n] + k].root);
    }
    return o;
  }

  prepare_context context_of(std::uint32_t n, const operands& o) const {
    return {what(n), o.in.data(), o.out.data(), o.in_slots.data(), o.out_slots.data(), nullptr, layout_of(n)};
  }

  kernel* prepare(std::uint32_t n, const operands& o) const {
    if (on_[n].gpu) return prepare_elsewhere(n, context_of(n, o), nullptr);
    if (!what(n).op->prepare_cpu)
      throw error(error_code::unimplemented, graph_[n].name, {what(n).op->name, " has no kernel for the CPU"});
    return what(n).op->prepare_cpu(context_of(n, o));
  }

  virtual kernel* prepare_copy(const instruction& in) const {
    return new copy_kernel(in.reads[0], in.writes[0], slots_[in.writes[0]].info.bytes());
  }

  virtual void prepare_kernels() {
    for (instruction& in : instructions_) {
      if (in.copies) {
        in.code = prepare_copy(in);
      } else if (in.product == none) {
        in.code = prepare(in.node, operands_of(in.node, &in));
      } else {
        in.code = prepare_with_product(in);
      }
    }
  }

  kernel* prepare_with_product(const instruction& in) const {
    const operands product = operands_of(in.product, &in);
    operands own = operands_of(in.node, &in);
    const prepare_context following = context_of(in.node, own);
    product_fusion fusion;
    if (what(in.node).op->part == role::descent) {
      fusion = {own.in_slots[0], -detail::literal_value<double>(what(in.node).literals[0]), true};
    } else {
      for (std::size_t k = 0; k < own.in_slots.size(); ++k)
        if (what(in.node).inputs[k].node == in.product) own.in_slots[k] = own.out_slots[0];
      fusion = {own.out_slots[0], 1, false, prepare(in.node, own), &following};
    }
    if (in.on.gpu) return prepare_elsewhere(in.product, context_of(in.product, product), &fusion);
    return what(in.product).op->prepare_fused(context_of(in.product, product), fusion);
  }

  // ---- several lanes ----

  virtual void find_waits() {
    if (lanes_.size() == 1) return;
    for (std::uint32_t i = 0; i < instructions_.size(); ++i)
      for (std::uint32_t j = 0; j < i; ++j)
        if (instructions_[i].lane != instructions_[j].lane && conflict(instructions_[j], instructions_[i]))
          instructions_[i].waits.push_back(j);
  }
  static bool overlap(const sequence<std::uint32_t>& a, const sequence<std::uint32_t>& b) {
    for (const std::uint32_t x : a)
      if (contains(b, x)) return true;
    return false;
  }
  static bool conflict(const instruction& first, const instruction& second) {
    return overlap(first.writes, second.reads) || overlap(first.writes, second.writes) ||
           overlap(first.reads, second.writes);
  }

  /// "cpu:0" or, where a device has several lanes, "cpu:0.1".
  std::string lane_name(const instruction& i) const {
    std::string name = concat({(i.on.gpu ? "gpu:" : "cpu:"), i.on.ordinal});
    if (lanes_per_device_ > 1) append(name, {".", i.lane % lanes_per_device_});
    return name;
  }

  /// "matmul" or, of two that run as one, "matmul and map".
  std::string name_of(const instruction& i) const {
    if (i.product == none) return graph_[i.node].name;
    return concat({graph_[i.product].name, " and ", graph_[i.node].name});
  }

  static std::uint64_t nanoseconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
  }

  void run(instruction& next, const frame& f) {
    if (measured_) next.began = nanoseconds();
    try {
      next.code->run(f);
    } catch (const error& e) {
      fail();
      throw error(e.code(), name_of(next), e.sentence());
    } catch (...) {
      fail();
      throw;
    }
    if (measured_) next.ended = nanoseconds();
  }

  bool await(std::uint32_t i) {
    for (unsigned spins = 0; __atomic_load_n(&instructions_[i].done, __ATOMIC_ACQUIRE) != stamp_; ++spins) {
      if (__atomic_load_n(&failed_, __ATOMIC_ACQUIRE)) return false;
      if (spins < 1000)
        detail::cpu_relax();
      else
        sched_yield();
    }
    return true;
  }
  void fail() { __atomic_store_n(&failed_, true, __ATOMIC_RELEASE); }

  void check_initialized(value v) {
    const std::uint32_t variable = order_.variable_behind(v);
    if (variable != none && !variables_[variable].initialized)
      throw error(error_code::failed_precondition, graph_[variable].name,
                  "the variable is read but has no value: give it an initializer, or assign it first");
  }

  const graph& graph_;
  const schedule& order_;
  const step_request& request_;
  const extent_bindings& extents_;
  sequence<variable_state>& variables_;
  sequence<std::uint32_t> first_slot_, snapshot_slots_, fetch_slots_, written_, fused_into_, epilogue_of_;
  sequence<slot> slots_;
  sequence<instruction> instructions_;
  session_devices devices_;
  sequence<device_number> on_;  // where each node runs
  std::size_t lanes_per_device_ = 1;
  sequence<lane> lanes_;
  sequence<std::byte*> buffers_;
  std::uint64_t stamp_ = 0;
  bool failed_ = false, checked_ = false, measured_ = false;
};

}  // namespace weft

WEFT_COLD_END

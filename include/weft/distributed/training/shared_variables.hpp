// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/parameter/cluster_state.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/training/gradient_processing.hpp>
#include <weft/graph/variables.hpp>
#include <weft/session/session.hpp>
#include <weft/train/schedules.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/shared_memory.hpp>

namespace weft::detail {

/// A variable that the workers share, and its update.
struct shared_variable {
  std::uint32_t node = graph_node::no_node;    // the variable's node
  std::uint32_t update = graph_node::no_node;  // the node that writes it; no_node for averaged and frozen variables
  std::size_t source = ~std::size_t{0};        // for a moving average: the variable that it follows
  bool is_scaled = false;                      // `gradient` belongs to a scaled loss
  value gradient{};                            // the whole gradient
  sequence<value> lists{};                     // for a gradient of rows: rows and their indices, alternating
  std::uint32_t summed = graph_node::no_node;  // the update by a gradient that an all-reduce has summed, if different
  value touched_rows{};                        // for a gradient of rows: the node that is fed the row indices
  gradient_clipping clipping{};                // of the mean of `gradient`, on parameter servers
  std::size_t rows = 0, row_elements = 0;
  std::string name{};
  element_type type = element_type::float32;
  std::size_t elements = 0;

  bool is_double() const { return type == element_type::float64; }
  bool has_rows() const { return !lists.empty(); }
  std::uint32_t update_of_mean() const { return summed != graph_node::no_node ? summed : update; }
  std::size_t bytes() const { return elements * size_of(type); }
};

/// A worker's session, and the roles of its graph's variables in a cluster. `all` contains, in this order: trained
/// variables; further gradients that workers exchange, because updates use more than one gradient per variable;
/// averaged variables; frozen variables, which nothing updates; with parameter servers, moving averages of trained
/// variables, which the servers update after the variables. Averaged variables have no update: each worker's steps
/// assign them, and the change that a step makes takes the place of a gradient.
///
/// If workers run the updates (`processes_mean`), they exchange the gradients that reverse mode has computed. Each
/// worker applies the graph's computations between gradients and updates (gradient_processing.hpp) to the mean of these
/// gradients, and so computes the assignments that depend on them, effects().
class shared_variables {
 public:
  /// Throws weft::error for a graph that trains nothing, and for variables and updates that a cluster cannot share.
  shared_variables(const graph& g, const session_options& options, bool processes_mean);

  const graph& of() const { return graph_; }
  session& local() { return local_; }

  std::size_t size() const { return all_.size(); }
  const shared_variable& operator[](std::size_t i) const { return all_[i]; }
  std::size_t trained() const { return trained_; }          // number of trained variables
  std::size_t first_averaged() const { return averaged_; }  // index of the first averaged variable
  std::size_t first_frozen() const { return frozen_; }      // index of the first frozen variable
  std::size_t first_moving() const { return moving_; }      // index of the first moving average
  bool is_averaged(std::size_t i) const { return i >= averaged_ && i < frozen_; }
  /// Returns true for variables that an optimizer's rule updates. They can have slots.
  bool has_rule(std::size_t i) const { return i < trained_ || i >= moving_; }

  /// Assignments that depend on gradients, such as the assignments of a loss scale, and moving averages of updated
  /// variables. They run with the updates or after them. With parameter servers: only the averages.
  const sequence<std::uint32_t>& effects() const { return effects_; }
  /// Returns true if node `n` is a moving average of an update's result.
  bool averages_update(std::uint32_t n) const {
    if (!graph_[n].def.op->update) return false;
    const update_view what(graph_[n].def);
    return kind_of(graph_[what.variable().node].def) == variable_kind::slot &&
           graph_[what.gradient().node].def.op->update;
  }
  /// Returns the node to run for an effect: its version without gradients of rows.
  std::uint32_t made_for(std::uint32_t effect) const { return graph_.whole_of({effect, 0}).node; }
  /// Returns true if the graph itself skips updates depending on the gradients, as a loss scale does.
  bool judges_gradients() const { return judges_gradients_; }
  /// For parameter servers that apply the mean of several workers' gradients: workers send unclipped gradients, and the
  /// servers clip the mean. Throws unimplemented if a gradient is changed in another way that does not commute with the
  /// mean.
  void clip_means();

  // ---- loss scales, with parameter servers (served_variables.hpp) ----

  /// Finds the loss scale of the updates. `by_servers`: the servers store it, as the last variable if it is dynamic;
  /// otherwise steps do. Throws unimplemented if it does not scale all gradients.
  void find_loss_scale(bool by_servers);
  const noted_loss_scale* scales_losses() const { return loss_scale_; }
  /// The index of the loss scale among the variables on servers; size() if there is none.
  std::size_t loss_scale() const { return scale_variable_; }
  /// The scale of the next step.
  double scale_now();

  /// The value of an averaged variable at the beginning of a step.
  mutable_bytes base_of(std::size_t i) { return {bases_[i - averaged_].data(), all_[i].bytes()}; }
  void read_bases();
  /// Writes the changes that this worker's step has made to averaged variables to the memory of their gradients.
  void note_additions(const std::vector<mutable_bytes>& gradients);
  /// Adds a mean of such changes to the variable.
  void add_to_averaged(std::size_t i, const_bytes mean);
  /// Undoes this worker's assignments to averaged variables.
  void reset_averaged();

  /// Returns a computed hyperparameter of an update in the form that parameter servers evaluate. Throws unimplemented
  /// if it is not a schedule.
  scheduled_parameter schedule_of(std::uint32_t update, std::size_t hyperparameter);

  /// The number of updates that all workers have made together, as of this worker's last step. set_counters() writes it
  /// to the counters.
  std::int64_t global_step = 0;
  void set_counters();
  /// Sets global_step from a counter that effects() write, if there is one: it does not count updates that the graph
  /// skips.
  void adopt_counters();
  /// Returns a checkpoint's state with the step of the graph's own counters, if any: a single process may have saved
  /// the checkpoint for a cluster, or the reverse.
  cluster_state adopt_step(cluster_state at);

  /// Keeps the memory of variables alive as long as this object.
  void keep(shared_segment memory) { memory_.push_back(std::move(memory)); }

 private:
  /// A counter of updates, and its initial value.
  struct update_counter {
    std::uint32_t node;
    std::int64_t first;
  };

  void find_moving_averages();
  value gradient_of_update(const shared_variable&) const;
  const noted_clip* find_clip(value clipped) const;
  void take_rows_before(const noted_clip& clip, shared_variable&) const;
  std::uint32_t group_of(const noted_clip& clip, std::size_t i, sequence<value>& norms) const;
  void find_trained(bool processes_mean);
  void split_gradients();
  void choose_gradient(shared_variable&, sequence<value>& needed);
  void check_hyperparameters(shared_variable&, sequence<value>& needed);
  void find_effects(sequence<value>& needed);
  void find_averaged_and_counters();
  void find_frozen();
  shared_variable& share(std::uint32_t variable);
  std::uint32_t update_of_summed(value variable) const;
  std::uint32_t counter_behind(value of) const;
  bool counts_this_step(value of) const;
  std::int64_t first_of_counter(std::uint32_t n);
  void add(std::size_t i, mutable_bytes to, const_bytes what, int sign) const;

  const graph& graph_;
  std::vector<shared_segment> memory_;  // outlives the session, whose variables use it
  session local_;
  std::vector<shared_variable> all_;
  std::size_t trained_ = 0, averaged_ = 0, frozen_ = 0, moving_ = 0;
  gradient_processing processing_;
  sequence<std::uint32_t> effects_;
  bool judges_gradients_ = false;
  const noted_loss_scale* loss_scale_ = nullptr;
  std::size_t scale_variable_ = 0;
  std::vector<update_counter> counters_;
  std::vector<storage> bases_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_COLD_BEGIN

WEFT_DISTRIBUTED_DECL shared_variables::shared_variables(const graph& g, const session_options& options,
                                                         bool processes_mean)
    : graph_(g.self()), local_(g, options), processing_(graph_) {
  find_trained(processes_mean);
  if (all_.empty())
    throw error(error_code::failed_precondition, "replicated_session",
                "the graph trains no variables; call minimize(loss) before you create the session");
  trained_ = all_.size();
  if (processes_mean) split_gradients();
  averaged_ = all_.size();
  find_averaged_and_counters();
  frozen_ = all_.size();
  find_frozen();
  moving_ = all_.size();
  if (!processes_mean) find_moving_averages();
  scale_variable_ = all_.size();
  for (std::size_t i = averaged_; i < frozen_; ++i) bases_.emplace_back(all_[i].bytes());
  read_bases();
}

WEFT_DISTRIBUTED_DECL void shared_variables::read_bases() {
  for (std::size_t i = averaged_; i < frozen_; ++i) local_.read_variable(all_[i].node, base_of(i).data());
}

WEFT_DISTRIBUTED_DECL void shared_variables::find_trained(bool processes_mean) {
  for (std::uint32_t n = 0; n < graph_.size(); ++n) {
    if (!is_training_update(graph_, n)) continue;
    const update_view what(graph_[n].def);
    if (what.is_summed()) continue;
    const std::uint32_t variable = what.variable().node;
    if (kind_of(graph_[variable].def) == variable_kind::slot) continue;
    for (const shared_variable& other : all_)
      if (other.node == variable)
        throw error(error_code::invalid_argument, graph_[variable].name,
                    "two updates train this variable; on a cluster a variable can have only one");
    shared_variable& v = share(variable);
    v.update = n;
    v.summed = update_of_summed(what.variable());
    if (what.row_lists() == 0) {
      const bool differs = processes_mean && v.summed != graph_node::no_node;
      v.gradient = update_view(graph_[differs ? v.summed : n].def).gradient();
      continue;
    }
    const update_view of_summed(graph_[v.summed].def);
    v.gradient = of_summed.gradient();
    v.touched_rows = of_summed.row_indices(0);
    for (std::size_t k = 0; k < what.row_lists(); ++k) {
      v.lists.push_back(what.rows(k));
      v.lists.push_back(what.row_indices(k));
    }
    const axis_rows rows(local_.variable_info(variable).extents, 0);
    v.rows = rows.extent;
    v.row_elements = rows.extent > 0 ? rows.inner : 0;
  }
}

WEFT_DISTRIBUTED_DECL void shared_variables::find_averaged_and_counters() {
  for (std::uint32_t n = 0; n < graph_.size(); ++n) {
    if (!is_operation<variable_op>(graph_[n].def.op)) continue;
    const variable_kind kind = kind_of(graph_[n].def);
    const value_info info = local_.variable_info(n);
    if (kind == variable_kind::averaged) {
      if (info.type != dtype::float64 && info.type != dtype::float32)
        throw error(error_code::unimplemented, graph_[n].name,
                    {"a variable that is averaged over workers must be float or double, not ", name(info.type)});
      share(n);
    } else if (kind == variable_kind::counter) {
      if (info.extents.elements() != 1 || (info.type != dtype::int64 && info.type != dtype::int32))
        throw error(error_code::unimplemented, graph_[n].name,
                    {"a counter must be one std::int64_t or std::int32_t; this one has ", info.extents.elements(),
                     " elements of ", name(info.type)});
      counters_.push_back({n, first_of_counter(n)});
    }
  }
}

WEFT_DISTRIBUTED_DECL void shared_variables::find_frozen() {
  for (std::uint32_t n = 0; n < graph_.size(); ++n) {
    if (!is_operation<variable_op>(graph_[n].def.op) || kind_of(graph_[n].def) != variable_kind::frozen) continue;
    const dtype type = local_.variable_info(n).type;
    if (type == dtype::float64 || type == dtype::float32) share(n);  // others are local to each worker, as if trained
  }
}

WEFT_DISTRIBUTED_DECL shared_variable& shared_variables::share(std::uint32_t variable) {
  const value_info info = local_.variable_info(variable);
  shared_variable& v = all_.emplace_back();
  v.node = variable;
  v.name = graph_[variable].name;
  v.type = info.type == dtype::float64 ? element_type::float64 : element_type::float32;
  v.elements = info.extents.elements();
  return v;
}

/// Returns the update of a variable by a gradient that an all-reduce has summed, or no_node if there is no separate
/// one.
WEFT_DISTRIBUTED_DECL std::uint32_t shared_variables::update_of_summed(value variable) const {
  for (std::uint32_t n = 0; n < graph_.size(); ++n)
    if (graph_[n].def.op->update)
      if (const update_view u(graph_[n].def); u.is_summed() && u.variable() == variable) return n;
  return graph_node::no_node;
}

/// Finds moving averages of updated variables (train/moving_average.hpp), which parameter servers store.
WEFT_DISTRIBUTED_DECL void shared_variables::find_moving_averages() {
  for (std::uint32_t n = 0; n < graph_.size(); ++n) {
    if (!averages_update(n)) continue;
    const update_view what(graph_[n].def);
    const std::uint32_t of = graph_[what.gradient().node].def.inputs[0].node;
    std::size_t source = 0;
    while (source < trained_ && all_[source].node != of) ++source;
    if (source == trained_)
      throw error(error_code::unimplemented, graph_[what.variable().node].name,
                  {"averages ", graph_[of].name, ", which parameter servers do not train; use collective"});
    effects_.push_back(n);
    shared_variable& v = share(what.variable().node);
    v.update = n;
    v.source = source;
  }
}

WEFT_DISTRIBUTED_DECL void shared_variables::split_gradients() {
  sequence<value> needed;
  for (std::size_t i = 0; i < trained_; ++i) choose_gradient(all_[i], needed);
  for (std::size_t i = 0; i < trained_; ++i) check_hyperparameters(all_[i], needed);
  find_effects(needed);
  for (const value& each : needed) {
    bool is_new = true;
    for (const shared_variable& other : all_) is_new &= other.gradient != each;
    if (!is_new) continue;
    const std::uint32_t variable = processing_.variable_of(each);
    const dtype type = graph_.info(each).type;
    if (type != dtype::float64 && type != dtype::float32)
      throw error(error_code::unimplemented, graph_[each.node].name,
                  {"workers can exchange only gradients of float or double, not of ", weft::name(type)});
    share(variable).gradient = each;
  }
}

/// Selects the gradient of a variable that workers exchange: the one from which its update is computed.
WEFT_DISTRIBUTED_DECL void shared_variables::choose_gradient(shared_variable& v, sequence<value>& needed) {
  gradient_processing::sources from;
  processing_.add_sources(v.gradient, from);
  if (from.gradients.empty()) return processing_.treat_as_gradient(v.gradient);  // computed by the program itself
  if (from.own != graph_node::no_node)
    throw error(error_code::unimplemented, v.name,
                {"the change of its gradient depends on ", graph_[from.own].name,
                 ", which differs between workers, but workers change the mean of their gradients; use only gradients, "
                 "variables and constants, or change the loss instead"});
  value chosen = from.gradients[0];
  bool fits = false;
  for (const value& each : from.gradients) {
    if (graph_.info(each) != graph_.info({v.node, 0}) || (fits && processing_.variable_of(each) != v.node)) continue;
    chosen = each;
    fits = true;
    if (processing_.variable_of(each) == v.node) break;
  }
  if (!fits)
    throw error(error_code::unimplemented, v.name,
                "its update depends on gradients of other variables with other extents; on a cluster it must depend on "
                "its own gradient");
  v.gradient = chosen;
  needed.append(from.gradients.data(), from.gradients.size());
}

/// Throws unimplemented for a hyperparameter that depends on a worker's own data: the workers' variables would diverge.
WEFT_DISTRIBUTED_DECL void shared_variables::check_hyperparameters(shared_variable& v, sequence<value>& needed) {
  const update_view what(graph_[v.update_of_mean()].def);
  for (std::size_t k = 0; k < what.layout().hyperparameters; ++k) {
    if (!what.is_computed(k)) continue;
    const bool is_norm = k >= what.layout().hyperparameters - what.layout().norms;
    gradient_processing::sources from;
    processing_.add_sources(what.hyperparameter(k), from);
    if (from.own != graph_node::no_node)
      throw error(error_code::unimplemented, v.name,
                  {"a hyperparameter of ", what.layout().name, " is computed from ", graph_[from.own].name,
                   ", which differs between workers; on a cluster, use only gradients, variables and constants"});
    judges_gradients_ |= !is_norm && !from.gradients.empty();
    needed.append(from.gradients.data(), from.gradients.size());
  }
}

WEFT_DISTRIBUTED_DECL void shared_variables::find_effects(sequence<value>& needed) {
  for (std::uint32_t n = 0; n < graph_.size(); ++n) {
    const node_def& def = graph_[n].def;
    if (averages_update(n)) effects_.push_back(n);
    if (!def.op->writes || def.op->update || !is_operation<variable_op>(graph_[def.inputs[0].node].def.op)) continue;
    const variable_kind kind = kind_of(graph_[def.inputs[0].node].def);
    if (kind == variable_kind::trained || kind == variable_kind::averaged) continue;
    bool is_twin = false;
    for (const auto& [by_rows, whole] : graph_.whole_twins()) is_twin |= whole.node == n;
    if (is_twin) continue;
    gradient_processing::sources from;
    for (const value& in : graph_[made_for(n)].def.inputs) processing_.add_sources(in, from);
    if (from.gradients.empty() || from.own != graph_node::no_node) continue;
    effects_.push_back(n);
    needed.append(from.gradients.data(), from.gradients.size());
  }
}

WEFT_DISTRIBUTED_DECL scheduled_parameter shared_variables::schedule_of(std::uint32_t update,
                                                                        std::size_t hyperparameter) {
  const node_def& def = graph_[update].def;
  const update_view what(def);
  const value of = def.inputs[what.hyperparameter_input(hyperparameter)];
  const node_def& found = graph_[of.node].def;
  if (is_operation<schedule_op>(found.op))
    if (const std::uint32_t counter = counter_behind(found.inputs[0]); counter != graph_node::no_node) {
      // Averages follow the update, so their schedules go by the count after it.
      const bool counts = averages_update(update) || counts_this_step(found.inputs[0]);
      scheduled_parameter s{hyperparameter, first_of_counter(counter) + counts, {}};
      for (const std::uint64_t bits : found.literals) s.numbers.push_back(literal_value<double>(bits));
      return s;
    }
  throw error(
      error_code::unimplemented, graph_[what.variable().node].name,
      {"a hyperparameter of ", what.layout().name,
       " is a value of the graph; give parameter servers a number or a schedule of global_step(g), or use collective"});
}

/// Returns the counter that a value is read from, before or after the step's assignment, through integer casts; no_node
/// if there is none.
WEFT_DISTRIBUTED_DECL std::uint32_t shared_variables::counter_behind(value of) const {
  const node_def& def = graph_[of.node].def;
  if (is_operation<variable_op>(def.op)) return kind_of(def) == variable_kind::counter ? of.node : graph_node::no_node;
  const bool is_cast =
      weft::detail::applies_only(def, skeleton::formula_id::cast) && graph_.info(of).type != dtype::boolean;
  return is_cast || (def.op->writes && !def.op->update) ? counter_behind(def.inputs[0]) : graph_node::no_node;
}
/// Returns true if the counter value already includes this step.
WEFT_DISTRIBUTED_DECL bool shared_variables::counts_this_step(value of) const {
  const node_def& def = graph_[of.node].def;
  if (is_operation<variable_op>(def.op)) return false;
  return def.op->writes || counts_this_step(def.inputs[0]);
}

WEFT_DISTRIBUTED_DECL std::int64_t shared_variables::first_of_counter(std::uint32_t n) {
  std::int64_t first = 0;
  local_.read_variable(n, &first);
  return local_.variable_info(n).type == dtype::int64 ? first : static_cast<std::int32_t>(first);
}

WEFT_DISTRIBUTED_DECL cluster_state shared_variables::adopt_step(cluster_state at) {
  for (std::size_t k = 0; k < counters_.size(); ++k) {
    const std::int64_t step = first_of_counter(counters_[k].node) - counters_[k].first;
    if (k == 0 && step != at.global_step) {
      if (at.last_step == at.global_step - 1) at.last_step = step - 1;
      at.global_step = step;
    }
    if (step != at.global_step || step < 0)
      throw error(error_code::invalid_argument, graph_[counters_[k].node].name,
                  {"in the checkpoint this counter is at ", step, " updates and others are at ", at.global_step,
                   ", but on a cluster all counters must be equal; make this one variable_kind::local"});
  }
  return at;
}

WEFT_COLD_END

WEFT_DISTRIBUTED_DECL void shared_variables::set_counters() {
  for (const update_counter& c : counters_) {
    const std::int64_t now = c.first + global_step;  // on little-endian machines, an std::int32_t takes the first half
    local_.write_variable(c.node, &now);
  }
}

WEFT_DISTRIBUTED_DECL void shared_variables::adopt_counters() {
  for (const update_counter& c : counters_)
    for (const std::uint32_t effect : effects_)
      if (graph_[effect].def.inputs[0].node == c.node) {
        global_step = first_of_counter(c.node) - c.first;
        return;
      }
}

template <class Element>
void add_signed(mutable_bytes to, const_bytes what, Element sign) {
  Element* const x = reinterpret_cast<Element*>(to.data());
  const Element* const y = reinterpret_cast<const Element*>(what.data());
  for (std::size_t k = 0; k < to.size() / sizeof(Element); ++k) x[k] += sign * y[k];
}

WEFT_DISTRIBUTED_DECL void shared_variables::add(std::size_t i, mutable_bytes to, const_bytes what, int sign) const {
  if (all_[i].is_double())
    add_signed<double>(to, what, sign);
  else
    add_signed<float>(to, what, static_cast<float>(sign));
}

WEFT_DISTRIBUTED_DECL void shared_variables::note_additions(const std::vector<mutable_bytes>& gradients) {
  for (std::size_t i = averaged_; i < frozen_; ++i) {
    local_.read_variable(all_[i].node, gradients[i].data());
    add(i, gradients[i], base_of(i), -1);
  }
}

WEFT_DISTRIBUTED_DECL void shared_variables::reset_averaged() {
  for (std::size_t i = averaged_; i < frozen_; ++i) local_.write_variable(all_[i].node, base_of(i).data());
}

WEFT_DISTRIBUTED_DECL void shared_variables::add_to_averaged(std::size_t i, const_bytes mean) {
  add(i, base_of(i), mean, 1);
  local_.write_variable(all_[i].node, base_of(i).data());
}

#endif

}  // namespace weft::detail

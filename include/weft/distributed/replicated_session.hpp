#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/distributed/all_reduce.hpp>
#include <weft/distributed/parameter_server.hpp>
#include <weft/distributed/server.hpp>
#include <weft/graph/variables.hpp>
#include <weft/session/session.hpp>
#include <weft/train/schedules.hpp>

namespace weft {

inline constexpr consistency asynchronous = consistency::asynchronous;
inline constexpr consistency synchronous = consistency::synchronous;

/// Variables live on parameter servers, which apply the workers' gradients: each as it comes, or the mean of one from
/// each.
template <consistency Mode>
struct parameter_server {
  static constexpr consistency mode = Mode;
};

/// Every worker keeps all variables and applies the mean of all workers' gradients.
struct collective {
  template <transport T, typename Clock = std::chrono::steady_clock>
  using group = basic_all_reduce<T, Clock>;
};

/// Places variables on parameter servers, as tf.train.replica_device_setter does; everything else stays with the
/// worker. Tasks are taken so that each server holds about as many bytes, in the order in which variables are made.
///
///     device_scope on(g, replica_device_setter(cluster));
class replica_device_setter {
 public:
  explicit replica_device_setter(const cluster_spec& cluster, const std::string& ps_job = "ps")
      : job_(ps_job), load_(static_cast<std::size_t>(cluster.num_tasks(ps_job))) {}

  device_spec operator()(const placement_query& q) const {
    if (load_.empty() || std::string_view(q.operation) != operation_of<variable_op>.name || q.requested.has_job())
      return {};
    const auto least = std::min_element(load_.begin(), load_.end());
    // Dynamic extents count as 1: they are the same for every variable that has them.
    std::size_t bytes = size_of(q.output.type);
    for (std::size_t i = 0; i < q.output.extents.rank; ++i)
      if (q.output.extents[i] > 0) bytes *= static_cast<std::size_t>(q.output.extents[i]);
    *least += bytes;
    device_spec d;
    job_.copy(d.job, sizeof d.job - 1);
    d.task = static_cast<int>(least - load_.begin());
    return d;
  }

 private:
  std::string job_;
  mutable std::vector<std::size_t> load_;
};

namespace detail {

/// One variable that the workers share, and how it is updated. One that is averaged has no update: the steps of each
/// worker assign it, and what they have added to it takes the gradient's place.
struct shared_variable {
  std::uint32_t node;    // the variable's
  std::uint32_t update;  // the node that writes it; graph_node::no_node
  value gradient;
  std::size_t block = 0;    // where its gradient lies in the block of its element type
  sequence<value> lists{};  // of a gradient that is rows: rows and their numbers, in turn
  std::size_t rows = 0;     // that it has then
  std::size_t touched = 0;  // of an all-reduce: where the block says of each row whether it has a gradient
  value touched_rows{};     // what the update takes the numbers of these from
  bool is_frozen = false;   // nobody updates it
  bool is_averaged() const { return update == graph_node::no_node && !is_frozen; }
};

/// A counter of updates, and what it began with.
struct update_counter {
  std::uint32_t node;
  std::int64_t first;
};

/// Who sums the gradients of a strategy without parameter servers.
template <class Strategy, transport T, typename Clock>
struct reducing_group {
  using type = basic_all_reduce<T, Clock>;
};
template <class Strategy, transport T, typename Clock>
requires requires { typename Strategy::template group<T, Clock>; }
struct reducing_group<Strategy, T, Clock> {
  using type = typename Strategy::template group<T, Clock>;
};

/// Of how many examples the gradients of a step are the mean: the leading extent of what is fed, where that has a name
/// and all feeds that have such a one have the same; 1 elsewhere.
template <class... P>
std::uint32_t examples_of(const plan::fed_value* fed) {
  constexpr std::int64_t leading[] = {(dims_t<P>::rank > 0 && dims_t<P>::spec[0] < 0 ? dims_t<P>::spec[0] : 0)..., 0};
  std::size_t found = sizeof...(P);
  for (std::size_t i = 0; i < sizeof...(P); ++i) {
    if (leading[i] == 0) continue;
    if (found < sizeof...(P) && leading[found] != leading[i]) return 1;
    found = i;
  }
  if (found == sizeof...(P)) return 1;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(fed[found].extents[0], 1, 0xffffffff));
}

/// The updates that a set of nodes run for their effect consists of; what is none of them stays in `targets`.
inline void take_updates(const graph& g, sequence<std::uint32_t>& targets, std::vector<std::uint32_t>& updates) {
  sequence<std::uint32_t> rest;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::uint32_t n = targets[i];
    if (g[n].def.op == &operation_of<group_op>)
      targets.append(g[n].control.data(), g[n].control.size());
    else if (is_training_update(g, n))
      updates.push_back(n);
    else
      rest.push_back(n);
  }
  targets = rest;
}

}  // namespace detail

template <class Session, class Fetches, class Feeds>
class replicated_step;

/// A session of one worker whose variables are shared with the other workers' (between-graph replication): each builds
/// the same graph, with the same seed, and runs it on its own data. In a step that trains, gradients are computed here;
/// updates happen where the strategy has the variables. All else, evaluation too, runs on the values as of the last
/// step.
///
/// Where gradients are averaged, those of a worker whose batch is larger count more: the loss is a mean, and the mean
/// is that of all examples. The batch is the leading extent of what is fed, where it is a named one.
///
/// Variables that are trained have one value for all, and so have those of variable_kind::frozen, which nothing
/// changes. So have those of variable_kind::averaged, which steps assign: it is the mean of what the workers have
/// assigned in a step or, in asynchronous training, each worker adds what it has changed. Those of
/// variable_kind::counter are what they began with and global_step(). All others are each worker's own.
///
/// Workers need not make equally many steps: those that are finish()ed are not waited for.
///
/// Each worker draws random numbers of its own, dropout's among them, from the stream of its number: local() may be
/// given another one. With parameter servers a worker that comes again goes on at the step at which it was.
///
/// Parameter servers follow schedules of hyperparameters (train/schedules.hpp) themselves, by the updates that they
/// have applied; other hyperparameters that are values of the graph need `collective`.
///
/// The graph is complete when the session is made. One session after the other may use a server: each goes on from the
/// values that the parameter servers have, and begins anew where there are none. Not for use by several threads at
/// once.
template <class Strategy, transport T = tcp, typename Clock = std::chrono::steady_clock>
class replicated_session {
 public:
  using deadline_type = basic_deadline<Clock>;

  /// Meets the other tasks, in asynchronous training the parameter servers alone, and takes over the variables' first
  /// values: those of worker 0. `settings`: what else must be the same for all workers, in words, such as the number of
  /// steps; compared as they are.
  /// Throws weft::error: deadline_exceeded that lists the tasks that are missing, failed_precondition where the tasks'
  /// graphs or settings differ, unavailable that names the task that is gone.
  replicated_session(const graph& g, basic_server<T, Clock>& here, Strategy = {}, session_options options = {},
                     deadline_type until = std::chrono::seconds(60), const std::string& settings = {})
      : graph_(g), here_(here), local_(g, share_of_cores(here, options)) {
    find_variables();
    local_.set_random_stream(here.index());
    here.with_reason([&] { here.members().wait_for(until, [&](const task_id& task) { return is_needed(task); }); });
    const graph_identity identity(g.hash(), g.seed(), settings);
    if constexpr (uses_servers) {
      place_variables();
      servers_.emplace(here, infos_, Strategy::mode, identity, until);
      next_step_ = servers_->first_step();
      local_.set_step_number(next_step_);
      move_to_shared_memory();
      place_gradients(until);
      servers_->initialise(const_values_, until);
      refresh(until);
    } else {
      all_reduce_options group;
      group.job = here.job();
      ring_.emplace(here, identity, group, until);
      examples_.assign(ring_->size(), 0);
      place_gradients(until);
    }
  }

  template <class... F, class... P>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches, const feed_list<P...>& feeds) {
    return replicated_step<replicated_session, fetch_list<F...>, feed_list<P...>>(*this, fetches, feeds);
  }
  template <class... F>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches) {
    return prepare(fetches, feed_list<>{});
  }

  // As others write it: nodes that are in no list.
  template <class Fetched, class... X>
  auto prepare(const Fetched& fetched, const X&... fed) {
    static_assert(correct<arguments_are_not_fetch_and_feed<Fetched, X...>>,
                  "prepare: it takes two lists: prepare(fetch(loss, train), feed(images, labels))");
    return prepare(detail::meant_fetches(fetched), detail::meant_feeds(fed...));
  }

  /// The session of this worker alone: for what does not train.
  session& local() { return local_; }

  /// Updates that all workers have made together, as of this worker's last step.
  std::int64_t global_step() const { return global_step_; }

  /// Whether this is worker 0, which restores and saves for all.
  bool is_chief() const {
    if constexpr (uses_servers)
      return here_.is_chief();
    else
      return ring_->rank() == 0;
  }

  // ---- checkpoints: saved_in(folder, keeper, s) of train/saved_run.hpp calls these ----

  /// Every worker calls it before its first step: the chief gives local() a checkpoint's values by `load()`, which
  /// returns where the training was, or nothing where there is no checkpoint, and the others get these values. With
  /// parameter servers local variables stay each worker's own; with `collective` all have the chief's. Returns the
  /// global step, or -1 where training begins anew. A chief that comes back while the others train changes nothing.
  /// Throws weft::error: what load() throws, at the chief; unavailable, that names the chief and says why, at the
  /// others; deadline_exceeded.
  template <class Load>
  std::int64_t restore(Load load, deadline_type until = std::chrono::seconds(600)) {
    try {
      if constexpr (uses_servers)
        return restore_servers(load, until);
      else
        return restore_group(load, until);
    } catch (const error& problem) {
      here_.set_failure(problem);
      throw;
    }
  }

  /// The chief calls it between two steps: brings what the servers have, slots too, to the variables of local(), so
  /// that a saver keeps it as that of one process. All is of one step; in asynchronous training what each server has is
  /// of one moment.
  cluster_state collect(deadline_type until = std::chrono::seconds(600)) {
    if (unfinished_)
      throw error(error_code::failed_precondition, "save",
                  "the last update ran out of time and has not completed; call exchange() until it has");
    cluster_state now{global_step_, next_step_ - 1, static_cast<std::uint32_t>(unit_)};
    if constexpr (uses_servers) {
      detail::server_state state = servers_->pull_state(values_, until);
      for (std::size_t i = 0; i < trained_; ++i) move_slots(i, state.slots[i], true);
      now = state.cluster;
      take_step(now.global_step);
    }
    return now;
  }

  /// Fetches the values that the others have made since the last step.
  void refresh(deadline_type until = std::chrono::seconds(60)) {
    if constexpr (uses_servers) {
      servers_->pull(values_, until);
      take_step(servers_->global_step());
    }
  }

  /// Says that no more gradients come from here: the others go on without, and the servers end when all have said it.
  /// Without servers this worker stays, and takes part in the others' updates, until all have come here: for each
  /// update they have as much time as is left until `until` at the call. Throws weft::error: unavailable that names the
  /// task that is gone, deadline_exceeded that names who is waited for: then finish() may be called again, and goes on.
  void finish(deadline_type until = std::chrono::seconds(60)) { finish(until, nullptr); }

  /// The same, but waits until the others have no more updates either or are gone, and calls `last()`, which may save
  /// the end of the training, before the servers are left.
  template <class Last>
  void finish(deadline_type until, Last last) {
    constexpr bool waits = !std::is_same_v<Last, std::nullptr_t>;
    if constexpr (uses_servers) {
      if (unfinished_) exchange(until, unfinished_examples_);
      if constexpr (waits) servers_->await_others(until);
      refresh(until);
      if constexpr (waits) last();
      servers_->done(until);
    } else {
      const auto time_for_each = until.remaining();
      took_part_ = 1;
      if (unfinished_) exchange(time_for_each, unfinished_examples_);
      while (took_part_ > 0) {
        for (const mutable_bytes& block : blocks_)
          if (!block.empty()) __builtin_memset(block.data(), 0, block.size());
        exchange(time_for_each, 0);
      }
      if constexpr (waits) last();
    }
  }

 private:
  template <class Session, class Fetches, class Feeds>
  friend class replicated_step;
  static constexpr bool uses_servers = requires { Strategy::mode; };

  /// Asynchronous training needs no other worker: what the chief has to do it may have done before.
  bool is_needed(const task_id& task) const {
    if constexpr (uses_servers)
      return Strategy::mode == synchronous || task.job == here_.options().ps_job;
    else
      return true;
  }

  static session_options share_of_cores(basic_server<T, Clock>& here, session_options options) {
    if (options.threads == 0) {
      const auto tasks = static_cast<unsigned>(here.cluster().tasks_on_host_of({here.job(), here.index()}));
      options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / std::max(1u, tasks)));
    }
    return options;
  }

  void find_variables() {
    check_averages();
    for (std::uint32_t n = 0; n < graph_.size(); ++n) {
      if (!detail::is_training_update(graph_, n)) continue;
      const update_view what(graph_[n].def);
      if (what.is_summed()) continue;
      const std::uint32_t variable = what.variable().node;
      if (kind_of(graph_[variable].def) == variable_kind::slot) continue;
      for (const detail::shared_variable& other : variables_)
        if (other.node == variable)
          throw error(error_code::invalid_argument, graph_[variable].name,
                      "two updates train this variable; on a cluster a variable may have one");
      if (uses_servers && what.layout().norms != 0)
        throw error(error_code::unimplemented, graph_[variable].name,
                    {what.layout().name, " takes norms, which parameter servers do not compute: train by collective"});
      update_rule rule{what.layout().name, {}};
      for (std::size_t k = 0; k < what.layout().hyperparameters; ++k) {
        rule.parameters.push_back(what.is_computed(k) ? 0 : what.number(k));
        if (uses_servers && what.is_computed(k)) rule.schedules.push_back(schedule_of(n, k));
      }
      check_hyperparameters(what);
      if (what.row_lists() > 0)
        share_rows(variable, n, rule);
      else
        share(variable, n, what.gradient(), rule);
    }
    if (variables_.empty())
      throw error(error_code::failed_precondition, "replicated_session",
                  "the graph trains nothing; call minimize(loss) before you make the session");
    trained_ = variables_.size();
    find_parts();
    find_averaged_and_counters();
    frozen_ = variables_.size();
    if constexpr (uses_servers) find_frozen();
    gradients_.resize(variables_.size());
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      std::byte* place = local_.state_of(variables_[i].node).data.data();
      if (lies_elsewhere(i)) {
        place = on_host_.emplace_back(infos_[i].bytes()).data();
        local_.read_variable(variables_[i].node, place);
      }
      values_.emplace_back(place, infos_[i].bytes());
      const_values_.emplace_back(values_.back());
    }
    for (std::size_t i = trained_; i < frozen_; ++i) {
      bases_.emplace_back(infos_[i].bytes());
      __builtin_memcpy(bases_.back().data(), values_[i].data(), infos_[i].bytes());
    }
  }

  /// A moving average (train/moving_average.hpp) is a worker's own, and is refused where it follows an update: that is
  /// not made in the step that computes gradients.
  void check_averages() const {
    for (std::uint32_t n = 0; n < graph_.size(); ++n) {
      if (!graph_[n].def.op->update) continue;
      const update_view what(graph_[n].def);
      if (kind_of(graph_[what.variable().node].def) == variable_kind::slot &&
          graph_[what.gradient().node].def.op->update)
        throw error(
            error_code::unimplemented, graph_[what.variable().node].name,
            "averages what an update makes, which the workers make together behind the step: in a cluster write "
            "apply_to_present_values(w, b), and run it by local() after a step");
    }
  }

  /// All workers compute the same ones, or their variables would go apart: none comes of a worker's own data.
  void check_hyperparameters(const update_view& what) const {
    sequence<std::uint32_t> pending;
    for (std::size_t k = 0; k < what.layout().hyperparameters - what.layout().norms; ++k)
      if (what.is_computed(k)) pending.push_back(what.hyperparameter(k).node);
    sequence<char> seen(graph_.size(), 0);
    while (!pending.empty()) {
      const std::uint32_t n = pending.back();
      pending.pop_back();
      if (seen[n]) continue;
      seen[n] = 1;
      if (n == what.gradient().node || graph_[n].def.op == &operation_of<placeholder_op>)
        throw error(error_code::unimplemented, graph_[what.variable().node].name,
                    {"a hyperparameter of ", what.layout().name, " is computed from ", graph_[n].name,
                     ", which each worker has its own of; in a cluster it is made of variables and constants, and a "
                     "loss_scale does not train"});
      for (const value& in : graph_[n].def.inputs) pending.push_back(in.node);
    }
  }

  /// A hyperparameter that a server can follow.
  scheduled_parameter schedule_of(std::uint32_t update, std::size_t hyperparameter) {
    const node_def& def = graph_[update].def;
    const update_view what(def);
    const value of = def.inputs[what.hyperparameter_input(hyperparameter)];
    const node_def& found = graph_[of.node].def;
    if (found.op == &operation_of<schedule_op>)
      if (const std::uint32_t counter = counter_behind(found.inputs[0]); counter != graph_node::no_node) {
        scheduled_parameter s{hyperparameter, first_of_counter(counter), {}};
        for (const std::uint64_t bits : found.literals) s.numbers.push_back(detail::literal_value<double>(bits));
        return s;
      }
    throw error(error_code::unimplemented, graph_[what.variable().node].name,
                {"a hyperparameter of ", what.layout().name,
                 " is a value of the graph; parameter servers need a number or a schedule that goes by global_step(g), "
                 "or use collective"});
  }
  /// The counter that a value is, whatever integer it is cast to.
  std::uint32_t counter_behind(value of) const {
    const node_def& def = graph_[of.node].def;
    if (def.op == &operation_of<variable_op>)
      return kind_of(def) == variable_kind::counter ? of.node : graph_node::no_node;
    const bool casts =
        def.detail && def.inputs.size() == 1 &&
        def.detail == graph_.kernels(primitive::convert, graph_.info(def.inputs[0]).type, graph_.info(of).type);
    return casts ? counter_behind(def.inputs[0]) : graph_node::no_node;
  }
  std::int64_t first_of_counter(std::uint32_t n) {
    std::int64_t first = 0;
    local_.read_variable(n, &first);
    return local_.variable_info(n).type == dtype::int64 ? first : static_cast<std::int32_t>(first);
  }

  /// `in_block`: its gradient lies in the block of its element type.
  void share(std::uint32_t variable, std::uint32_t update, value gradient, const update_rule& rule,
             bool in_block = true) {
    const value_info info = local_.variable_info(variable);
    const bool wide = info.type == dtype::float64;
    variables_.push_back({variable, update, gradient, in_block ? room_in_block(wide, info.bytes()) : 0});
    const int task = graph_[variable].device.has_job() ? std::max(0, graph_[variable].device.task) : -1;
    infos_.push_back({graph_[variable].name, wide ? element_type::float64 : element_type::float32,
                      info.extents.elements(), task, rule});
  }

  /// Servers are sent the rows; an all-reduce sums the whole gradient, and beside it which rows have one.
  void share_rows(std::uint32_t variable, std::uint32_t update, const update_rule& rule) {
    const update_view what(graph_[update].def);
    const std::uint32_t summed = update_of_summed(what.variable());
    const update_view of_summed(graph_[summed].def);
    const axis_rows rows(local_.variable_info(variable).extents, 0);
    share(variable, uses_servers ? update : summed, of_summed.gradient(), rule, !uses_servers);
    detail::shared_variable& v = variables_.back();
    for (std::size_t k = 0; k < what.row_lists(); ++k) {
      v.lists.push_back(what.rows(k));
      v.lists.push_back(what.row_indices(k));
    }
    v.touched_rows = of_summed.row_indices(0);
    v.rows = rows.extent;
    const element_type type = infos_.back().type;
    if constexpr (uses_servers)
      infos_.back().row_elements = rows.extent > 0 ? rows.inner : 0;
    else
      v.touched = room_in_block(type == element_type::float64, rows.extent * size_of(type));
  }

  /// The update of a variable whose gradient is rows, of a gradient that an all-reduce has summed.
  std::uint32_t update_of_summed(value variable) const {
    for (std::uint32_t n = 0; n < graph_.size(); ++n)
      if (graph_[n].def.op->update)
        if (const update_view u(graph_[n].def); u.is_summed() && u.variable() == variable) return n;
    throw error(error_code::internal, graph_[variable.node].name, "its update by rows has none beside it of their sum");
  }

  std::size_t room_in_block(bool wide, std::size_t bytes) {
    const std::size_t begin = block_bytes_[wide];
    block_bytes_[wide] += (bytes + alignment - 1) / alignment * alignment;
    return begin;
  }

  void find_averaged_and_counters() {
    for (std::uint32_t n = 0; n < graph_.size(); ++n) {
      if (graph_[n].def.op != &operation_of<variable_op>) continue;
      const variable_kind kind = kind_of(graph_[n].def);
      const value_info info = local_.variable_info(n);
      if (kind == variable_kind::averaged) {
        if (info.type != dtype::float64 && info.type != dtype::float32)
          throw error(error_code::unimplemented, graph_[n].name,
                      {"a variable that is averaged over workers must be float or double, not ", name(info.type)});
        share(n, graph_node::no_node, {}, {"gradient_descent", {-1.0}});  // variable - (-1) * what was added to it
      } else if (kind == variable_kind::counter) {
        if (info.extents.elements() != 1 || (info.type != dtype::int64 && info.type != dtype::int32))
          throw error(error_code::unimplemented, graph_[n].name,
                      {"a counter must be one std::int64_t or std::int32_t; this one has ", info.extents.elements(),
                       " elements of ", name(info.type)});
        counters_.push_back({n, first_of_counter(n)});
      }
    }
  }

  /// The servers hold what is frozen, so that workers have the first worker's values: as variables of which no worker
  /// ever brings a row, so nothing of them travels afterwards.
  void find_frozen() {
    for (std::uint32_t n = 0; n < graph_.size(); ++n) {
      if (graph_[n].def.op != &operation_of<variable_op> || kind_of(graph_[n].def) != variable_kind::frozen) continue;
      const value_info info = local_.variable_info(n);
      if (info.type != dtype::float64 && info.type != dtype::float32)
        continue;  // a worker's own, as if it were trained
      share(n, graph_node::no_node, {}, {"gradient_descent", {0.0}}, false);
      variables_.back().is_frozen = true;
      infos_.back().row_elements = infos_.back().elements;
    }
  }

  /// What a step fetches of a gradient: all of it or, of rows, one of their lists.
  struct gradient_part {
    std::size_t variable;
    value what;
    bool whole;
    std::size_t count = 0;         // elements that came
    detail::aligned_bytes came{};  // where they are
  };
  void find_parts() {
    for (std::size_t i = 0; i < trained_; ++i) {
      const detail::shared_variable& v = variables_[i];
      if (v.lists.empty() || !uses_servers) parts_.push_back({i, v.gradient, true});
      for (std::size_t k = 0; k < v.lists.size(); ++k)
        if (uses_servers || k % 2 == 1) parts_.push_back({i, v.lists[k], false});
    }
    row_gradients_.resize(trained_);
    touched_.resize(trained_);
  }
  void* place_of_part(std::size_t number, const shape& extents) {
    gradient_part& part = parts_[number];
    if (part.whole) return gradients_[part.variable].data();
    part.count = extents.elements();
    const std::size_t bytes = part.count * size_of(graph_.info(part.what).type);
    if (part.came.size() < bytes || part.came.size() == 0) part.came = detail::aligned_bytes(bytes + bytes / 4 + 64);
    return part.came.data();
  }

  /// The rows that a step has brought, as they are given to the servers or as an all-reduce takes them.
  void take_rows() {
    for (std::size_t p = 0; p < parts_.size();) {
      const std::size_t i = parts_[p].variable;
      std::size_t end = p + 1;
      while (end < parts_.size() && parts_[end].variable == i) ++end;
      if (!variables_[i].lists.empty()) {
        if constexpr (uses_servers)
          pack_rows(i, p, end);
        else if (infos_[i].type == element_type::float64)
          note_touched<double>(i, p + 1, end);
        else
          note_touched<float>(i, p + 1, end);
      }
      p = end;
    }
  }
  void pack_rows(std::size_t i, std::size_t part, std::size_t end) {
    const std::size_t row = infos_[i].row_bytes();
    packed_.clear();
    for (; part < end; part += 2) {
      const auto* const numbers = reinterpret_cast<const std::int64_t*>(parts_[part + 1].came.data());
      for (std::size_t k = 0; k < parts_[part + 1].count; ++k)
        if (numbers[k] >= 0) packed_.emplace_back(numbers[k], parts_[part].came.data() + k * row);
    }
    std::sort(packed_.begin(), packed_.end());
    const std::size_t bytes = packed_.size() * (8 + row);
    detail::aligned_bytes& to = row_gradients_[i];
    if (to.size() < bytes) to = detail::aligned_bytes(bytes + bytes / 4);
    for (std::size_t k = 0; k < packed_.size(); ++k) {
      __builtin_memcpy(to.data() + 8 * k, &packed_[k].first, 8);
      __builtin_memcpy(to.data() + 8 * packed_.size() + row * k, packed_[k].second, row);
    }
    gradients_[i] = {to.data(), bytes};
  }
  template <class Element>
  void note_touched(std::size_t i, std::size_t part, std::size_t end) {
    Element* const touched = touched_of<Element>(i);
    for (std::size_t r = 0; r < variables_[i].rows; ++r) touched[r] = 0;
    for (; part < end; ++part) {
      const auto* const numbers = reinterpret_cast<const std::int64_t*>(parts_[part].came.data());
      for (std::size_t k = 0; k < parts_[part].count; ++k)
        if (numbers[k] >= 0) touched[numbers[k]] = 1;
    }
  }
  template <class Element>
  Element* touched_of(std::size_t i) {
    return reinterpret_cast<Element*>(blocks_[sizeof(Element) == 8].data() + variables_[i].touched);
  }
  /// The numbers of the rows that any worker has brought, each in its place.
  template <class Element>
  void find_touched(std::size_t i) {
    const Element* const touched = touched_of<Element>(i);
    touched_[i].resize(variables_[i].rows);
    for (std::size_t r = 0; r < variables_[i].rows; ++r)
      touched_[i][r] = touched[r] > 0 ? static_cast<std::int64_t>(r) : -1;
  }

  /// Its value is not where a step reads it: on a GPU, or what steps assign until workers have agreed.
  bool lies_elsewhere(std::size_t i) {
    return variables_[i].is_averaged() || local_.state_of(variables_[i].node).where.gpu;
  }

  /// Brings values that have come to the variables that lie elsewhere.
  void take_values() {
    for (std::size_t i = 0; !on_host_.empty() && i < variables_.size(); ++i) {
      if (!lies_elsewhere(i)) continue;
      std::byte* from = values_[i].data();
      if (variables_[i].is_averaged()) {  // a server may write there at any time: the step begins with this copy
        from = bases_[i - trained_].data();
        __builtin_memcpy(from, values_[i].data(), values_[i].size());
      }
      local_.write_variable(variables_[i].node, from);
    }
  }

  template <class Element>
  static void add(mutable_bytes to, const_bytes what, Element sign) {
    Element* const x = reinterpret_cast<Element*>(to.data());
    const Element* const y = reinterpret_cast<const Element*>(what.data());
    for (std::size_t k = 0; k < to.size() / sizeof(Element); ++k) x[k] += sign * y[k];
  }
  void add(std::size_t i, mutable_bytes to, const_bytes what, int sign) const {
    if (infos_[i].type == element_type::float64)
      add<double>(to, what, sign);
    else
      add<float>(to, what, static_cast<float>(sign));
  }

  /// What this worker's step has added to variables that are averaged.
  void note_additions() {
    for (std::size_t i = trained_; i < frozen_; ++i) {
      local_.read_variable(variables_[i].node, gradients_[i].data());
      add(i, gradients_[i], base_of(i), -1);
    }
  }
  /// Values have come, as of this step.
  void take_step(std::int64_t step) {
    take_values();
    global_step_ = step;
    set_counters();
  }

  // ---- checkpoints ----

  /// Moves the slots of a variable between local() and what its server keeps.
  void move_slots(std::size_t i, detail::server_state::slots_of_variable& of, bool to_local) {
    const node_def& def = graph_[variables_[i].update].def;
    const update_layout& layout = update_view(def).layout();
    const auto move = [&](std::uint32_t node, void* at) {
      to_local ? local_.write_variable(node, at) : local_.read_variable(node, at);
    };
    std::byte* array = of.arrays.data();
    double* number = of.numbers.data();
    for (std::size_t k = 0; k < layout.slots; ++k) {
      const std::uint32_t node = def.inputs[update_view::slot_input(k)].node;
      if (!layout.is_scalar(k)) {
        move(node, array);
        array += infos_[i].bytes();
      } else if (infos_[i].type == element_type::float64) {
        move(node, number++);
      } else {
        float narrow = static_cast<float>(*number);
        move(node, &narrow);
        *number++ = narrow;
      }
    }
  }

  template <class Load>
  std::int64_t restore_servers(Load& load, deadline_type until) {
    bool takes_random_position = false;
    if (is_chief()) {
      const std::optional<cluster_state> at = load();
      detail::server_state state;
      if (at) {
        state = servers_->room_for_state();
        state.cluster = adopt_step(*at);
        for (std::size_t i = 0; i < variables_.size(); ++i) {
          if (lies_elsewhere(i)) local_.read_variable(variables_[i].node, values_[i].data());
          if (i < trained_) move_slots(i, state.slots[i], false);
        }
      }
      const bool taken = servers_->restore(const_values_, at ? &state : nullptr, until);
      takes_random_position = taken && at;
    } else {
      servers_->await_restore(until);
    }
    refresh(until);
    next_step_ = servers_->first_step();
    if (!takes_random_position) local_.set_step_number(next_step_);
    return global_step_ == 0 ? -1 : global_step_;
  }

  /// The step of a checkpoint, by the graph's own counters where it has some: one process may have saved it for
  /// another.
  cluster_state adopt_step(cluster_state at) {
    for (std::size_t k = 0; k < counters_.size(); ++k) {
      const std::int64_t step = first_of_counter(counters_[k].node) - counters_[k].first;
      if (k == 0 && step != at.global_step) {
        if (at.last_step == at.global_step - 1) at.last_step = step - 1;
        at.global_step = step;
      }
      if (step != at.global_step || step < 0)
        throw error(error_code::invalid_argument, graph_[counters_[k].node].name,
                    {"the checkpoint has counted ", step, " updates by this counter and ", at.global_step,
                     " by others; on a cluster all counters count the same: make this one variable_kind::local"});
    }
    return at;
  }

  /// The chief's bytes become those of all: a sum of numbers of 48 bits each, to which the others add nothing.
  void broadcast(std::span<std::byte> bytes, deadline_type until) {
    constexpr std::size_t in_one = 6;
    words_.assign((bytes.size() + in_one - 1) / in_one, 0);
    const auto each = [&](auto use) {
      for (std::size_t k = 0; k < words_.size(); ++k)
        use(words_[k], bytes.subspan(k * in_one).first(std::min(in_one, bytes.size() - k * in_one)));
    };
    std::uint64_t bits = 0;
    if (is_chief())
      each([&](double& word, std::span<std::byte> of) {
        bits = 0;
        __builtin_memcpy(&bits, of.data(), of.size());
        word = static_cast<double>(bits);
      });
    ring_->sum(std::span<double>(words_), until);
    each([&](double word, std::span<std::byte> of) {
      bits = static_cast<std::uint64_t>(word);
      __builtin_memcpy(of.data(), &bits, of.size());
    });
  }

  /// The chief's variables become those of all.
  template <class Load>
  std::int64_t restore_group(Load& load, deadline_type until) {
    std::optional<cluster_state> at;
    if (is_chief()) at = load();
    if (at) at = adopt_step(*at);
    double front[] = {0, 0, 0, 0};
    if (at) {
      front[0] = 1;
      front[1] = static_cast<double>(at->global_step);
      front[2] = at->unit;
      front[3] = static_cast<double>(local_.step_number());
    }
    ring_->sum(std::span<double>(front), until);
    if (front[0] == 0) return -1;
    std::vector<std::byte> bytes;
    for (std::uint32_t n = 0; n < graph_.size(); ++n) {
      if (graph_[n].def.op != &operation_of<variable_op>) continue;
      bytes.assign(local_.variable_info(n).bytes() + 1, {});
      if (is_chief()) {
        local_.read_variable(n, bytes.data());
        bytes.back() = static_cast<std::byte>(local_.state_of(n).initialized);
      }
      broadcast(bytes, until);
      if (is_chief()) continue;
      local_.write_variable(n, bytes.data());
      local_.state_of(n).initialized = bytes.back() != std::byte{0};
    }
    for (std::size_t i = trained_; i < frozen_; ++i) local_.read_variable(variables_[i].node, base_of(i).data());
    next_step_ = global_step_ = static_cast<std::int64_t>(front[1]);
    unit_ = front[2];
    if (!is_chief()) local_.set_step_number(static_cast<std::int64_t>(front[3]));
    set_counters();
    return global_step_;
  }

  mutable_bytes base_of(std::size_t i) { return {bases_[i - trained_].data(), infos_[i].bytes()}; }

  void set_counters() {
    for (const detail::update_counter& c : counters_) {
      const std::int64_t now = c.first + global_step_;  // the lower half comes first
      local_.write_variable(c.node, &now);
    }
  }

  /// Variables, and their gradients, move to where their parameter server reads and writes them itself.
  void move_to_shared_memory() {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const auto place = servers_->place_of(i);
      if (!place.memory) continue;
      plan::variable_state& state = local_.state_of(variables_[i].node);
      __builtin_memcpy(place.value.data(), values_[i].data(), place.value.size());
      if (!lies_elsewhere(i)) state.data = storage::borrow(place.value.data() - storage::overhead, place.value.size());
      values_[i] = place.value;
      const_values_[i] = place.value;
      gradients_[i] = place.gradient;
      memory_.push_back(place.memory);
    }
  }

  /// Room for the gradients that have none yet: for each element type one block, which an all-reduce takes as a whole.
  void place_gradients(deadline_type until) {
    const auto is_wide = [&](std::size_t i) { return infos_[i].type == element_type::float64; };
    bool needed[2] = {false, false};
    const auto needs_room = [&](std::size_t i) { return gradients_[i].empty() && !infos_[i].has_rows(); };
    for (std::size_t i = 0; i < variables_.size(); ++i) needed[is_wide(i)] |= needs_room(i);
    for (std::size_t wide = 0; wide < 2; ++wide) {
      if (!needed[wide]) continue;
      if (ring_) blocks_[wide] = ring_->shared_block(block_bytes_[wide], until);
      if (!blocks_[wide].empty()) continue;
      own_blocks_[wide] = storage(block_bytes_[wide]);
      blocks_[wide] = {own_blocks_[wide].data(), block_bytes_[wide]};
      __builtin_memset(blocks_[wide].data(), 0, block_bytes_[wide]);
    }
    for (std::size_t i = 0; i < variables_.size(); ++i)
      if (needs_room(i)) gradients_[i] = blocks_[is_wide(i)].subspan(variables_[i].block, infos_[i].bytes());
  }

  /// Variables that no scope has placed are spread by bytes.
  void place_variables() {
    std::vector<parameter_spec> open;
    for (const parameter_spec& v : infos_)
      if (v.ps_task < 0) open.push_back(v);
    if (open.empty()) return;
    shard_by_bytes(open, here_.cluster().num_tasks(here_.options().ps_job));
    std::size_t next = 0;
    for (parameter_spec& v : infos_)
      if (v.ps_task < 0) v.ps_task = open[next++].ps_task;
  }

  template <class Element>
  std::span<Element> block(int wide) {
    return {reinterpret_cast<Element*>(blocks_[wide].data()), blocks_[wide].size() / sizeof(Element)};
  }

  /// Brings this worker's gradients to the others and the variables up to date. `examples`: of how many they are the
  /// mean; 0 where they are none. After deadline_exceeded it is called again, and goes on with the same update.
  void exchange(deadline_type until, std::uint32_t examples) {
    try {
      if constexpr (uses_servers)
        push_and_pull(until, examples);
      else
        average(until, examples);
    } catch (const error& problem) {
      unfinished_ = problem.code() == error_code::deadline_exceeded;
      unfinished_examples_ = examples;
      // What became of the update is not known: no other one may have its name. Synchronous workers keep in step.
      if constexpr (uses_servers)
        if (!unfinished_ && Strategy::mode == asynchronous) ++next_step_;
      if (!unfinished_) stage_ = stage::begun;
      here_.set_failure(problem);
      failed_ = true;
      throw;
    }
    unfinished_ = false;
    set_counters();
    if (failed_) here_.clear_failure();
    failed_ = false;
  }

  void push_and_pull(deadline_type until, std::uint32_t examples) {
    global_step_ = servers_->push_pull(next_step_, const_gradients(), values_, until, examples);
    take_values();
    if (!unfinished_ && servers_->was_duplicate_somewhere())
      throw error(error_code::internal, "exchange",
                  {"a parameter server says that it had applied update ", next_step_, " of ", here_.name(),
                   " before; these gradients are lost"});
    ++next_step_;
  }

  void average(deadline_type until, std::uint32_t examples) {
    if (stage_ == stage::begun) {
      if (unit_ == 0) {  // what counts 1, for all: the first batch of the first worker that has one
        if (!unfinished_) examples_[ring_->rank()] = examples;
        ring_->sum(std::span<double>(examples_), until);
        for (const double each : examples_)
          if (unit_ == 0) unit_ = each;
        if (unit_ == 0) unit_ = 1;
      }
      stage_ = stage::floats;
    }
    const double weight = examples / unit_;
    if (stage_ == stage::floats) {
      if (!blocks_[0].empty()) check(ring_->mean(block<float>(0), until, reduce_algorithm::automatic, weight), false);
      stage_ = stage::doubles;
    }
    if (!blocks_[1].empty()) check(ring_->mean(block<double>(1), until, reduce_algorithm::automatic, weight), true);
    stage_ = stage::begun;
    if (took_part_ == 0) return;
    apply();
    global_step_ = ++next_step_;
  }

  /// All workers have the same mean, and all throw or none does.
  void check(const mean_report& made, bool wide) {
    took_part_ = made.weights;
    if (made.finite || made.weights == 0 || here_.options().not_finite == nonfinite_gradients::apply) return;
    const std::size_t at = made.element * (wide ? sizeof(double) : sizeof(float));
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      if ((infos_[i].type == element_type::float64) != wide || at < variables_[i].block ||
          at >= variables_[i].block + infos_[i].bytes())
        continue;
      const std::size_t element = (at - variables_[i].block) / size_of(infos_[i].type);
      if (!made.rank)
        throw error(error_code::invalid_argument, "exchange",
                    {"the mean of the workers' gradients of '", infos_[i].name, "' is not finite in step ", next_step_,
                     ", though each of them is; lower the learning rate"});
      throw detail::nonfinite_gradient("exchange", to_string(task_id{here_.job(), static_cast<int>(*made.rank)}),
                                       infos_[i].name, element, next_step_);
    }
  }

  std::span<const const_bytes> const_gradients() {
    const_gradients_.assign(gradients_.begin(), gradients_.end());
    return const_gradients_;
  }

  /// Runs the graph's own updates on the gradients that were agreed on.
  void apply() {
    set_counters();  // as they were before the step: schedules go by them
    if (!apply_) {
      plan::step_request updates;
      for (std::size_t i = 0; i < trained_; ++i) {
        const detail::shared_variable& v = variables_[i];
        updates.targets.push_back(v.update);
        updates.feeds.push_back(v.gradient);
        fed_.push_back({gradients_[i].data(), local_.variable_info(v.node).extents});
        if (v.lists.empty()) continue;
        touched_[i].resize(v.rows);
        updates.feeds.push_back(v.touched_rows);
        fed_.push_back({touched_[i].data(), shape(static_cast<std::int64_t>(v.rows))});
      }
      apply_.emplace(local_, std::move(updates));
    }
    for (std::size_t i = 0; i < trained_; ++i)
      if (!variables_[i].lists.empty())
        infos_[i].type == element_type::float64 ? find_touched<double>(i) : find_touched<float>(i);
    apply_->run(fed_.data(), [](std::size_t, const shape&) -> void* { return nullptr; });
    for (std::size_t i = trained_; i < frozen_; ++i) {
      add(i, base_of(i), gradients_[i], 1);
      local_.write_variable(variables_[i].node, bases_[i - trained_].data());
    }
  }

  const graph& graph_;
  basic_server<T, Clock>& here_;
  std::vector<shared_segment> memory_;  // outlives the session whose variables lie in it
  session local_;
  std::vector<detail::shared_variable> variables_;  // those that are trained, averaged, frozen
  std::size_t trained_ = 0, frozen_ = 0;            // where those that are averaged begin, and those that are frozen
  std::vector<detail::update_counter> counters_;
  std::vector<parameter_spec> infos_;
  std::size_t block_bytes_[2] = {0, 0};
  mutable_bytes blocks_[2];  // the gradients of float and of double variables, each in one piece
  storage own_blocks_[2];
  std::vector<mutable_bytes> values_, gradients_;
  std::vector<gradient_part> parts_;
  std::vector<detail::aligned_bytes> row_gradients_;  // rows on their way to the servers
  std::vector<std::pair<std::int64_t, const std::byte*>> packed_;
  std::vector<std::vector<std::int64_t>> touched_;  // by all workers
  std::vector<storage> on_host_;                    // values of variables that lie elsewhere, on their way
  std::vector<storage> bases_;                      // of those that are averaged, what the step began with
  std::vector<const_bytes> const_values_, const_gradients_;
  std::optional<basic_parameter_client<T, Clock>> servers_;
  std::optional<typename detail::reducing_group<Strategy, T, Clock>::type> ring_;
  std::optional<prepared_step> apply_;
  std::vector<plan::fed_value> fed_;
  std::int64_t next_step_ = 0, global_step_ = 0;
  std::vector<double> words_;  // on their way from the chief

  // An exchange that has run out of time is repeated, and goes on where it was.
  enum class stage : unsigned char { begun, floats, doubles };
  stage stage_ = stage::begun;
  bool unfinished_ = false, failed_ = false;
  std::uint32_t unfinished_examples_ = 0;
  std::vector<double> examples_;  // of each worker's first batch
  double unit_ = 0;               // the batch that counts 1
  double took_part_ = 0;          // the weights of all workers in the last update
};

template <transport T, typename Clock, class Strategy>
replicated_session(const graph&, basic_server<T, Clock>&, Strategy, session_options = {},
                   std::type_identity_t<basic_deadline<Clock>> = std::chrono::seconds(60), const std::string& = {})
    -> replicated_session<Strategy, T, Clock>;

/// A replicated session is made of a graph, a server, a strategy, and options.
template <class... Arguments>
struct replicated_session_is_not_made_of : mistake<true> {};

// Of other arguments, or the same in another order, this becomes of it.
template <class... X>
class replicated_session<replicated_session_is_not_made_of<X...>, tcp> {
 public:
  template <class... Arguments>
  explicit replicated_session(const Arguments&...) {
    static_assert(correct<replicated_session_is_not_made_of<X...>>,
                  "replicated_session: write replicated_session s(graph, server, parameter_server<synchronous>{})");
  }
  template <class... F, class... P>
  step<fetch_list<F...>, feed_list<P...>> prepare(const fetch_list<F...>&, const feed_list<P...>&);
  session& local();
  std::int64_t global_step() const;
  void refresh();
  void finish();
};
template <class... X>
replicated_session(const X&...) -> replicated_session<replicated_session_is_not_made_of<X...>, tcp>;

/// A prepared run on a replicated session; called like a `step`.
template <class Strategy, transport T, typename Clock, class... F, class... P>
class replicated_step<replicated_session<Strategy, T, Clock>, fetch_list<F...>, feed_list<P...>> {
  using session_type = replicated_session<Strategy, T, Clock>;
  using deadline_type = typename session_type::deadline_type;

 public:
  replicated_step(session_type& owner, const fetch_list<F...>& fetches, const feed_list<P...>& feeds)
      : owner_(owner), local_(owner.local_, request(owner, fetches, feeds, trains_)), results_(fetches) {}

  /// Runs the step and, where it trains, exchanges gradients. The last argument may be a deadline for the exchange:
  /// `step(x, y, 5s)`; without it that is a minute.
  /// Throws what a step throws; unavailable that names the task that is gone; invalid_argument for gradients that are
  /// not finite; deadline_exceeded that names who is waited for: then call exchange() to go on with the same update.
  template <class... X>
  auto operator()(const X&... x) {
    if constexpr (sizeof...(X) == sizeof...(P) + 1) {
      return call(std::index_sequence_for<P...>(), std::forward_as_tuple(x...));
    } else {
      using mistake = detail::call_mistake<feed_list<P...>, X...>;
      static_assert(correct<mistake>,
                    "a step takes a tensor, tensor_view(pointer, shape(...)) or number for each feed, and at the end a "
                    "deadline if you like; eval(x) makes tensors");
      if constexpr (correct<mistake>) compute(x...);
      return exchange();
    }
  }

  /// The two halves of a call, for those who time them, or repeat the second.
  template <class... X>
  auto compute(const X&... x) {
    using mistake = detail::call_mistake<feed_list<P...>, X...>;
    static_assert(correct<mistake>,
                  "a step takes a tensor, tensor_view(pointer, shape(...)) or number for each feed, and at the end a "
                  "deadline if you like; eval(x) makes tensors");
    if (trains_ && owner_.unfinished_)
      throw error(
          error_code::failed_precondition, "step",
          "the last update ran out of time and has not completed; call exchange() until it has, then compute new "
          "gradients");
    if constexpr (correct<mistake>) {
      const plan::fed_value fed[] = {detail::as_fed(x)..., plan::fed_value{}};
      constexpr std::size_t own = detail::step_results<F...>::values;
      local_.run(fed, [&](std::size_t fetch, const shape& extents) -> void* {
        return fetch < own ? results_.place(fetch, extents) : owner_.place_of_part(fetch - own, extents);
      });
      if (trains_) {
        owner_.take_rows();
        owner_.note_additions();
      }
      examples_ = detail::examples_of<P...>(fed);
    }
    return results_.get();
  }
  /// Returns what the step has fetched. May be called again after deadline_exceeded: the update keeps its name, and
  /// counts once.
  auto exchange(deadline_type until = std::chrono::seconds(60)) {
    if (trains_) owner_.exchange(until, examples_);
    return results_.get();
  }

  std::string explain() const { return local_.explain(); }

 private:
  template <std::size_t... Index, class Given>
  auto call(std::index_sequence<Index...>, const Given& given) {
    static_assert(std::is_convertible_v<std::tuple_element_t<sizeof...(Index), Given>, deadline_type>,
                  "a step is called with one value for each of its feeds, and at the end a deadline if you like");
    const deadline_type until(std::get<sizeof...(Index)>(given));
    compute(std::get<Index>(given)...);
    return exchange(until);
  }

  static plan::step_request request(session_type& owner, const fetch_list<F...>& fetches, const feed_list<P...>& feeds,
                                    bool& trains) {
    plan::step_request r = detail::request_of(fetches, feeds);
    std::vector<std::uint32_t> updates;
    detail::take_updates(owner.graph_, r.targets, updates);
    trains = !updates.empty();
    if (!trains) return r;
    if (updates.size() != owner.trained_)
      throw error(
          error_code::unimplemented, "replicated_session",
          {"a step must train all shared variables or none; this one trains ", updates.size(), " of ", owner.trained_});
    for (const auto& part : owner.parts_) r.fetches.push_back(part.what);
    return r;
  }

  session_type& owner_;
  bool trains_ = false;
  std::uint32_t examples_ = 1;
  prepared_step local_;
  detail::step_results<F...> results_;
};

}  // namespace weft

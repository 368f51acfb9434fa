#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/parameter/cluster_state.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/row_lists.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/shared_memory.hpp>

namespace weft {

/// A worker's side of the parameter servers. Values and gradients are given as one span of bytes per variable, in the
/// order of the list of variables, and travel from there and to there without a copy. The calling thread does the input
/// and output. Not for use by several threads at once.
///
/// A parameter server on the same host maps memory that this side makes, and reads gradients and writes values there;
/// the connection then carries only which side may touch it. Where either side refuses (server_options::shared_memory),
/// or the two turn out not to share a host and a user, everything travels through the connection.
///
/// Asynchronous mode: the servers apply each gradient as it comes. The answer is a consistent snapshot of each server's
/// variables right after this worker's own update; two servers' snapshots need not belong to the same moment.
/// Synchronous mode: the servers wait for all workers that are not done, and apply the mean of their gradients, summed
/// in the order of the workers' indices and divided by their number: the same bits whatever the order of arrival.
///
/// The gradient of a variable that travels by rows (parameter_spec::row_elements) is given as the numbers of some of
/// its rows, a std::int64_t each, which ascend, and behind them these rows. push_pull brings of such a variable the
/// rows that have changed since the last answer, where it is to write to the same place as then; pull brings all.
/// Between the two nobody else writes there.
///
/// A call that has failed may be repeated: after deadline_exceeded that is what to do. A connection whose answer was
/// still under way has been given up then, and is opened anew. An update that is repeated with its step is applied
/// once. Values arrive where they are wanted before their checksum or tag is checked: of a call that has failed the
/// buffers for values are unspecified, until a call that brings values to them has not.
template <transport T = tcp, typename Clock = std::chrono::steady_clock>
class basic_parameter_client {
 public:
  using deadline_type = basic_deadline<Clock>;

  /// Connects to every task of the ps job and tells it the variables; all workers must tell the same.
  /// Throws weft::error: failed_precondition where another worker told otherwise, deadline_exceeded with the missing
  /// parameter servers, unavailable.
  basic_parameter_client(basic_server<T, Clock>& here, std::vector<parameter_spec> variables, consistency mode,
                         graph_identity graph, deadline_type until = std::chrono::seconds(60))
      : here_(here), variables_(std::move(variables)), idle_(here.network(), here.waiting()) {
    const std::string& job = here.options().ps_job;
    const int tasks = here.cluster().num_tasks(job);
    if (tasks == 0)
      throw error(error_code::failed_precondition, "parameter_client",
                  {"the cluster needs a job '", job,
                   "' to hold the variables and has none; add it, or set server_options::ps_job"});
    check_dense(here.cluster(), job);
    for (const parameter_spec& variable : variables_)
      if (variable.ps_task < 0 || variable.ps_task >= tasks)
        throw error(error_code::invalid_argument, "parameter_client",
                    {"variable '", variable.name, "' is placed on /job:", job, "/task:", variable.ps_task,
                     "; the job has ", tasks, " tasks"});
    mode_ = mode;
    links_.resize(static_cast<std::size_t>(tasks));
    for (int task = 0; task < tasks; ++task) {
      link& to = links_[static_cast<std::size_t>(task)];
      to.rank = here.cluster().rank({job, task});
      to.order = detail::wire_order(variables_, task);
      for (const std::size_t i : to.order) {
        to.bytes += variables_[i].bytes();
        if (!variables_[i].has_rows()) to.whole_bytes += variables_[i].bytes();
      }
      to.has_rows = detail::least_row_bytes(variables_, to.order) > 0;
      to.counts.resize(to.order.size());
    }
    for (link& each : links_) all_.push_back(&each);
    enroll_message_ = detail::enroll_message{mode, graph, variables_}.bytes();
    with_reasons([&] { connect(until); });
  }

  basic_parameter_client(const basic_parameter_client&) = delete;
  basic_parameter_client& operator=(const basic_parameter_client&) = delete;

  /// The chief (worker 0) uploads the first values, the others wait until it has. Values that exist already (this is a
  /// chief that came back) stay as they are. Follow it by pull().
  void initialise(std::span<const const_bytes> values, deadline_type until = std::chrono::seconds(60)) {
    if (!here_.is_chief()) return initialise(until);
    check("initialise", values);
    ask("initialise", frame_kind::initialise, 0, until, [&](link& to) {
      if (!to.segment) return gather(to, values);
      to.flags = in_segment;
      for (std::size_t k = 0; k < to.order.size(); ++k) move(values[to.order[k]], value_place(to, k));
    });
  }

  /// Waits until the chief has uploaded the first values.
  void initialise(deadline_type until = std::chrono::seconds(60)) {
    ask("initialise", frame_kind::await_values, 0, until, [](link&) {});
  }

  /// Memory that a variable's parameter server has mapped: gradients that lie here, and values that are wanted here,
  /// are moved by nobody. Without shared memory all are empty.
  struct shared_place {
    mutable_bytes gradient, value;  // the `storage::overhead` bytes in front of each are free
    shared_segment memory;          // keeps them, also after this client's end
  };
  shared_place place_of(std::size_t variable) const {
    for (const link& each : links_)
      for (std::size_t k = 0; each.segment && k < each.order.size(); ++k)
        if (each.order[k] == variable) return {gradient_place(each, k), value_place(each, k), each.segment};
    return {};
  }

  /// Fetches all values. Where it throws, `out` is unspecified.
  void pull(std::span<const mutable_bytes> out, deadline_type until = std::chrono::seconds(60)) {
    check("pull", out);
    ask("pull", frame_kind::pull, 0, until, [](link&) {}, [&](link& to) { scatter(to, out); });
    take_values(out);
  }

  // ---- checkpoints ----

  /// Fetches the values, and all that the servers keep beside them, as a checkpoint needs them. In synchronous mode it
  /// is of one step, or throws failed_precondition. In asynchronous mode what one server holds is of one moment, and
  /// two servers' need not be of the same.
  detail::server_state pull_state(std::span<const mutable_bytes> out, deadline_type until = std::chrono::seconds(60)) {
    check("save", out);
    detail::server_state state = room_for_state();
    std::vector<std::vector<std::byte>> rest(links_.size());
    ask(
        "save", frame_kind::state, 0, until, [](link&) {},
        [&](link& to) {
          for (const std::size_t i : to.order) to.target.push_back(out[i]);
          for (const std::size_t i : to.order) to.target.emplace_back(state.slots[i].arrays);
          rest[number_of(to)].resize(rest_bytes(to, state));
          to.target.emplace_back(rest[number_of(to)]);
        });
    for (std::size_t k = 0; k < links_.size(); ++k) take_rest(links_[k], rest[k], state, k == 0);
    for (link& each : links_) each.known.clear();
    return state;
  }

  /// The chief gives the servers a checkpoint, or says with nullptr that there is none, before anything is trained.
  /// False where they go on with a training that has begun: nothing has changed then. Follow it by pull().
  /// Throws weft::error: failed_precondition where workers train already, and where some of the servers have been
  /// started again.
  bool restore(std::span<const const_bytes> values, const detail::server_state* state,
               deadline_type until = std::chrono::seconds(60)) {
    check("restore", values);
    std::string going_on, fresh;
    for (const link& each : links_) {
      std::string& among = each.settled ? going_on : fresh;
      append(among, {among.empty() ? "" : ", ", peer(each)});
    }
    if (!going_on.empty() && !fresh.empty())
      throw error(error_code::failed_precondition, "restore",
                  {fresh, " was started again, and has no training to go on with, while ", going_on,
                   " has one; start all parameter servers again, and the run goes on from its checkpoint"});
    std::vector<std::vector<std::byte>> rest(links_.size());
    ask("restore", frame_kind::restore, 0, until, [&](link& to) {
      if (!state) return;
      gather(to, values);
      detail::message_writer numbers;
      for (const std::size_t i : to.order) {
        to.source.emplace_back(state->slots[i].arrays.data(), state->slots[i].arrays.size());
        for (const double x : state->slots[i].numbers) numbers.real(x);
      }
      detail::write_cluster_state(numbers, state->cluster, workers());
      rest[number_of(to)] = numbers.take();
      to.source.emplace_back(rest[number_of(to)]);
    });
    note_first_steps();
    for (link& each : links_) each.settled = true;
    return !was_duplicate();
  }

  /// Another worker waits until the chief has done that. Follow it by pull().
  void await_restore(deadline_type until = std::chrono::seconds(60)) {
    ask("restore", frame_kind::await_restore, 0, until, [](link&) {});
    note_first_steps();
  }

  /// Says that no more updates come from this worker, as done() does, and waits until the others have said so or are
  /// gone. The servers stay until done().
  void await_others(deadline_type until = std::chrono::seconds(60)) {
    ask("finish", frame_kind::await_others, 0, until, [](link&) {});
  }

  /// Updates that parameter server 0 has applied in all, as of its last answer.
  std::int64_t global_step() const { return links_.front().in.header().step; }

  /// Room for what the servers keep of these variables beside their values.
  detail::server_state room_for_state() const {
    detail::server_state state;
    for (const parameter_spec& each : variables_) {
      const update_layout& layout = *update_rules::find(each.rule).layout;
      auto& slots = state.slots.emplace_back();
      slots.arrays = detail::aligned_bytes(each.bytes() * layout.arrays());
      slots.numbers.resize(layout.slots - layout.arrays());
    }
    return state;
  }

  /// The number of the first update, and of the next one after: none that this worker has made under another client
  /// of the same server has it, and in synchronous mode it is the same for all workers.
  std::int64_t first_step() const {
    std::int64_t first = 0;
    for (const link& each : links_) first = std::max(first, each.next_step);
    return first;
  }

  /// Sends this worker's gradients and receives the fresh values, in one round trip to every parameter server at once.
  /// `step` names the update: it counts from first_step(), grows with every update of this worker, and in synchronous
  /// mode is the same on all of them. `examples`: of how many the gradients are the mean; in synchronous mode those of
  /// more count more. 0: the gradients are not used, whatever they are; without any others no update is made. Returns
  /// the number of updates that parameter server 0 has applied in all. Throws weft::error: unavailable that names the
  /// task that is gone, deadline_exceeded that names the tasks that are waited for, invalid_argument for gradients that
  /// are not finite, aborted where the other workers are at another step.
  std::int64_t push_pull(std::int64_t step, std::span<const const_bytes> gradients, std::span<const mutable_bytes> out,
                         deadline_type until = std::chrono::seconds(60), std::uint32_t examples = 1) {
    check_gradients(gradients);
    check("push_pull", out);
    weight_ = examples;
    if (examples > 0 && only_finite_ && links_.size() > 1) check_finite(step, gradients);
    ask(
        "push_pull", frame_kind::push_pull, step, until, [&](link& to) { gather_gradients(to, gradients); },
        [&](link& to) { scatter(to, out, true); });
    take_values(out);
    return links_.front().in.header().step;
  }

  /// Whether the last push_pull had been applied before by every parameter server.
  bool was_duplicate() const {
    return std::all_of(links_.begin(), links_.end(),
                       [](const link& each) { return (each.in.header().flags & duplicate) != 0; });
  }

  /// In synchronous mode: from the next push_pull on this worker says that it stops after that step.
  void set_stopping() { stopping_ = true; }
  /// Whether all workers are to stop, since one of them has said that it does: after the step of the last push_pull.
  bool all_stop() const {
    return std::any_of(links_.begin(), links_.end(),
                       [](const link& each) { return (each.in.header().flags & stopping) != 0; });
  }

  /// Whether any of them had applied it before.
  bool was_duplicate_somewhere() const {
    return std::any_of(links_.begin(), links_.end(),
                       [](const link& each) { return (each.in.header().flags & duplicate) != 0; });
  }

  /// Tells the parameter servers that no more updates come from this worker: synchronous steps no longer wait for it,
  /// and the servers end when all workers are done.
  void done(deadline_type until = std::chrono::seconds(10)) {
    ask("done", frame_kind::done, 0, until, [](link&) {});
    here_.clear_failure();
  }
  /// Tells them that a signal has stopped this worker: it counts as gone from here on. Returns whether the others'
  /// training ends with it.
  bool stopped(deadline_type until = std::chrono::seconds(10)) {
    ask("done", frame_kind::done, 0, until, [](link& to) { to.flags = stopping; });
    return all_stop();
  }

 private:
  struct link {
    std::size_t rank = 0;
    std::vector<std::size_t> order;          // variables held there, as they travel
    std::size_t bytes = 0, whole_bytes = 0;  // of all; of those that do not travel by rows
    bool has_rows = false;                   // some do
    std::uint64_t incarnation = 0;           // of the parameter server that has the variables
    std::int64_t next_step = 0;              // the first one that is new there
    bool settled = false;                    // it goes on with a training, or a checkpoint, or is known to have none
    typename T::stream stream;
    frame_writer out;
    frame_reader in;
    std::vector<const_bytes> source;
    std::vector<mutable_bytes> target;
    std::uint32_t flags = 0;            // of the request
    std::vector<std::uint64_t> counts;  // of rows in it
    std::vector<std::byte*> known;      // where the values of the last answer on this connection are; empty: nowhere
    std::vector<std::byte> changed;     // the rows in the answer
    std::vector<detail::row_list> lists;
    std::vector<std::byte> failure;
    shared_segment segment;
    detail::segment_layout layout;  // of the segment
    bool refused = false;           // the answer was a failure
  };

  template <typename Bytes>
  void check(const char* operation, std::span<const Bytes> given) const {
    if (given.size() != variables_.size())
      throw error(error_code::invalid_argument, operation,
                  {variables_.size(), " variables need a buffer each; ", given.size(), " are given"});
    for (std::size_t i = 0; i < given.size(); ++i)
      if (given[i].size() != variables_[i].bytes())
        throw error(error_code::invalid_argument, operation,
                    {"the buffer for '", variables_[i].name, "' needs ", variables_[i].bytes(), " bytes and has ",
                     given[i].size()});
  }

  void check_gradients(std::span<const const_bytes> given) const {
    std::vector<const_bytes> whole(given.begin(), given.end());
    for (std::size_t i = 0; i < given.size() && i < variables_.size(); ++i)
      if (variables_[i].has_rows()) {
        detail::read_row_list(given[i], variables_[i]);
        whole[i] = {given[i].data(), variables_[i].bytes()};
      }
    check("push_pull", std::span<const const_bytes>(whole));
  }

  /// One server would refuse an update of which the others have applied their parts.
  void check_finite(std::int64_t step, std::span<const const_bytes> gradients) const {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const auto look = [&]<typename Element>(Element) {
        if (variables_[i].has_rows()) {
          const detail::row_list list = detail::read_row_list(gradients[i], variables_[i]);
          const std::size_t width = variables_[i].row_elements, count = list.count * width;
          const std::size_t found = detail::first_nonfinite(reinterpret_cast<const Element*>(list.rows), count);
          if (found < count)
            throw detail::nonfinite_gradient("push_pull", here_.name(), variables_[i].name,
                                             list.number(found / width) * width + found % width, step);
          return;
        }
        const std::size_t at =
            detail::first_nonfinite(reinterpret_cast<const Element*>(gradients[i].data()), variables_[i].elements);
        if (at < variables_[i].elements)
          throw detail::nonfinite_gradient("push_pull", here_.name(), variables_[i].name, at, step);
      };
      variables_[i].type == element_type::float64 ? look(double{}) : look(float{});
    }
  }

  std::size_t number_of(const link& of) const { return static_cast<std::size_t>(&of - links_.data()); }
  std::size_t workers() const {
    return static_cast<std::size_t>(here_.cluster().num_tasks(here_.options().worker_job));
  }
  void note_first_steps() {
    for (link& each : links_) each.next_step = static_cast<std::int64_t>(each.in.header().tag);
  }

  /// The number of bytes that follow the slots in the state of a server.
  std::size_t rest_bytes(const link& of, const detail::server_state& state) const {
    std::size_t numbers = 0;
    for (const std::size_t i : of.order) numbers += state.slots[i].numbers.size();
    return 8 * numbers + detail::cluster_state_bytes(workers());
  }
  void take_rest(const link& from, const_bytes bytes, detail::server_state& state, bool first) const {
    detail::message_reader in(bytes);
    for (const std::size_t i : from.order)
      for (double& x : state.slots[i].numbers) x = in.real();
    const cluster_state its = detail::read_cluster_state(in, workers());
    in.end();
    cluster_state& all = state.cluster;
    if (first) {
      all = its;
      return;
    }
    if (mode_ == consistency::synchronous && its.global_step != all.global_step)
      throw error(error_code::failed_precondition, "save",
                  {peer(from), " is at step ", its.global_step, " and ", peer(links_.front()), " at step ",
                   all.global_step, "; complete the step, by exchange(), before you save"});
    all.last_step = std::max(all.last_step, its.last_step);
    all.unit = std::max(all.unit, its.unit);
    for (std::size_t w = 0; w < all.newest.size(); ++w) {
      if (its.newest[w] <= all.newest[w]) continue;
      all.newest[w] = its.newest[w];
      all.incarnations[w] = its.incarnations[w];
    }
  }

  void gather(link& to, std::span<const const_bytes> from) {
    for (const std::size_t i : to.order) to.source.push_back(from[i]);
  }
  void gather_gradients(link& to, std::span<const const_bytes> from) {
    if (to.segment) to.flags = in_segment;
    for (std::size_t k = 0; k < to.order.size(); ++k) {
      const const_bytes gradient = from[to.order[k]];
      if (variables_[to.order[k]].has_rows()) continue;
      if (to.segment)
        move(gradient, gradient_place(to, k));
      else
        to.source.push_back(gradient);
    }
    if (!to.has_rows) return;
    static constexpr std::byte zeros[8] = {};
    const std::size_t before = to.segment ? 0 : to.whole_bytes;
    to.source.emplace_back(zeros, detail::rows_begin(before) - before);
    for (std::size_t k = 0; k < to.order.size(); ++k) {
      const parameter_spec& what = variables_[to.order[k]];
      if (!what.has_rows()) continue;
      to.counts[k] = from[to.order[k]].size() / (8 + what.row_bytes());
      to.source.push_back(std::as_bytes(std::span(&to.counts[k], 1)));
      to.source.push_back(from[to.order[k]]);
    }
  }
  /// `again`: what has changed is enough where the rest is known. Values that are being written are not known any more
  /// until all of them are written.
  void scatter(link& from, std::span<const mutable_bytes> into, bool again = false) {
    if (from.segment) {
      from.flags = in_segment;
      return;
    }
    for (const std::size_t i : from.order) from.target.push_back(into[i]);
    if (!from.has_rows) return;
    bool known = again && from.known.size() == from.order.size();
    for (std::size_t k = 0; known && k < from.order.size(); ++k) known = from.known[k] == into[from.order[k]].data();
    if (known) from.flags = changed_rows;
    from.known.clear();
  }
  /// Brings the values that came through shared memory, and the rows that have changed, to where they are wanted.
  void take_values(std::span<const mutable_bytes> into) {
    for (link& each : links_) {
      for (std::size_t k = 0; each.segment && k < each.order.size(); ++k)
        move(value_place(each, k), into[each.order[k]]);
      if (each.segment || !each.has_rows) continue;
      if (each.in.header().flags & changed_rows) take_rows(each, into);
      for (const std::size_t i : each.order) each.known.push_back(into[i].data());
    }
  }
  void take_rows(link& from, std::span<const mutable_bytes> into) {
    try {
      const std::size_t padding = detail::rows_begin(from.whole_bytes) - from.whole_bytes;
      detail::read_row_lists(const_bytes(from.changed).subspan(padding), variables_, from.order, from.lists);
    } catch (const error& problem) {
      throw error(problem.code(), "push_pull", {peer(from), ": ", problem.sentence()});
    }
    for (std::size_t k = 0; k < from.order.size(); ++k) {
      const detail::row_list& list = from.lists[k];
      const std::size_t row = variables_[from.order[k]].row_bytes();
      for (std::size_t n = 0; n < list.count; ++n)
        std::memcpy(into[from.order[k]].data() + list.number(n) * row, list.rows + n * row, row);
    }
  }
  static void move(const_bytes from, mutable_bytes to) {
    if (from.data() != to.data() && !from.empty()) std::memmove(to.data(), from.data(), from.size());
  }

  mutable_bytes value_place(const link& at, std::size_t k) const {
    return at.segment.bytes().subspan(at.layout.values[k], variables_[at.order[k]].bytes());
  }
  mutable_bytes gradient_place(const link& at, std::size_t k) const {
    if (variables_[at.order[k]].has_rows()) return {};
    return at.segment.bytes().subspan(at.layout.gradients[k], variables_[at.order[k]].bytes());
  }

  // ---- connections ----

  /// Opens the connections that there are not, and says on them which task this is. All of that, or none.
  void connect(deadline_type until) {
    std::vector<link*> fresh;
    try {
      for (link& each : links_) {
        if (each.stream.is_open()) continue;
        auto opened = here_.open_channel(each.rank, detail::parameter_channel, until);
        if (each.incarnation != 0 && opened.incarnation != each.incarnation)
          throw error(error_code::unavailable, str_cat({"connect to ", peer(each)}),
                      {peer(each), " was started again; the variables that it held are gone"});
        each.incarnation = opened.incarnation;
        each.known.clear();
        each.stream = std::move(opened.stream);
        fresh.push_back(&each);
      }
      if (!fresh.empty()) enroll(fresh, until);
    } catch (...) {
      for (link* each : fresh) {
        each->stream.close();
        each->segment.detach();
      }
      throw;
    }
  }

  void enroll(const std::vector<link*>& fresh, deadline_type until) {
    converse(
        "enroll", frame_kind::enroll, 0, until, fresh,
        [&](link& to) { to.source.assign(1, const_bytes(enroll_message_)); }, [](link&) {});
    for (link* each : fresh) {
      each->next_step = static_cast<std::int64_t>(each->in.header().tag);
      each->settled = !each->refused && (each->in.header().flags & duplicate) != 0;
      only_finite_ = only_finite_ || (each->in.header().flags & only_finite) != 0;
      if (each->refused) throw refusal_of(*each, "enroll");
    }
    offer_memory(fresh, until);
  }

  /// Offers each of these parameter servers memory to share, where they run on this host. Those that do not want it are
  /// spoken to as before.
  void offer_memory(const std::vector<link*>& to_whom, deadline_type until) {
    std::vector<std::vector<std::byte>> offers(to_whom.size(), detail::offer_bytes({}));
    bool any = false;
    for (std::size_t i = 0; i < to_whom.size(); ++i) {
      link& each = *to_whom[i];
      shared_segment made = std::exchange(each.segment, {});
      if (!here_.may_share_memory(each.rank) || each.order.empty()) continue;
      try {
        if (made) {  // what lies in it stays where it is
          made.renew();
        } else {
          each.layout = detail::segment_layout(variables_, each.order);
          made = shared_segment::create(each.layout.bytes);
        }
      } catch (const error&) {
        continue;  // the system has none to give
      }
      each.segment = made;
      offers[i] = detail::offer_bytes(made.offer());
      any = true;
    }
    if (!any) return;
    converse(
        "share", frame_kind::share, 0, until, to_whom,
        [&](link& to) {
          const auto at = std::find(to_whom.begin(), to_whom.end(), &to) - to_whom.begin();
          to.source.assign(1, const_bytes(offers[static_cast<std::size_t>(at)]));
        },
        [](link&) {});
    for (link* each : to_whom) {
      if (!each->segment) continue;
      each->segment.withdraw();
      if (!each->refused) continue;
      each->segment.detach();
      each->segment = {};
    }
  }

  // ---- requests ----

  /// Does it; where it fails this task's goodbye says why.
  template <typename Action>
  void with_reasons(Action action) {
    try {
      action();
    } catch (const error& problem) {
      failed_ = true;
      here_.set_failure(problem);
      throw;
    }
    if (!failed_) return;
    failed_ = false;
    here_.clear_failure();
  }

  template <typename Payload>
  void ask(const char* operation, frame_kind kind, std::int64_t step, deadline_type until, Payload payload) {
    ask(operation, kind, step, until, payload, [](link&) {});
  }

  template <typename Payload, typename Destination>
  void ask(const char* operation, frame_kind kind, std::int64_t step, deadline_type until, Payload payload,
           Destination destination) {
    with_reasons([&] {
      connect(until);
      converse(operation, kind, step, until, all_, payload, destination);
      for (link& each : links_)
        if (each.refused) throw refusal_of(each, operation);
    });
  }

  /// One request to each of these parameter servers, all in flight at once, and their answers.
  template <typename Payload, typename Destination>
  void converse(const char* operation, frame_kind kind, std::int64_t step, deadline_type until,
                const std::vector<link*>& to_whom, Payload payload, Destination destination) {
    frame_header header;
    header.kind = kind;
    header.request = ++requests_;
    header.step = step;
    header.tag = here_.incarnation();
    header.weight = kind == frame_kind::push_pull ? weight_ : 0;
    header.deadline_us = until.remaining_us();
    for (link* each : to_whom) {
      each->source.clear();
      each->target.clear();
      each->failure.clear();
      each->flags = 0;
      payload(*each);
      destination(*each);
      header.flags = each->flags;
      if (kind == frame_kind::push_pull && stopping_) header.flags |= stopping;
      each->out.start(header, each->source, here_.options().checksum);
      std::uint64_t wanted = each->bytes + 8 + 8 * each->order.size();
      if (kind == frame_kind::state)
        for (const mutable_bytes piece : each->target) wanted += piece.size();
      each->in.expect(std::max(wanted, detail::max_control_bytes));
    }
    try {
      drive(operation, until, to_whom);
    } catch (...) {
      for (link* each : to_whom) {
        if (each->in.complete()) continue;
        each->stream.close();
        each->segment.detach();
      }
      throw;
    }
    for (link* each : to_whom) each->refused = each->in.header().kind == frame_kind::failure;
  }

  void drive(const char* operation, deadline_type until, const std::vector<link*>& with_whom) {
    idle_.moved();
    std::optional<typename Clock::time_point> left_at;
    for (;;) {
      std::size_t moved = 0;
      bool complete = true;
      for (link* each : with_whom) {
        if (!each->in.complete()) {
          try {
            moved += advance(*each);
          } catch (const error& problem) {
            throw here_.diagnose(each->rank, each->incarnation, operation, problem);
          }
        }
        complete &= each->in.complete();
      }
      if (complete) return;
      if (until.expired()) throw late(operation, with_whom);
      if (moved > 0) {
        idle_.moved();
        left_at.reset();
        continue;
      }
      items_.clear();
      for (const link* each : with_whom)
        if (!each->in.complete()) items_.push_back({&each->stream, true, !each->out.idle()});
      if (!idle_.pause(items_, until)) continue;
      for (const link* each : with_whom)
        if (!each->in.complete() && (here_.members().state(each->rank, each->incarnation) == task_state::lost ||
                                     here_.is_silent_after_leaving(each->rank, each->incarnation, left_at)))
          throw here_.members().diagnose(each->rank, each->incarnation, operation, "is gone");
      if (here_.stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
    }
  }

  std::size_t advance(link& each) {
    std::size_t moved = each.out.advance(each.stream) + each.in.advance(each.stream);
    if (each.in.needs_destination()) {
      place(each);
      moved += each.in.advance(each.stream);
    }
    return moved;
  }

  void place(link& each) {
    const frame_header& answer = each.in.header();
    if (answer.request != requests_) throw error(error_code::internal, "", "the server has answered another request");
    if (answer.kind == frame_kind::failure) {
      if (answer.payload_length > detail::max_control_bytes) detail::message_reader::malformed();
      each.failure.resize(static_cast<std::size_t>(answer.payload_length));
      return each.in.payload_to(mutable_bytes(each.failure));
    }
    if ((answer.kind != frame_kind::values && answer.kind != frame_kind::acknowledge) ||
        (answer.flags & in_segment) != (each.flags & in_segment) || (answer.flags & changed_rows & ~each.flags) != 0)
      throw error(error_code::invalid_argument, "", "the server's answer does not fit this kind of request");
    if (answer.flags & changed_rows) return place_rows(each, answer.payload_length);
    std::uint64_t wanted = 0;
    for (const mutable_bytes piece : each.target) wanted += piece.size();
    if (answer.payload_length != wanted)
      throw error(error_code::invalid_argument, "",
                  {"the server's answer needs ", wanted, " bytes and has ", answer.payload_length});
    each.in.payload_to(each.target);
  }

  /// Whole variables where they belong, the rest where there is room for it.
  void place_rows(link& each, std::uint64_t bytes) {
    const std::size_t least = detail::rows_begin(each.whole_bytes);
    if (bytes < least)
      throw error(error_code::invalid_argument, "",
                  {"the server's answer needs at least ", least, " bytes and has ", bytes});
    each.changed.resize(bytes - each.whole_bytes);
    std::vector<mutable_bytes> pieces;
    for (std::size_t k = 0; k < each.order.size(); ++k)
      if (!variables_[each.order[k]].has_rows()) pieces.push_back(each.target[k]);
    pieces.emplace_back(each.changed);
    each.in.payload_to(pieces);
  }

  /// The error that a parameter server has answered in the place of what it was asked for.
  error refusal_of(const link& by, const char* operation) const {
    try {
      return detail::read_error(by.failure, operation);
    } catch (const error& problem) {
      return error(problem.code(), operation, {peer(by), ": ", problem.sentence()});
    }
  }

  error late(const char* operation, const std::vector<link*>& with_whom) const {
    std::string silent;
    for (const link* each : with_whom)
      if (!each->in.complete()) append(silent, {silent.empty() ? "" : ", ", peer(*each)});
    return error(error_code::deadline_exceeded, operation, {"received no answer in time from ", silent});
  }

  std::string peer(const link& each) const { return to_string(here_.members().task(each.rank)); }

  basic_server<T, Clock>& here_;
  std::vector<parameter_spec> variables_;
  std::vector<std::byte> enroll_message_;
  std::vector<link> links_;
  std::vector<link*> all_;
  consistency mode_ = consistency::asynchronous;
  std::uint32_t weight_ = 1;
  bool failed_ = false;  // the last call has
  bool stopping_ = false;
  bool only_finite_ = false;  // a server refuses gradients that are not
  waiter<T, Clock> idle_;
  std::vector<typename T::wait_item> items_;
  std::uint64_t requests_ = 0;
};

/// A client over TCP; see basic_parameter_client.
using parameter_client = basic_parameter_client<>;

}  // namespace weft

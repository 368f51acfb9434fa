// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/enroll_message.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/shards/shard_checkpoint.hpp>
#include <weft/distributed/parameter/shards/shard_file.hpp>
#include <weft/distributed/parameter/shards/shard_links.hpp>
#include <weft/distributed/parameter/shards/shard_writer.hpp>
#include <weft/distributed/parameter/steps/synchronous_steps.hpp>
#include <weft/distributed/parameter/steps/update_history.hpp>
#include <weft/distributed/parameter/steps/worker_quorum.hpp>
#include <weft/distributed/parameter/workers/worker_answers.hpp>
#include <weft/distributed/parameter/workers/worker_roster.hpp>
#include <weft/error.hpp>
#include <weft/transport/random_bytes.hpp>

namespace weft::detail {

/// Writes the state of a parameter server to a folder every few steps, and restores it in a process that takes the
/// server's place.
///
/// Synchronous training: all servers write shards of the same steps. Parameter server 0 writes a manifest of a step
/// once all servers have written their shards: the manifest commits the step. When a server has been restarted, server
/// 0 begins another epoch, in which all servers first restore the shards of the committed step. The manifest on the
/// disk names the new epoch before any server acts in it, so no two epochs of a run have the same number. Asynchronous
/// training: each server restores its own newest shard.
///
/// Invariant: a server acts in one epoch at a time, and everything that it sends to another server or a worker belongs
/// to this epoch. Not thread-safe: the serving thread owns the object.
class shard_keeper {
 public:
  using worker = served_worker;

  /// Throws weft::error if the folder cannot be used, invalid_argument if shard_options::every_steps is not positive.
  shard_keeper(task_server& here, worker_roster& workers, worker_quorum& quorum, parameter_store& store,
               update_history& history, synchronous_steps& steps, worker_answers& answers, shard_links& links,
               shard_checkpoint& checkpoint)
      : here_(here),
        workers_(workers),
        quorum_(quorum),
        store_(store),
        history_(history),
        steps_(steps),
        answers_(answers),
        links_(links),
        checkpoint_(checkpoint),
        servers_(here.cluster().num_tasks(here.options().ps_job)),
        writer_(here),
        manifest_writer_(here) {
    if (!is_on()) return;
    const shard_options& how = here.options().shards;
    if (how.every_steps < 1)
      throw error(error_code::invalid_argument, here.name(),
                  {"shard_options::every_steps must be at least 1; it is ", how.every_steps});
    folder_.emplace(how.folder, here.index(), servers_);
    steps_.set_after_step([this] { note_step(); });
    answers_.set_epoch(0);
  }

  bool is_on() const { return !here_.options().shards.folder.empty(); }

  /// Begins the training that the first worker describes. Throws weft::error if an asynchronous server cannot restore
  /// its shard.
  void begin(const enroll_message& said) {
    if (!is_on()) return;
    // A run may continue with another loss policy.
    described_ = enroll_message{training_terms(said.terms.model), said.graph, said.variables}.bytes();
    has_begun_ = true;
    awaits_servers_ = said.terms.on_loss.wait.count() > 0;
    if (!quorum_.is_synchronous()) return begin_alone();
    links_.keep_shards(said.terms.on_loss.wait);
    links_.begin();
    report();
  }

  /// Returns true if requests can be served: the server has restored its shard, or there is none to restore.
  bool is_ready() const { return !is_on() || at_; }
  run_epoch at() const { return at_; }
  /// Returns true if updates have been made since the server started or restored a shard.
  bool has_trained() const { return has_trained_; }
  /// Returns true if a worker that has sent its last update must wait until a committed step contains it.
  bool secures_updates() const { return is_on() && awaits_servers_; }

  enum class age : unsigned char { current, older, newer, of_another_run };
  /// Compares the epoch of a request, its `tag`, with the current one.
  age age_of(std::uint64_t tag) const {
    const run_epoch its{tag};
    if (its.run() != at_.run()) return age::of_another_run;
    if (!quorum_.is_synchronous() || its.epoch() == at_.epoch()) return age::current;
    return its.epoch() < at_.epoch() ? age::older : age::newer;
  }

  /// Requests a shard of the first values.
  void note_initialised() {
    if (is_on()) wanted_ = now();
  }
  /// Discards earlier shards and begins another epoch, because the chief has restored its own checkpoint.
  void note_restored() {
    if (!is_on()) return;
    if (quorum_.is_synchronous()) {
      if (links_.is_first()) {
        try {
          folder_->remove_manifests([](std::int64_t) { return true; });
          folder_->remove_shards_before(std::int64_t{1} << 62);
          sync_folder(folder_->path());
        } catch (const error& problem) {
          report_problem(problem);
        }
        committed_.reset();
        kept_ = restored_ = -1;
      }
      enter(at_.next());
      if (links_.is_first()) tell_others();
    } else {
      answers_.set_epoch((at_ = at_.next()).bits);
      folder_->remove_shards_before(std::int64_t{1} << 62);
      written_step_ = -1;
      done_.assign(workers_.size(), {});
      written_done_ = done_;
    }
    wanted_ = now();
  }

  /// Writes a shard if one is due after this step or asynchronous update.
  void note_step() {
    if (!is_on() || !at_) return;
    has_trained_ = true;
    const std::int64_t step = now();
    if (step % here_.options().shards.every_steps == 0 || step == wanted_) snapshot();
  }

  /// Restores, commits, and acts on the messages of other servers. Returns true if waiting requests may be served now.
  bool advance() {
    if (!is_on() || !has_begun_) return false;
    bool moved = take_written();
    if (quorum_.is_synchronous() && !links_.ended()) {
      try {
        moved |= links_.is_first() ? lead() : follow();
      } catch (const error& problem) {
        links_.end(problem);
        quorum_.interrupt(problem);
        moved = true;
      }
    }
    if (at_ && !is_failing_ && ((wanted_ >= 0 && now() == wanted_) || lacks_done())) snapshot();
    return moved;
  }

  /// Returns true if the last update of this worker, and the record that it is done, survive the loss of any server, or
  /// if shards cannot be written. Otherwise requests the shards or records. `asks_again`: the worker's process still
  /// needs the servers.
  bool has_secured(const worker& each, bool asks_again) {
    const finished_worker its{true, asks_again ? 0 : each.incarnation};
    done_[each.index] = its;
    if (!quorum_.is_synchronous()) {
      if (is_failing_ || !store_.initialised() || written_done_[each.index] == its) return true;
      snapshot();
      return false;
    }
    const std::int64_t next = std::max<std::int64_t>(0, history_.applied()[each.index].newest() + 1);
    done_from_[each.index] = next;
    if (is_insecure_ || (committed_step_ >= next && committed_done(each.index) == its)) return true;
    if (committed_step_ < next && wanted_ < now()) want(now());
    return false;
  }

  /// Notes that a process of the worker has enrolled. Unless it is recorded as done, it may make more steps.
  void note_return(const worker& each) {
    if (!is_on() || done_.empty() || done_[each.index].process == each.incarnation) return;
    done_[each.index] = {};
    if (!done_from_.empty()) done_from_[each.index] = -1;
  }

  // ---- a signal ----

  /// Writes a last shard, so that the process that takes this one's place repeats no step. No steps are made until that
  /// process has connected.
  void leave() {
    if (is_leaving_) return;
    is_leaving_ = true;
    steps_.freeze(true);
    if (links_.is_first() || !quorum_.is_synchronous())
      want(now());
    else
      report();
  }
  /// Returns true if no request is served any more, because the last shard would lack later updates.
  bool is_halted() const { return is_leaving_ && !quorum_.is_synchronous(); }
  /// Returns true if the last shard has been written, or cannot be.
  bool may_leave() const {
    if (!is_leaving_) return false;
    if (is_insecure_ || is_failing_) return true;
    return quorum_.is_synchronous() ? committed_step_ >= now() : written_step_ >= now();
  }

  std::string whom_it_waits_for() const {
    if (!at_) return str_cat({here_.name(), " still waits for ", links_.silent_servers(), " to restore its shard"});
    return str_cat({"parameter servers have not restored or written their shards of step ", now(), " in time"});
  }

  /// Number of acknowledged updates that an asynchronous server has lost.
  std::int64_t lost_updates() const { return lost_updates_; }
  /// Counts the acknowledged updates that an asynchronous server lost when it was restarted. `next_step` is the next
  /// step that the worker reports.
  void count_lost(const worker& of, std::int64_t next_step) {
    if (!is_on() || quorum_.is_synchronous() || next_step <= history_.next_step(of.index)) return;
    const std::int64_t lost = next_step - history_.next_step(of.index);
    lost_updates_ += lost;
    std::fprintf(stderr,
                 "weft: %s: %lld acknowledged updates of %s are lost, because %s was killed after its last shard\n",
                 here_.name().c_str(), static_cast<long long>(lost), workers_.name(of).c_str(), here_.name().c_str());
  }

  /// The next step; in asynchronous training the number of updates applied.
  std::int64_t now() const { return quorum_.is_synchronous() ? steps_.next_step() : store_.global_step(); }

 private:
  void report_problem(const error& problem) {
    if (here_.options().on_shard_problem) return here_.options().on_shard_problem(problem);
    const std::string words = problem.what();
    if (const std::string reason = without_file(words); std::exchange(last_problem_, reason) != reason)
      std::fprintf(stderr, "weft: %s: %s\n", here_.name().c_str(), words.c_str());
  }

  /// Removes the name of a file in the folder: a full disk is one problem, whichever shard it affects.
  std::string without_file(std::string words) const {
    const std::size_t at = words.find(folder_->path() + "/");
    if (at != std::string::npos) words.erase(at, words.find_first_of(" :", at + folder_->path().size()) - at);
    return words;
  }

  // ---- writing ----

  void snapshot() {
    const std::int64_t step = now();
    if (!at_ || !store_.initialised() || writer_.is_busy()) return;
    if (written_step_ >= 0 && step == written_step_ && !lacks_done()) return;
    std::vector<const_bytes> pieces;
    shard_header head;
    head.at = at_;
    head.step = step;
    head.task = static_cast<std::uint32_t>(here_.index());
    head.servers = static_cast<std::uint32_t>(servers_);
    head.global_step = store_.global_step();
    head.last_step = history_.last_step();
    head.unit = steps_.unit_weight();
    head.applied = history_.applied();
    if (!quorum_.is_synchronous()) head.done = writing_done_ = done_;
    head.variables = described_;
    store_.find_state(pieces, head.scalars);
    head.state_bytes = store_.state_bytes();
    writer_.start(head, pieces, folder_->shard_at(step));
  }

  bool take_written() {
    bool moved = false;
    if (const auto result = writer_.take_result()) {
      moved = true;
      is_failing_ = result->problem.has_value();
      if (is_failing_)
        report_problem(*result->problem);
      else if (result->at == at_)
        note_written(result->step, result->digest);
      report();
    }
    if (const auto result = manifest_writer_.take_result()) {
      moved = true;
      if (result->problem) {
        report_problem(*result->problem);
        has_failed_manifest_ = true;
        written_[0].erase(result->step);
      } else if (result->at == at_) {
        has_failed_manifest_ = false;
        set_committed(*wanted_manifest_, true);
      } else if (!committed_ || committed_->step != result->step) {
        ::unlink(folder_->manifest_at(result->step).c_str());  // of an epoch that is over
      }
      wanted_manifest_.reset();
      tell_others();
    }
    return moved;
  }

  void note_written(std::int64_t step, const shard_digest& digest) {
    written_step_ = step;
    written_digest_ = digest;
    note_written_by(0, step, digest);
    if (!quorum_.is_synchronous()) {  // keeps the newest two shards
      if (kept_ != step) folder_->remove_shards_before(std::exchange(kept_, step));
      committed_step_ = step;
      written_done_ = writing_done_;
    }
  }

  /// On other servers, reports the shard status to server 0.
  void report() {
    if (links_.is_first() || !quorum_.is_synchronous()) return;
    shard_status now;
    now.at = at_;
    now.is_settled = checkpoint_.is_settled();
    now.is_failing = is_failing_;
    now.is_leaving = is_leaving_;
    now.written = at_ ? written_step_ : -1;
    now.digest = written_digest_;
    if (failed_at_ && failed_at_ != at_) {
      now.at = failed_at_;
      now.written = -1;
      now.why = failure_;
    }
    links_.report(std::move(now));
  }

  // ---- epochs ----

  void enter(run_epoch at) {
    at_ = at;
    has_trained_ = false;
    answers_.set_epoch(at.bits);
    links_.begin_epoch(at);
    steps_.forget_norms();
    written_.clear();
    written_.resize(static_cast<std::size_t>(servers_));
    written_step_ = -1;
    committed_step_ = -1;
    wanted_ = -1;
    is_failing_ = false;
    failed_at_ = {};
    done_.assign(workers_.size(), {});
    done_from_.assign(workers_.size(), -1);
    if (!is_leaving_) steps_.freeze(false);
    report();
  }

  /// Replaces the state of this server by a shard. Returns the workers that are done according to the shard. Throws
  /// weft::error that names the file.
  std::vector<finished_worker> restore(std::int64_t step, const shard_digest* digest, std::uint32_t run) {
    const std::string path = folder_->shard_at(step);
    const aligned_bytes file = shard_folder::read(path, store_.state_bytes() + max_shard_overhead);
    const const_bytes all(file.data(), file.size());
    const_bytes state;
    const shard_header head = read_shard(all, path, state);
    if (digest && *digest != shard_digest{file.size(), get_little<std::uint32_t>(file.data() + file.size() - 4)})
      throw error(error_code::data_loss, "restore", {path, " is not the shard that the manifest names"});
    check_training(head, path);
    if (head.state_bytes != store_.state_bytes() || head.scalars.size() != store_.scalar_slots() || head.step != step ||
        (run != 0 && head.at.run() != run))
      damaged(path, "its contents do not belong to this server");
    answers_.keep_answers_in_flight();
    const bool had_values = store_.initialised();
    const std::int64_t from = had_values ? now() : -1;
    store_.restore(state, head.scalars, head.global_step);
    history_.restore(head.last_step, head.applied);
    steps_.begin_epoch(head.unit);
    for (worker& each : workers_) {
      each.held.drop();
      each.values_at = head.global_step;
    }
    restored_at_ = head.at;
    if (here_.options().on_rollback)
      here_.options().on_rollback(from, step);
    else if (had_values)
      std::fprintf(stderr, "weft: %s went back from step %lld to step %lld\n", here_.name().c_str(),
                   static_cast<long long>(from), static_cast<long long>(step));
    else
      std::fprintf(stderr, "weft: %s continues from step %lld of %s\n", here_.name().c_str(),
                   static_cast<long long>(step), path.c_str());
    return head.done;
  }

  /// Throws failed_precondition if a shard belongs to another server or another training job.
  void check_training(const shard_header& head, const std::string& path) const {
    if (head.task != static_cast<std::uint32_t>(here_.index()) || head.servers != static_cast<std::uint32_t>(servers_))
      throw error(error_code::failed_precondition, "restore",
                  {path, " is the shard of parameter server ", head.task, " of ", head.servers, ", but this is server ",
                   here_.index(), " of ", servers_});
    if (head.applied.size() != workers_.size())
      throw error(error_code::failed_precondition, "restore",
                  {path, " is of a cluster with ", head.applied.size(), " workers, but this one has ", workers_.size(),
                   other_training()});
    if (head.variables != described_) {
      std::string how;
      try {
        how = enroll_message::read(described_).difference(enroll_message::read(head.variables));
      } catch (const error&) {
        damaged(path, "its list of variables cannot be read");
      }
      throw error(error_code::failed_precondition, "restore",
                  {path, " is of a training run other than the first worker's: ", how, other_training()});
    }
  }
  /// Checks the folder before a new run. Throws failed_precondition if shards of this server belong to another training
  /// job.
  void check_folder() const {
    for (const std::int64_t step : folder_->shards()) {
      const std::string path = folder_->shard_at(step);
      try {
        const aligned_bytes file = shard_folder::read(path, store_.state_bytes() + max_shard_overhead);
        const_bytes state;
        check_training(read_shard({file.data(), file.size()}, path, state), path);
      } catch (const error& why) {
        if (is_refusal(why)) throw;
      }
    }
  }
  /// Returns true if a file is intact but belongs to another training job: an older file must not replace it.
  static bool is_refusal(const error& why) {
    return why.code() == error_code::failed_precondition || why.code() == error_code::resource_exhausted;
  }

  std::string other_training() const {
    return str_cat({"; use another folder for this training run, or remove the shards in ", folder_->path()});
  }

  void set_done(const std::vector<finished_worker>& done) {
    done_ = done;
    done_from_.clear();
    for (const finished_worker& each : done) done_from_.push_back(each.is_done ? 0 : -1);
    for (worker& each : workers_) {
      each.was_done = done[each.index].is_done && !each.connection;
      each.finished_process = done[each.index].process;
      each.restored_at = detail::now();
    }
    workers_.settle_done(false, [](const worker&) { return false; });
  }
  /// Returns true if the newest shard of an asynchronous server does not record all workers that are done.
  bool lacks_done() const { return !quorum_.is_synchronous() && written_done_ != done_; }

  // ---- asynchronous: each server alone ----

  void begin_alone() {
    written_.resize(static_cast<std::size_t>(servers_));
    done_.assign(workers_.size(), {});
    written_done_ = done_;
    std::vector<std::int64_t> all = folder_->shards();
    std::optional<error> problem;
    for (; !all.empty(); all.pop_back()) {
      try {
        written_done_ = restore(all.back(), nullptr, 0);
        set_done(written_done_);
        answers_.set_epoch((at_ = restored_at_.next()).bits);
        kept_ = written_step_ = all.back();
        folder_->remove_shards_before(all.back());
        return;
      } catch (const error& why) {
        if (why.code() != error_code::data_loss) throw;
        report_problem(why);
        problem = why;
      }
    }
    if (problem)
      throw error(problem->code(), "restore", {problem->sentence(), "; no other shard exists", other_training()});
    answers_.set_epoch((at_ = fresh_run()).bits);
  }

  run_epoch fresh_run() {
    std::uint32_t run = 0;
    while (run == 0) fill_random(here_.network(), std::as_writable_bytes(std::span(&run, 1)));
    return run_epoch::of(run, 1);
  }

  // ---- parameter server 0 ----

  bool lead() {
    bool all_told = true, some_blank = false;
    std::optional<run_epoch> newest;
    std::string failure;
    bool settled = false;
    is_insecure_ = is_failing_ || has_failed_manifest_;
    bool leaving = is_leaving_;
    links_.for_each_status([&](int task, const shard_status* its, bool is_ordered) {
      if (!its) {
        all_told = false;
        return;
      }
      if (!its->at) {
        some_blank |= !is_ordered;
        return;
      }
      if (!newest || newest->run() != its->at.run() || its->at.epoch() > newest->epoch()) newest = its->at;
      settled |= its->is_settled;
      if (its->at != at_) return;
      is_insecure_ |= its->is_failing;
      leaving |= its->is_leaving;
      if (!its->why.empty()) failure = its->why;
      if (its->written >= 0) note_written_by(task, its->written, its->digest);
    });
    if (!all_told || manifest_writer_.is_busy()) return false;  // waits for a commit in progress
    if (!at_) {
      assemble(newest, settled);
      return true;
    }
    if (newest && newest->run() != at_.run())
      throw error(error_code::failed_precondition, "restore",
                  "parameter servers are in different runs; start all parameter servers and workers again");
    if (!failure.empty()) {
      if (!committed_) throw error(error_code::failed_precondition, "restore", failure);
      fall_back(failure, checkpoint_.is_settled());
      return true;
    }
    if (some_blank) {
      if (!committed_)
        throw error(error_code::unavailable, "restore",
                    {"a parameter server was started again and lost its variables: no step has been committed in ",
                     folder_->path(), " yet; start all tasks again"});
      go_back(*committed_, checkpoint_.is_settled());
      return true;
    }
    if (leaving && !is_frozen_) {
      is_frozen_ = true;
      steps_.freeze(true);
      if (wanted_ < now()) want(now());
    }
    if (is_insecure_ != std::exchange(told_insecure_, is_insecure_)) tell_others();
    commit();
    return false;
  }

  void note_written_by(int task, std::int64_t step, const shard_digest& digest) {
    auto& all = written_[static_cast<std::size_t>(task)];
    all[step] = digest;
    while (all.size() > 8) all.erase(all.begin());
  }

  /// Restores the committed step, or begins a new run, after this server was started and all others have reported.
  void assemble(const std::optional<run_epoch>& newest, bool settled) {
    std::optional<shard_manifest> found;
    std::optional<error> problem;
    std::vector<std::int64_t> all = folder_->manifests();
    for (; !all.empty() && !found; all.pop_back()) {
      try {
        found = read_manifest(all.back());
      } catch (const error& why) {
        if (is_refusal(why)) throw;
        report_problem(why);
        problem = why;
      }
    }
    if (found && newest && newest->run() != found->at.run()) found.reset();
    if (found) {
      if (newest && newest->epoch() > found->at.epoch()) found->at = *newest;
      return go_back(*found, settled);
    }
    if (newest)
      throw error(error_code::unavailable, "restore",
                  {here_.name(), " was started again and lost its variables: ", folder_->path(),
                   " has no manifest of the run of the other servers", problem ? "; " : "; start all tasks again",
                   problem ? problem->sentence() : std::string()});
    if (problem) throw error(problem->code(), "restore", {problem->sentence(), other_training()});
    check_folder();
    // A run that was killed before its first commit leaves shards of one step.
    if (const std::vector<std::int64_t> shards = folder_->shards(); shards.size() > 1)
      throw error(
          error_code::data_loss, "restore",
          {folder_->path(), " has shards of steps ", shards.front(), " to ", shards.back(),
           " but no manifest, so no step is known to be complete; put the files manifest-STEP back", other_training()});
    enter(fresh_run());
    tell_others(true);
  }

  shard_manifest read_manifest(std::int64_t step) {
    const std::string path = folder_->manifest_at(step);
    const aligned_bytes file = shard_folder::read(path, std::uint64_t{64} << 20);
    shard_manifest said = shard_manifest::read({file.data(), file.size()}, path);
    if (said.step != step) damaged(path, "its step differs from its name");
    if (said.shards.size() != static_cast<std::size_t>(servers_) || said.done.size() != workers_.size())
      throw error(error_code::failed_precondition, "restore",
                  {path, " is of a cluster with ", said.shards.size(), " parameter servers and ", said.done.size(),
                   " workers, but this one has ", servers_, " and ", workers_.size(), other_training()});
    return said;
  }

  /// Begins another epoch with a committed step. Keeps later files until a step of the new epoch is committed, because
  /// this start may still be refused.
  void go_back(shard_manifest to, bool settled) {
    const run_epoch before = to.at.epoch() > at_.epoch() ? to.at : at_;
    to.at = run_epoch::of(to.at.run(), before.epoch() + 1);
    try {
      restore(to.step, &to.shards[0], to.at.run());
    } catch (const error& why) {
      if (is_refusal(why)) throw;
      committed_ = to;
      return fall_back(why.sentence(), settled);
    }
    try {
      shard_folder::write(folder_->manifest_at(to.step), to.bytes());
    } catch (const error& problem) {
      // A full disk does not prevent the restoration. A process that is started again later reads the old number of the
      // epoch: a random increment makes it unlikely that two epochs have the same one.
      report_problem(problem);
      std::uint16_t increment = 0;
      fill_random(here_.network(), std::as_writable_bytes(std::span(&increment, 1)));
      to.at = run_epoch::of(to.at.run(), to.at.epoch() + increment);
    }
    enter(to.at);
    if (settled) checkpoint_.settle();
    restored_ = to.step;
    set_committed(to, false);
    set_done(to.done);
    is_frozen_ = false;
    tell_others(true);
  }

  /// Goes back to the previous committed step, because a shard of the last one cannot be restored.
  void fall_back(const std::string& why, bool settled) {
    std::optional<shard_manifest> before;
    for (const std::int64_t step : folder_->manifests())
      if (committed_ && step < committed_->step) before = read_manifest(step);
    if (!before || before->at.run() != committed_->at.run())
      throw error(error_code::data_loss, "restore",
                  {why, "; no older step is committed in ", folder_->path(), other_training()});
    report_problem(error(error_code::data_loss, "restore", {why, "; step ", before->step, " is restored instead"}));
    if (committed_->at.epoch() > before->at.epoch()) before->at = committed_->at;
    go_back(*before, settled);
  }

  /// Records the committed step and removes older files. `removes_later`: also removes later manifests, which this
  /// epoch could not restore because they or their shards are damaged.
  void set_committed(const shard_manifest& now, bool removes_later) {
    const bool is_new = !committed_ || committed_->step != now.step;
    committed_ = now;
    committed_step_ = now.step;
    try {
      if (is_new) {
        kept_ = now.step;
        for (const std::int64_t step : folder_->manifests())
          if (step < now.step) kept_ = step;  // ends with the newest older manifest
      }
      folder_->remove_shards_before(kept_);
      folder_->remove_manifests([&](std::int64_t step) { return step < kept_ || (removes_later && step > now.step); });
    } catch (const error& problem) {
      report_problem(problem);
    }
  }

  /// The record in the manifest that the worker is done. No server leaves before the manifest contains it: if parameter
  /// server 0 is lost, the process that replaces it needs the other servers.
  finished_worker committed_done(std::size_t index) const {
    if (links_.is_first())
      return committed_ && index < committed_->done.size() ? committed_->done[index] : finished_worker();
    return links_.order() && links_.order()->at == at_ ? links_.order()->done[index] : finished_worker();
  }

  void want(std::int64_t step) {
    wanted_ = step;
    if (links_.is_first() && quorum_.is_synchronous()) tell_others();
  }

  /// Writes a manifest of the last step of which all servers have a shard, or a new manifest of the committed step if
  /// more workers are done.
  void commit() {
    std::optional<shard_manifest> next;
    for (const auto& [step, digest] : written_[0]) {
      if (committed_ && step <= committed_->step) continue;
      shard_manifest found{at_, step, {}, done_at(step)};
      for (const auto& of : written_) {
        const auto its = of.find(step);
        if (its != of.end()) found.shards.push_back(its->second);
      }
      if (found.shards.size() == written_.size()) next = found;
    }
    if (!next && committed_ && committed_->done != done_at(committed_->step) && !has_failed_manifest_) {
      next = committed_;
      next->at = at_;
      next->done = done_at(next->step);
    }
    if (!next) return;
    wanted_manifest_ = next;
    manifest_writer_.start(at_, next->step, next->bytes(), folder_->manifest_at(next->step));
  }

  /// The workers that make no steps from `step` on.
  std::vector<finished_worker> done_at(std::int64_t step) const {
    std::vector<finished_worker> done = done_;
    for (std::size_t w = 0; w < done.size(); ++w)
      if (done_from_[w] < 0 || done_from_[w] > step) done[w] = {};
    return done;
  }

  void tell_others(bool begins = false) {
    if (!at_ || !links_.is_first()) return;
    shard_order said;
    said.at = at_;
    said.restored = restored_;
    said.is_settled = checkpoint_.is_settled();
    said.is_insecure = is_insecure_;
    said.committed = committed_step_;
    said.kept = committed_step_ < 0 ? -1 : std::min(kept_, committed_step_);
    said.wanted = wanted_;
    said.done = committed_ ? committed_->done : std::vector<finished_worker>(workers_.size());
    for (int task = 1; task < servers_; ++task) {
      if (restored_ >= 0) said.digest = restored_digest(task);
      links_.order(task, said, begins);
    }
  }
  shard_digest restored_digest(int task) {
    if (committed_ && committed_->step == restored_) digests_ = committed_->shards;
    return static_cast<std::size_t>(task) < digests_.size() ? digests_[static_cast<std::size_t>(task)] : shard_digest{};
  }

  // ---- another parameter server ----

  bool follow() {
    const std::optional<shard_order>& said = links_.order();
    if (!said) return false;
    bool moved = false;
    if (said->at != at_) {
      const bool is_old = at_ && said->at.run() == at_.run() && said->at.epoch() < at_.epoch();
      if (is_old || said->at == failed_at_) return false;
      try {
        if (said->restored >= 0)
          restore(said->restored, &said->digest, said->at.run());
        else if (at_ && said->at.run() == at_.run())
          return false;  // the chief's checkpoint arrives here soon
        else if (at_ || store_.initialised())
          throw error(error_code::failed_precondition, "restore",
                      "parameter server 0 began another run; start all parameter servers and workers again");
        else
          check_folder();
      } catch (const error& why) {
        failed_at_ = said->at;
        failure_ = str_cat({here_.name(), ": ", why.sentence()});
        report();
        return false;
      }
      enter(said->at);
      if (said->is_settled) checkpoint_.settle();
      if (said->restored >= 0) set_done(said->done);
      moved = true;
    }
    if (said->is_insecure != is_insecure_) {
      is_insecure_ = said->is_insecure;
      moved = true;
    }
    if (said->committed > committed_step_) {
      committed_step_ = said->committed;
      folder_->remove_shards_before(said->kept);
      moved = true;
    }
    if (said->wanted > wanted_) wanted_ = said->wanted;
    moved |= said->done != told_done_;
    told_done_ = said->done;
    return moved;
  }

  task_server& here_;
  worker_roster& workers_;
  worker_quorum& quorum_;
  parameter_store& store_;
  update_history& history_;
  synchronous_steps& steps_;
  worker_answers& answers_;
  shard_links& links_;
  shard_checkpoint& checkpoint_;
  int servers_;
  std::optional<shard_folder> folder_;
  shard_writer writer_, manifest_writer_;
  std::vector<std::byte> described_;  // enroll_message without the loss policy
  bool awaits_servers_ = false;
  bool has_begun_ = false, has_trained_ = false;
  run_epoch at_, restored_at_;
  std::int64_t written_step_ = -1;  // step of the last shard written in this epoch
  shard_digest written_digest_;
  std::int64_t committed_step_ = -1, kept_ = -1;
  std::int64_t wanted_ = -1;  // step at which another shard is written
  bool is_failing_ = false, is_insecure_ = false, is_leaving_ = false;
  std::string last_problem_;
  std::int64_t lost_updates_ = 0;
  std::vector<finished_worker> done_;
  std::vector<finished_worker> written_done_, writing_done_;  // recorded in an asynchronous server's shards
  // Used by servers other than parameter server 0.
  std::vector<finished_worker> told_done_;  // from the last order
  run_epoch failed_at_;                     // the epoch whose shard could not be restored
  std::string failure_;
  // Used by parameter server 0.
  std::vector<std::map<std::int64_t, shard_digest>> written_;  // by server and step, in this epoch
  std::optional<shard_manifest> committed_, wanted_manifest_;
  std::vector<shard_digest> digests_;    // of the shards that began this epoch
  std::int64_t restored_ = -1;           // step of these shards
  std::vector<std::int64_t> done_from_;  // the steps from which workers make no more; -1: they make more
  bool has_failed_manifest_ = false, told_insecure_ = false, is_frozen_ = false;
};

}  // namespace weft::detail

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/device/cpu/thread_pool.hpp>
#include <weft/distributed/parameter/enroll_message.hpp>
#include <weft/distributed/parameter/gradient_clipping.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/shards/shard_links.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Computes the factors that clip the mean of a synchronous step, and checks that the mean is finite on all servers.
///
/// A norm over gradients of several parameter servers takes one exchange: each server sends the squares of its mean to
/// parameter server 0, which sends the sums to the others. Server 0 adds the squares in the order of the variables, so
/// the sums do not depend on the number of servers. Both messages describe a state: a connection that is opened again
/// repeats the last one. Each server reports a step only after it has made the previous one, so only the last message
/// can be missing.
///
/// Not thread-safe: the serving thread owns the object.
class norm_exchange {
 public:
  norm_exchange(const parameter_store& store, shard_links& links, std::size_t servers)
      : store_(store), links_(links), servers_(servers) {}

  /// Takes the terms of training from the first worker's message.
  void begin(const enroll_message& said) {
    are_exchanged_ = exchanges_squares(said, static_cast<int>(servers_));
    are_needed_ = are_exchanged_ || said.terms.skips_nonfinite || store_.clips_by_norm();
    for (std::size_t k = 0; are_exchanged_ && k < servers_; ++k)
      orders_.push_back(wire_order(said.variables, static_cast<int>(k)));
    if (!are_exchanged_) orders_.push_back(store_.order());
  }
  /// Returns true if the servers exchange squares before each step.
  bool are_exchanged() const { return are_exchanged_; }
  /// Returns true if find() precedes each step of this server. If squares are exchanged, a server without clipped
  /// gradients also takes part.
  bool are_needed() const { return are_needed_; }

  struct result {
    bool is_finite;
    std::vector<double> factors;  // of this server's variables
  };
  /// Which gradients make a step: three numbers for each, which differ if a worker sends other gradients for the step.
  using identity = std::vector<std::array<std::uint64_t, 3>>;

  /// Returns null while the squares of other servers are missing. `squares()` computes the squares of this server,
  /// again if the gradients have changed.
  template <typename Squares>
  const result* find(std::int64_t step, const identity& gradients, Squares squares) {
    if (step_ != step) {
      step_ = step;
      own_.reset();
    }
    if (gradients != gradients_) {
      gradients_ = gradients;
      own_.reset();
    }
    if (own_ && result_) return &*result_;
    if (!own_) {
      result_.reset();
      mean_squares mean = squares();
      own_ = squares_message{step, links_.attempt(), mean.is_finite, std::move(mean.of_variables)};
      if (are_exchanged() && !links_.is_first()) links_.send(*own_);
    }
    if (!are_exchanged()) {
      finish(own_->is_finite, sums({&*own_}));
    } else if (!links_.is_first()) {
      const squares_message& all = links_.sums();
      if (!all.is_of(step, own_->attempt)) return nullptr;
      finish(all.is_finite && own_->is_finite, all.squares);
    } else if (const auto all = squares_of_all(); !all.empty()) {
      bool is_finite = true;
      for (const squares_message* each : all) is_finite &= each->is_finite;
      squares_message said{step, own_->attempt, is_finite, sums(all)};
      links_.send(said);
      finish(is_finite, said.squares);
    }
    return result_ ? &*result_ : nullptr;
  }
  /// Returns true if this server has sent the squares of the step's mean to other servers.
  bool has_sent(std::int64_t step) const { return are_exchanged_ && step_ == step && own_; }
  /// Discards the result after all servers have refused the mean of the step: the workers send other gradients.
  void refuse() {
    own_.reset();
    result_.reset();
  }
  void begin_epoch() {
    step_ = -1;
    own_.reset();
    result_.reset();
  }

  /// The servers whose squares of the step are missing; empty if this server does not wait for any.
  std::string whom_it_waits_for(std::int64_t step) const {
    if (step_ != step || !own_ || result_) return {};
    if (!links_.is_first()) return "the norm of the gradients from parameter server 0";
    return str_cat({"the norms of the gradients from ",
                    links_.names_of([&](const squares_message& its) { return !its.is_of(step_, own_->attempt); })});
  }

 private:
  /// The squares of all servers, by task; empty while some are missing.
  std::vector<const squares_message*> squares_of_all() {
    std::vector<const squares_message*> all(servers_);
    all[0] = &*own_;
    links_.for_each_squares([&](int task, const squares_message& its) {
      const auto k = static_cast<std::size_t>(task);
      if (!its.is_of(step_, own_->attempt)) return;
      if (its.squares.size() == orders_[k].size())
        all[k] = &its;
      else
        end({"parameter server ", task, " broke the protocol: it sent the squares of ", its.squares.size(),
             " gradients, but has ", orders_[k].size(), " variables"});
    });
    if (std::find(all.begin(), all.end(), nullptr) != all.end()) all.clear();
    return all;
  }

  /// Adds the squares of each group of gradients. `of` contains the message of each server, or only this server's.
  std::vector<double> sums(const std::vector<const squares_message*>& of) const {
    const std::vector<parameter_spec>& variables = store_.variables();
    std::vector<double> of_variables(variables.size());
    for (std::size_t k = 0; k < of.size(); ++k) {
      for (std::size_t i = 0; i < orders_[k].size(); ++i) of_variables[orders_[k][i]] = of[k]->squares[i];
    }
    std::vector<double> groups;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].clipping.kind != clip_kind::by_global_norm) continue;
      const std::size_t group = variables[i].clipping.group;
      if (groups.size() <= group) groups.resize(group + 1);
      groups[group] += of_variables[i];
    }
    return groups;
  }

  void finish(bool is_finite, const std::vector<double>& groups) {
    result found{is_finite, {}};
    for (std::size_t k = 0; k < store_.order().size(); ++k) {
      const gradient_clipping& how = store_.variables()[store_.order()[k]].clipping;
      const bool is_shared = how.kind == clip_kind::by_global_norm;
      if (is_shared && how.group >= groups.size())
        return end({"parameter server 0 broke the protocol: it sent ", groups.size(), " norms; norm ", how.group,
                    " is missing"});
      found.factors.push_back(clip_factor(how, is_shared ? groups[how.group] : own_->squares[k]));
    }
    result_ = std::move(found);
  }
  void end(std::initializer_list<piece> why) { links_.end(error(error_code::internal, "push_pull", str_cat(why))); }

  const parameter_store& store_;
  shard_links& links_;
  std::size_t servers_;
  bool are_exchanged_ = false, are_needed_ = false;
  std::vector<std::vector<std::size_t>> orders_;  // of each server's variables
  std::int64_t step_ = -1;
  identity gradients_;  // that own_ is of
  std::optional<squares_message> own_;
  std::optional<result> result_;
};

}  // namespace weft::detail

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <weft/graph/graph.hpp>
#include <weft/session/session.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <weft/distributed/training/shared_variables.hpp>
#endif

namespace weft::detail {

class shared_variables;

/// The part of shared_variables that a replicated session uses, so that files without the exchanges compile nothing
/// else.
class replica_variables {
 public:
  /// Throws the errors of shared_variables' constructor.
  replica_variables(const graph& g, const session_options& options, bool processes_mean);
  ~replica_variables();
  replica_variables(const replica_variables&) = delete;
  replica_variables& operator=(const replica_variables&) = delete;

  shared_variables& all() { return *all_; }
  const graph& of() const;
  session& local();
  std::int64_t global_step() const;
  void set_counters();
  const sequence<std::uint32_t>& effects() const;
  std::size_t trained() const;

 private:
  owned<shared_variables> all_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL replica_variables::replica_variables(const graph& g, const session_options& options,
                                                           bool processes_mean)
    : all_(new shared_variables(g, options, processes_mean)) {}
WEFT_DISTRIBUTED_DECL replica_variables::~replica_variables() = default;

WEFT_DISTRIBUTED_DECL const graph& replica_variables::of() const { return all_->of(); }
WEFT_DISTRIBUTED_DECL session& replica_variables::local() { return all_->local(); }
WEFT_DISTRIBUTED_DECL std::int64_t replica_variables::global_step() const { return all_->global_step; }
WEFT_DISTRIBUTED_DECL void replica_variables::set_counters() { all_->set_counters(); }
WEFT_DISTRIBUTED_DECL const sequence<std::uint32_t>& replica_variables::effects() const { return all_->effects(); }
WEFT_DISTRIBUTED_DECL std::size_t replica_variables::trained() const { return all_->trained(); }
#endif

}  // namespace weft::detail

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/all_reduce.hpp>
#include <weft/distributed/parameter_server.hpp>
#include <weft/weft.hpp>

/// Where a replica's gradients meet the others', and the variables are updated.
enum class meeting { parameter_server_async, parameter_server_sync, all_reduce };

/// One worker's copy of a graph on a cluster (between-graph replication): it computes the gradients of its own batch,
/// and the variables follow by gradient descent on everybody's, on parameter servers or by all-reduce.
///
/// Gradients and variables travel from and to where the session computes with them; there is no copy in between.
class replica {
 public:
  /// Connects to the others and takes over the variables' first values: worker 0's where parameter servers hold them.
  /// Every worker must have built the same graph with the same seed.
  template <weft::Expression Loss, class... P>
  replica(weft::session& s, weft::graph& g, weft::server& here, meeting where, const Loss& loss,
          const weft::feed_list<P...>& feeds, double learning_rate) {
    find_variables(s, g, learning_rate);
    prepare(s, weft::let(loss), feeds);
    // A worker with another seed would have other first values, and another share of the data.
    const std::uint64_t identity = g.hash() ^ (g.seed() * 0x9e3779b97f4a7c15u);
    if (where == meeting::all_reduce) {
      ring_.emplace(here, identity);
    } else {
      weft::shard_by_bytes(variables_, here.cluster().num_tasks("ps"));
      servers_.emplace(
          here, variables_,
          where == meeting::parameter_server_sync ? weft::consistency::synchronous : weft::consistency::asynchronous,
          identity);
      servers_->initialise(const_values_);
      servers_->pull(values_);
    }
  }

  /// Computes the cost and the gradients of a batch.
  template <class... X>
  float gradients(const X&... batch) {
    const weft::detail::fed_value fed[] = {{batch.data(), batch.extents()}...};
    float cost = 0;
    step_->run(fed, [&](std::size_t fetch, const weft::shape&) -> void* {
      return fetch == 0 ? static_cast<void*>(&cost) : memory_.data() + offsets_[fetch - 1];
    });
    return cost;
  }

  /// Brings the gradients to the others and the variables up to date. Returns how many steps have been made in all.
  std::int64_t update() {
    ++step_number_;
    if (servers_) return servers_->push_pull(step_number_, gradients_, values_);
    ring_->mean(std::span(reinterpret_cast<float*>(memory_.data()), memory_.bytes() / sizeof(float)));
    for (std::size_t i = 0; i < variables_.size(); ++i)
      rule_.for_float(floats(values_[i]), floats(gradients_[i]), {}, variables_[i].rule.parameters);
    return step_number_;
  }

  /// Fetches the values that the others have made since, and tells the servers that no more gradients come from here.
  void finish() {
    if (!servers_) return;
    servers_->pull(values_);
    servers_->done();
  }

 private:
  void find_variables(weft::session& s, weft::graph& g, double learning_rate) {
    for (std::uint32_t n = 0; n < g.size(); ++n) {
      if (g[n].what.op != &weft::variable_operation) continue;
      const weft::value_info info = s.variable_info(n);
      nodes_.push_back({&g, {n, 0}});
      variables_.push_back(
          {g[n].name, weft::element_type::float32, info.extents.elements(), 0, {"gradient_descent", {learning_rate}}});
      values_.emplace_back(s.state_of(n).data.data(), info.bytes());
      const_values_.emplace_back(values_.back());
    }
    rule_ = weft::update_rules::find(variables_.front().rule);
  }

  template <class Loss, class... P>
  void prepare(weft::session& s, const Loss& loss, const weft::feed_list<P...>& feeds) {
    static_assert(std::is_same_v<typename Loss::value_type, float> && Loss::dims_type::rank == 0,
                  "a replica minimises one number of type float");
    weft::step_request request;
    request.fetches.push_back(loss.id());
    weft::detail::use_primitives<float>(loss);
    for (const weft::symbol& gradient : weft::detail::gradients(loss.erased(), nodes_))
      request.fetches.push_back(gradient.id());
    std::apply([&](const auto&... p) { (request.feeds.push_back(p.id()), ...); }, feeds.fed);

    // All gradients lie in one block, so that one all-reduce takes them all.
    std::size_t bytes = 0;
    for (const weft::variable_info& v : variables_) {
      offsets_.push_back(bytes);
      bytes += (v.bytes() + weft::alignment - 1) / weft::alignment * weft::alignment;
    }
    memory_ = weft::storage(bytes);
    std::memset(memory_.data(), 0, bytes);
    for (std::size_t i = 0; i < variables_.size(); ++i)
      gradients_.emplace_back(memory_.data() + offsets_[i], variables_[i].bytes());
    step_.emplace(s, std::move(request));
  }

  static std::span<float> floats(weft::mutable_bytes bytes) {
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }
  static std::span<const float> floats(weft::const_bytes bytes) {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  std::vector<weft::symbol> nodes_;
  std::vector<weft::variable_info> variables_;
  std::vector<weft::mutable_bytes> values_;
  std::vector<weft::const_bytes> const_values_, gradients_;
  std::vector<std::size_t> offsets_;
  weft::storage memory_;
  std::optional<weft::prepared_step> step_;
  weft::update_implementation rule_;
  std::optional<weft::basic_parameter_client<>> servers_;
  std::optional<weft::basic_all_reduce<>> ring_;
  std::int64_t step_number_ = 0;
};

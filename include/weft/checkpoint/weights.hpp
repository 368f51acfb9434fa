// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <weft/checkpoint/restore.hpp>
#include <weft/checkpoint/safetensors.hpp>
#include <weft/graph/graph_of.hpp>
#include <weft/graph/variables.hpp>

/// Saves and loads a model's weights in a format that other libraries read.
WEFT_COLD_BEGIN
namespace weft {

/// Writes the trained and the averaged variables of a session, by name, into a safetensors file, atomically. A saver
/// (saver.hpp) saves the complete state of training.
///
/// Throws failed_precondition if a variable has no value yet, and the errors of write_safetensors.
///
/// With a list of variables, writes only these: `save_weights(path, s, {}, variables_in(g, "encoder"))`.
void save_weights(const std::string& path, session& s, const safetensors_metadata& metadata = {},
                  const variable_list& variables = {});

/// Loads variables from a safetensors file, by name: all trained and averaged variables, and others that the file
/// contains. For fine-tuning, load only what fits, under the graph's names:
///
///     load_weights(path, s, {.partial = true, .rename = {{"fc.weight", "dense/weights"}}});
///
/// Tensors of F16, BF16, F32 and F64 are rounded to the floating-point type of the variable.
///
/// Throws invalid_argument if a tensor is missing, extra or of other extents and `partial` is not set; no variable has
/// changed then. Also throws the errors of safetensors_file. If reading fails midway, some variables have the file's
/// values and others keep theirs.
restore_report load_weights(const std::string& path, session& s, const restore_options& options = {});

namespace detail {

/// Selects the variables of a list, or all weights if the list is empty. Throws invalid_argument if they belong to
/// another graph than the session's.
class wanted_variables {
 public:
  wanted_variables(const session& s, const variable_list& variables) : graph_(s.of()) {
    if (variables.size() == 0) return;
    for (const symbol& v : variables.erased()) {
      if (&graph_of(v).self() != &graph_.self())
        throw error(error_code::invalid_argument, "weights", "the variables must belong to the session's graph");
      nodes_.push_back(v.id().node);
    }
    std::sort(nodes_.begin(), nodes_.end());
  }
  bool operator()(std::uint32_t n) const {
    return nodes_.empty() ? is_weight(graph_, n) : std::binary_search(nodes_.begin(), nodes_.end(), n);
  }
  /// With a list, returns options that leave out tensors of other variables.
  restore_options only(const session& s, const restore_options& options) const {
    if (nodes_.empty()) return options;
    restore_options mine = options;
    mine.rename = [this, &s, rename = options.rename](const std::string& name) {
      const std::string renamed = rename(name);
      const std::uint32_t n = s.of().find(renamed);
      return n == graph_node::no_node || (*this)(n) ? renamed : std::string();
    };
    return mine;
  }

 private:
  const graph& graph_;
  std::vector<std::uint32_t> nodes_;
};

}  // namespace detail

inline void save_weights(const std::string& path, session& s, const safetensors_metadata& metadata,
                         const variable_list& variables) {
  const graph& g = s.of();
  const detail::wanted_variables wanted(s, variables);
  std::vector<named_tensor> tensors;
  std::vector<storage> staged;  // copies of variables on GPUs or other tasks
  for (std::uint32_t n = 0; n < g.size(); ++n) {
    if (!detail::records_variable(g, n) || !wanted(n)) continue;
    const plan::variable_state& v = s.state_of(n);
    if (!v.initialized)
      throw error(error_code::failed_precondition, g[n].name,
                  "the variable has no value to save: call set(), or run a step that assigns to it");
    const value_info info = s.variable_info(n);
    const void* data = v.data();
    if (v.where.gpu || !data) {
      staged.emplace_back(info.bytes());
      s.read_variable(n, staged.back().data());
      data = staged.back().data();
    }
    tensors.emplace_back(g[n].name, info.type, info.extents, data);
  }
  write_safetensors(path, tensors, metadata);
}

inline restore_report load_weights(const std::string& path, session& s, const restore_options& options) {
  const safetensors_file file(path);
  std::vector<detail::restorable> tensors;
  for (const safetensors_entry& e : file.entries()) tensors.push_back({&file, &e});
  const detail::wanted_variables wanted(s, options.variables);
  detail::restore_plan plan = detail::plan_restore(s, path, tensors, wanted.only(s, options), wanted, true);
  for (const detail::restored_variable& v : plan.variables)
    detail::restore_variable(s, v,
                             [&](void* to) { detail::read_as(file, *v.from.entry, s.variable_info(v.node).type, to); });
  return std::move(plan.report);
}

}  // namespace weft
WEFT_COLD_END

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <weft/error.hpp>
#include <weft/graph/graph.hpp>
#include <weft/plan/environment.hpp>

namespace weft::detail {

/// The variables of one task. Sessions share them by container and name, even if they run different graphs. Not
/// thread-safe.
class variable_table {
 public:
  struct variable {
    value_info info;
    plan::variable_state state;
    bool is_lost = false;               // the value was lost with an earlier process
    std::shared_ptr<void> memory = {};  // owns the memory if it is on a GPU
  };

  /// Returns null if the variable does not exist. Throws failed_precondition if it has another type, other extents or
  /// another device.
  std::shared_ptr<variable> find(const std::string& container, const std::string& name, const value_info& info,
                                 plan::device_number where) const {
    const auto found = all_.find({container, name});
    if (found == all_.end()) return nullptr;
    const variable& v = *found->second;
    const auto text = [](const value_info& of, plan::device_number on) {
      return str_cat({weft::name(of.type), to_string(of.extents), " on ", plan::to_string(on)});
    };
    const bool is_on_cpu = !v.state.where.gpu && !where.gpu;
    if (v.info.type != info.type || !(v.info.extents == info.extents) || !(is_on_cpu || v.state.where == where))
      throw error(error_code::failed_precondition, name,
                  {"another session's variable of this name is ", text(v.info, v.state.where), ", but this one is ",
                   text(info, where), "; use the same type, extents and device, another name, or another container"});
    return found->second;
  }
  std::shared_ptr<variable> add(const std::string& container, const std::string& name, variable made) {
    return all_[{container, name}] = std::make_shared<variable>(std::move(made));
  }
  /// Drops the container's variables. Sessions that use them start again with new ones.
  void reset(const std::string& container) {
    ++resets_[container];
    auto each = all_.lower_bound({container, {}});
    while (each != all_.end() && each->first.first == container) each = all_.erase(each);
  }
  /// Returns true if the container was reset: values of an earlier process of this task then no longer matter.
  bool has_reset(const std::string& container) const { return resets(container) > 0; }
  /// The number of resets of the container.
  std::uint64_t resets(const std::string& container) const {
    const auto found = resets_.find(container);
    return found == resets_.end() ? 0 : found->second;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::shared_ptr<variable>> all_;
  std::map<std::string, std::uint64_t> resets_;  // by container
};

}  // namespace weft::detail

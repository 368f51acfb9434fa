// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include <weft/queue/resources.hpp>
#include <weft/session/session.hpp>

namespace weft {

namespace detail {

/// A variable that sessions share: their steps read and write its memory.
class shared_value final : public resource {
 public:
  shared_value(std::string declaration, storage first) : data(std::move(first)), declaration_(std::move(declaration)) {}
  void abandon() noexcept override {}  // sessions that use the value keep it
  const std::string& declaration() const noexcept override { return declaration_; }
  std::shared_ptr<resource> make_again() const override { return std::make_shared<shared_value>(declaration_, data); }

  const storage data;

 private:
  const std::string declaration_;
};

inline storage find_or_add_value(const std::string& container, const std::string& variable, const value_info& info,
                                 const storage& first) {
  const std::string declaration = str_cat({"variable ", name(info.type), to_string(info.extents)});
  return resource_table::of_process()
      .find_or_make<shared_value>({.shared_name = variable, .container = container}, declaration,
                                  [&] { return std::make_shared<shared_value>(declaration, first); })
      ->data;
}

}  // namespace detail

/// The variables of a container of this process (tf.container), for session_options. All sessions created with it share
/// one value of each variable name, including slots and counters, even if they run different graphs. The first session
/// sets the value. Throws invalid_argument for another type or other extents, and for the name of a queue.
///
///     session training(g, {.variables = variables_in("jobs")}), testing(h, {.variables = variables_in("jobs")});
///
/// One thread at a time may use these sessions. After reset_containers, existing sessions keep their shared values, and
/// new sessions start anew.
inline variable_sharing variables_in(const std::string& container = {}) {
  return {container, &detail::find_or_add_value};
}

/// Resets these containers in all tasks of the session's target (tf.Session.reset); see reset_containers. The next step
/// of any session starts with new queues and with the initial values of the variables.
inline void reset(session& s, std::initializer_list<std::string> containers = {}) {
  plan::task_support* const tasks = s.resources().tasks;
  if (!tasks) return reset_containers(containers);
  const std::string unnamed;
  if (containers.size() == 0) return tasks->reset_containers(&unnamed, 1);
  tasks->reset_containers(containers.begin(), containers.size());
}

}  // namespace weft

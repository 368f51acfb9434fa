// SPDX-License-Identifier: BSL-1.0
#pragma once

// The programs at random of test/session/random, with random pins.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../session/random/interpreter.hpp"

namespace test {

using namespace weft;
using namespace random_programs;
using doubles = world<double, 4>;

/// A program of `least` to `least + more` steps.
inline random_program pinned_program(unsigned seed, std::size_t least, std::size_t more) {
  std::mt19937 random(seed);
  random_program p{seed, seed % 7 == 0 ? 1 : seed % 5 == 0 ? 17 : 3, {}};
  // What is trained in the middle is differentiated, and does not write.
  const std::size_t n = least + random() % more;
  extend(doubles::known(), p, random, n / 2 + 1, seed % 3 == 0 ? 0 : unsigned{writes});
  while (p.steps.size() < n) extend(doubles::known(), p, random, 1, 0, random() % 4 == 0 ? unsigned{writes} : 0);
  return p;
}

/// A graph with pins. `on(task)` names the device that stands for a task.
struct pinned {
  doubles w;
  values fed, variables;
  sequence<value> fetches;
  std::vector<std::uint32_t> targets;

  template <class On>
  pinned(const random_program& p, unsigned tasks, const On& on) : w(leaves_of(p)) {
    std::mt19937 where(p.seed + 17);
    const device_scope anywhere(w.g, [&](const placement_query& q) {
      if (!(q.requested == device_spec())) return q.requested;
      return where() % 8 == 0 ? device_spec() : on(static_cast<int>(where() % tasks));
    });
    for (std::size_t i = 0; i < p.steps.size(); ++i) {
      random_program more = p;
      more.steps.resize(i + 1);
      if (where() % 4 == 0 && !w.targets.empty()) {
        const control_dependencies after(w.g, effect(symbol(&w.g, {w.targets[where() % w.targets.size()], 0})));
        w.extend(more, i);
      } else {
        w.extend(more, i);
      }
      if (i == p.steps.size() / 2 && p.seed % 3 != 0 && w.targets.empty()) {
        const auto loss = let(w.loss() + 0.1 * sum(square(w.first<doubles::r>())));
        const effect train = p.seed % 3 == 1 ? momentum{.learning_rate = 0.05}.minimize(loss)
                             : p.seed % 2    ? adam{.learning_rate = 0.05, .epsilon = 1e-3}.minimize(loss)
                                             : gradient_descent{.learning_rate = 0.05}.minimize(loss);
        w.targets.push_back(train.erased().id().node);
        fetches.push_back(loss.id());
      }
    }
    set_first_values(w, p, fed, variables);
    fetches.push_back(w.last<doubles::M>().id());
    fetches.push_back(w.last<doubles::R>().id());
    fetches.push_back(w.last<doubles::W>().id());
    fetches.push_back(w.values[w.values.size() / 2].id());
    if (p.seed % 4 == 0) fetches.push_back(w.last<doubles::L>().id());
    if (p.seed % 5 == 0) fetches.push_back(w.last<doubles::P>().id());
    if (p.seed % 6 == 0) fetches.push_back(w.first<doubles::r>().id());
    targets = w.targets;
  }

 private:
  static random_program leaves_of(random_program p) {
    p.steps.clear();
    return p;
  }
};

inline verdict same(const std::string& where, const value_of& found, const value_of& right) {
  if (!(found.extents == right.extents)) return where + " has other extents";
  if (std::memcmp(found.elements.data(), right.elements.data(), right.count() * size_of(right.type)) == 0) return {};
  for (std::size_t e = 0; e < right.count(); ++e)
    if (found.number(e) != right.number(e))
      return where + "[" + std::to_string(e) + "] is " + std::to_string(found.number(e)) + ", not " +
             std::to_string(right.number(e)) + ", a difference of " + std::to_string(found.number(e) - right.number(e));
  return {};  // not-a-number or zero of another sign
}

/// "/job:worker/task:n"
inline device_spec worker(int n) {
  const std::string name = "/job:worker/task:" + std::to_string(n);
  return parse_device(name.data(), name.size());
}

}  // namespace test

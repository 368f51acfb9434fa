#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../session/random/interpreter.hpp"
#include "tasks_in_process.hpp"

using namespace weft;

// The programs at random of test/session/random, with random pins on 1 to 4 tasks: each step yields the bits that one
// session yields which has a CPU device for each task, and so do the variables, the optimizers' among them.
//
//   WEFT_RANDOM_FROM=1234 WEFT_RANDOM_COUNT=1 test_distributed_spanning_random      runs that seed again

namespace {

using namespace random_programs;
using doubles = world<double, 4>;

random_program program(unsigned seed) {
  std::mt19937 random(seed);
  random_program p{seed, seed % 7 == 0 ? 1 : seed % 5 == 0 ? 17 : 3, {}};
  // What is trained in the middle is differentiated, and does not write.
  const std::size_t n = 6 + random() % 18;
  extend(doubles::known(), p, random, n / 2 + 1, seed % 3 == 0 ? 0 : writes);
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

verdict same(const std::string& where, const value_of& found, const value_of& right) {
  if (!(found.extents == right.extents)) return where + " has other extents";
  if (std::memcmp(found.elements.data(), right.elements.data(), right.count() * size_of(right.type)) == 0) return {};
  for (std::size_t e = 0; e < right.count(); ++e)
    if (found.number(e) != right.number(e))
      return where + "[" + std::to_string(e) + "] is " + std::to_string(found.number(e)) + ", not " +
             std::to_string(right.number(e)) + ", a difference of " + std::to_string(found.number(e) - right.number(e));
  return {};  // not-a-number or zero of another sign
}

device_spec task(int n) {
  const std::string name = "/job:worker/task:" + std::to_string(n);
  return parse_device(name.data(), name.size());
}

verdict check_pins(const random_program& p, unsigned tasks, int lanes) {
  const pinned one(p, tasks, [](int t) { return device_spec(cpu{t}); });
  const pinned many(p, tasks, task);
  planned right(one.w.g, one.fetches, one.targets, one.fed, {"one session", static_cast<int>(tasks), 1});
  test::tasks_in_process spread(many.w.g, tasks, {.threads = 1, .inter_op_threads = lanes});
  plan::step_request request;
  request.fetches = many.fetches;
  for (const std::uint32_t t : many.targets) request.targets.push_back(t);
  for (const auto& [v, x] : many.fed) request.feeds.push_back({v.first, v.second});
  test::tasks_in_process::step step(spread, request);
  right.begin(one.variables);
  for (const auto& [v, x] : many.variables) spread.client().write_variable(v.first, x.elements.data());
  std::vector<value_of> found;
  for (const value& f : many.fetches) found.push_back({{}, many.w.g.info(f).type, {}});
  std::vector<plan::fed_value> fed;
  for (const auto& [v, x] : many.fed) fed.push_back({x.elements.data(), x.extents});
  fed.push_back({});
  for (int n = 0; n < 3; ++n) {
    right.in().set_step_number(n);
    spread.client().set_step_number(n);
    const auto& expected = right.run();
    step.run(fed.data(), [&](std::size_t i, const shape& extents) -> void* {
      found[i].extents = extents;
      found[i].elements.assign(extents.elements(), 0);
      return found[i].elements.data();
    });
    const std::string when = "step " + std::to_string(n) + ": ";
    const auto explained = [&](const verdict& bad) {
      std::string text = *bad + "\none session:\n" + right.explain();
      for (std::size_t t = 0; t <= tasks; ++t) text += "task " + std::to_string(t) + ":\n" + step.part(t).explain();
      return text;
    };
    for (std::size_t i = 0; i < found.size(); ++i)
      if (const verdict bad = same(when + many.w.g[many.fetches[i].node].name, found[i], expected[i]))
        return explained(bad);
    verdict bad;
    right.variables([&](std::uint32_t v, const value_of& x) {
      value_of here{x.extents, x.type, std::vector<double>(x.elements.size())};
      spread.client().read_variable(v, here.elements.data());
      if (!bad) bad = same(when + "the variable " + many.w.g[v].name, here, x);
    });
    if (bad) return explained(bad);
  }
  return {};
}

verdict check_one_lane(const random_program& p) { return check_pins(p, 1 + p.seed % 4, 1); }
verdict check_two_lanes(const random_program& p) { return check_pins(p, 1 + p.seed % 4, 2); }

}  // namespace

BOOST_AUTO_TEST_CASE(steps_on_several_tasks_yield_the_bits_of_one_session) {
  run_seeds(doubles::known(), "pins", program, check_one_lane, 0, slow ? 60 : 400);
}
BOOST_AUTO_TEST_CASE(steps_on_several_tasks_with_two_lanes) {
  run_seeds(doubles::known(), "pins and lanes", program, check_two_lanes, 100000, slow ? 20 : 100);
}

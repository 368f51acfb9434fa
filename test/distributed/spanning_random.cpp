// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "pinned_programs.hpp"
#include "tasks_in_process.hpp"

using namespace weft;

// The programs at random of test/session/random, with random pins on 1 to 4 tasks: each step yields the bits that one
// session yields which has a CPU device for each task, and so do the variables, the optimizers' among them.
//
//   WEFT_RANDOM_FROM=1234 WEFT_RANDOM_COUNT=1 test_distributed_spanning_random      runs that seed again

namespace {

using namespace test;

random_program program(unsigned seed) { return pinned_program(seed, 6, 18); }

verdict check_pins(const random_program& p, unsigned tasks, int lanes) {
  const pinned one(p, tasks, [](int t) { return device_spec(cpu{t}); });
  const pinned many(p, tasks, worker);
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

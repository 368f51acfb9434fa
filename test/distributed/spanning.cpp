// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "errors.hpp"
#include "tasks_in_process.hpp"

using namespace weft;

namespace {

/// Runs a step on `count` tasks, feeding floats.
template <class Fetch>
std::vector<float> run_on(test::tasks_in_process& tasks, const Fetch& fetched, const sequence<value>& feeds,
                          const std::vector<std::vector<float>>& fed, const std::vector<std::uint32_t>& targets = {}) {
  plan::step_request request;
  request.fetches = {fetched.id()};
  request.feeds = feeds;
  for (const std::uint32_t t : targets) request.targets.push_back(t);
  test::tasks_in_process::step s(tasks, request);
  std::vector<plan::fed_value> values;
  for (const auto& f : fed) values.push_back({f.data(), shape(static_cast<std::int64_t>(f.size()))});
  values.push_back({});
  std::vector<float> found;
  s.run(values.data(), [&](std::size_t, const shape& extents) -> void* {
    found.resize(extents.elements());
    return found.data();
  });
  return found;
}

device_spec task(int n) { return parse_device(("/job:worker/task:" + std::to_string(n)).c_str(), 18); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_product_of_two_tasks) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"n">>>(g);
  const auto y = placeholder<float, dims<dyn<"n">>>(g);
  const auto on = [&](int t, auto make) {
    const device_scope there(g, task(t));
    return make();
  };
  const auto a = on(0, [&] { return let(x * 2.0f); });
  const auto b = on(1, [&] { return let(y + a); });
  const auto c = on(2, [&] { return let(b * a); });
  test::tasks_in_process tasks(g, 3);
  const auto found = run_on(tasks, c, {x.id(), y.id()}, {{1, 2, 3}, {10, 20, 30}});
  BOOST_TEST(found == (std::vector<float>{24, 96, 216}), boost::test_tools::per_element());
  // x, a to two tasks, y, b, c: each once.
  BOOST_TEST(tasks.sent() == 6u);
}

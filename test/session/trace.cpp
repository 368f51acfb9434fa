// SPDX-License-Identifier: BSL-1.0
// Checks what a trace records, and that others can read it.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>
#include <weft/session/trace.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::failure;

BOOST_AUTO_TEST_CASE(each_kernel_of_each_step_is_recorded_on_its_lane_and_after_what_it_needs) {
  graph g;
  const auto x = placeholder<float, dims<200, 200>>(g, "x");
  const auto first = let(exp(x), "a \"quoted\" name");
  const auto other = [&] {
    auto there = with_device(g, cpu{1});
    return let(matmul(first, first), "product");
  }();
  session s{g, {.threads = 1, .devices = 2}};
  auto step = s.prepare(fetch(sum(other)), feed(x));
  const tensor<float, dims<200, 200>> in;
  step(in);
  std::string text;
  {
    trace t(s);
    BOOST_TEST(t.json() == "[\n]\n");
    step(in);
    step(in);
    BOOST_TEST(t.kernels() == 6);
    CHECK_SAYS(failure(error_code::failed_precondition, [&] { trace second(s); }),
               "another trace records this session already");
    CHECK_SAYS(failure(error_code::not_found, [&] { t.write("/no such folder/step.json"); }), "/no such folder");
    t.write("trace_test.json");
    text = t.json();
  }
  BOOST_TEST(s.observer() == nullptr);
  step(in);
  for (const char* part : {"\"cpu:0\"", "\"cpu:1\"", "matmul 200x200x200", "\"step\":1"}) CHECK_SAYS(text, part);
  const char* check =
      "python3 -c \"\n"
      "import json\n"
      "ran = [e for e in json.load(open('trace_test.json')) if e['ph'] == 'X']\n"
      "assert len(ran) == 6 and all(e['dur'] > 0 for e in ran), ran\n"
      "for step in 0, 1:\n"
      "    a, product, total = [e for e in ran if e['args']['step'] == step]\n"
      "    assert a['name'] == 'a \\\"quoted\\\" name' and product['name'] == 'product', ran\n"
      "    assert a['tid'] != product['tid'] and product['ts'] >= a['ts'] + a['dur'], ran\n"
      "\"";
  BOOST_TEST(std::system(check) == 0);
}

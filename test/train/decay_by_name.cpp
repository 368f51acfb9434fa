// SPDX-License-Identifier: BSL-1.0
// Weight decay of some variables, which patterns of names choose (make_decay_values.py).
#include <string>

#include <boost/test/unit_test.hpp>
#include <weft/nn.hpp>
#include <weft/train/adamw.hpp>
#include <weft/train/clipping.hpp>
#include <weft/train/matching.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "ops/values_of.hpp"

using namespace weft;

namespace {

template <class D>
tensor<double, D> numbers(int which) {
  tensor<double, D> t;
  for (std::size_t i = 0; i < t.elements(); ++i)
    t.data()[i] =
        static_cast<double>(static_cast<int>(i * 7919 + static_cast<std::size_t>(31 * which)) % 257 - 128) / 128;
  return t;
}

struct network {
  nn::dense<5, 3, double> first{.activation = nn::tanh};
  nn::dense<2, 5, double> second;
};

std::string names(const variable_list& list) {
  std::string all;
  for (const variable_description& v : list.descriptions()) all += v.name + " ";
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_optimizers_are_the_groups_of_pytorch) {
  static const values_of right(TEST_DATA "/train/torch_decay_values.txt");
  graph g;
  const auto x = placeholder<double, dims<4, 3>>(g, "x");
  const auto target = placeholder<double, dims<4, 2>>(g, "target");
  const auto net = nn::named(network(), "net");
  const auto loss = let(sum(square(net.second(net.first(x)) - target)));
  const auto clipped = clip_by_global_norm(compute_gradients(loss, nn::parameters(net)), 0.5);
  const auto train =
      group(adamw{.learning_rate = 0.1, .weight_decay = 0.25}.apply_gradients(not_matching(clipped, {"*/bias"})),
            adamw{.learning_rate = 0.1, .weight_decay = 0}.apply_gradients(matching(clipped, {"*/bias"})));
  session s{g};
  s.set(net.first.weights, numbers<dims<3, 5>>(3));
  s.set(net.first.bias, numbers<dims<5>>(4));
  s.set(net.second.weights, numbers<dims<5, 2>>(5));
  s.set(net.second.bias, numbers<dims<2>>(6));
  for (int i = 0; i < 3; ++i)
    s.run(fetch(train), with(x, numbers<dims<4, 3>>(1)), with(target, numbers<dims<4, 2>>(2)));
  right.check("first/weights", s.get(net.first.weights), 1e-7);  // clip_grad_norm_ divides by the norm + 1e-6
  right.check("first/bias", s.get(net.first.bias), 1e-7);
  right.check("second/weights", s.get(net.second.weights), 1e-7);
  right.check("second/bias", s.get(net.second.bias), 1e-7);
}

BOOST_AUTO_TEST_CASE(patterns_match_whole_names) {
  graph g;
  const auto net = nn::named(network(), "net");
  net.second(net.first(placeholder<double, dims<4, 3>>(g, "x")));
  const variable_list all = nn::parameters(net);
  BOOST_CHECK_EQUAL(names(matching(all, {"*/bias"})), "net/first/bias net/second/bias ");
  BOOST_CHECK_EQUAL(names(not_matching(all, {"*/bias", "net/first/*"})), "net/second/weights ");
  BOOST_CHECK_EQUAL(names(matching(all, {"*s*s"})),
                    "net/first/weights net/first/bias net/second/weights net/second/bias ");
  BOOST_CHECK_EQUAL(names(matching(all, {"net/first/bias"})), "net/first/bias ");
  BOOST_CHECK_EQUAL(matching(all, {"*"}).size(), 4u);
  BOOST_CHECK_EQUAL(not_matching(all, {"**"}).size(), 0u);
  for (const char* const none : {"bias", "*/bia", "net", "", "*/bias?"})
    BOOST_CHECK_EXCEPTION(static_cast<void>(not_matching(all, {none})), weft::error,
                          test::says(error_code::not_found, "its first variable is \"net/first/weights\""));
}

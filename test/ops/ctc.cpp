// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <weft/ops/losses/ctc_decoder.hpp>
#include <weft/ops/losses/ctc_loss.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"
#include "session_on_cpu.hpp"

using namespace weft;

// ctc_loss and its decoders, against PyTorch and TensorFlow (make_ctc_values.py).

namespace {

using integers = dims<dyn<"batch">>;
using logits = dims<dyn<"batch">, dyn<"time">, 4>;
using label_rows = dims<dyn<"batch">, dyn<"labels">>;

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/ctc_values.txt");
  return all;
}
template <class T>
tensor<T, logits> x(std::int64_t rows = 6) {
  const auto all = right().tensor<T, dims<6, 6, 4>>("x");
  tensor<T, logits> some{shape(rows, 6, 4)};
  for (std::size_t i = 0; i < some.elements(); ++i) some.data()[i] = all.data()[i];
  return some;
}
template <class T, class D>
tensor<T, D> first(const char* name, const shape& extents) {
  tensor<T, D> some{extents};
  for (std::size_t i = 0; i < some.elements(); ++i) some.data()[i] = static_cast<T>(right()[name][i]);
  return some;
}
template <class T>
void check(const std::string& name, const T& found, double tolerance) {
  const auto& all = right()[name];
  BOOST_REQUIRE_EQUAL(found.elements(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double a = static_cast<double>(found.data()[i]), b = all[i];
    BOOST_CHECK_MESSAGE(a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * (1 + std::abs(b)),
                        name << "[" << i << "] is " << a << ", not " << b);
  }
}

template <class T>
void check_loss(const std::string& name, std::int64_t rows, ctc_options options, double tolerance,
                std::int32_t most = 3) {
  const auto labels = eval(minimum(first<std::int32_t, label_rows>("labels", shape(rows, 3)), most));
  const auto frames = first<std::int64_t, integers>("frames", shape(rows));
  const auto counts = first<std::int32_t, integers>("counts", shape(rows));
  check(name, ctc_loss(x<T>(rows), labels, frames, counts, options), tolerance);
  graph g;
  const auto p = placeholder<T, logits>(g, "p");
  const auto y = ctc_loss(p, labels, frames, counts, options);
  const auto [d] = gradients(sum(2 * y), p);
  session s{g, {.threads = 2}};
  const auto [loss, gradient] = s.run(fetch(y, d), with(p, x<T>(rows)));
  check(name, loss, tolerance);
  check(name + ".gradient", gradient, tolerance);
  check(name, s.eval(y, with(p, x<T>(rows))), tolerance);  // without a gradient
}

}  // namespace

BOOST_AUTO_TEST_CASE(losses) {
  check_loss<double>("loss_0", 6, {}, 1e-12);
  check_loss<double>("loss_1", 6, {.zero_infinity = true}, 1e-12);
  check_loss<float>("loss_0", 6, {}, 2e-6);
  check_loss<double>("last_blank", 3, {.blank = -1}, 1e-5, 2);
  check_loss<double>("last_blank", 3, {.blank = 3}, 1e-5, 2);
}

BOOST_AUTO_TEST_CASE(long_sequences_have_finite_losses) {
  constexpr std::int64_t frames = 2000;
  const tensor<float, dims<1, frames, 3>> even{};
  const tensor<int, dims<1, 1>> label{1};
  const tensor<int, dims<1>> n{static_cast<int>(frames)}, one{1};
  // A label takes one of n (n + 1) / 2 ranges of frames.
  const double all = std::log(frames * (frames + 1) / 2.0) - frames * std::log(3.0);
  BOOST_CHECK_CLOSE(static_cast<double>(ctc_loss(even, label, n, one)(0)), -all, 1e-4);
}

BOOST_AUTO_TEST_CASE(gradient_by_differences) {
  gradient_check check;
  const auto p = check.input<dims<3, 5, 4>>();
  const tensor<int, dims<3, 3>> labels{1, 2, 2, 3, 3, 0, 0, 0, 0};
  const tensor<int, dims<3>> frames{5, 4, 5}, counts{3, 2, 0};
  check("ctc_loss", ctc_loss(p, labels, frames, counts), 1);
}

BOOST_AUTO_TEST_CASE(there_is_no_second_gradient) {
  graph g;
  const auto p = placeholder<float, dims<1, 3, 4>>(g, "p");
  const tensor<int, dims<1, 1>> label{1};
  const tensor<int, dims<1>> n{3}, one{1};
  const auto d = std::get<0>(gradients(sum(ctc_loss(p, label, n, one)), p));
  CHECK_SAYS(test::failure(error_code::unimplemented, [&] { static_cast<void>(gradients(sum(square(d)), p)); }),
             "no gradient of its gradient");
}

BOOST_AUTO_TEST_CASE(operands_out_of_range) {
  const tensor<float, dims<1, 3, 4>> p{};
  const tensor<int, dims<1>> n{3}, one{1}, five{5}, minus{-1};
  const tensor<int, dims<1, 1>> label{1}, four{4};
  const auto refused = [&](const auto&... operands) {
    CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(ctc_loss(p, operands...)); }), "row 0");
  };
  refused(four, n, one), refused(label, five, one), refused(label, minus, one), refused(label, n, five);
  CHECK_SAYS(
      test::failure(error_code::invalid_argument, [&] { static_cast<void>(ctc_loss(p, label, n, one, {.blank = 4})); }),
      "the blank must be one of the 4 classes; it is 4");
  CHECK_SAYS(test::failure(error_code::out_of_range, [&] { static_cast<void>(ctc_greedy_decoder(p, five)); }), "row 0");
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { static_cast<void>(ctc_beam_search_decoder<3>(p, n, {.beam_width = 2})); }),
             "a beam of width 2 has no 3 paths");
  BOOST_CHECK_EQUAL(ctc_loss(tensor<float, dims<0, 3, 4>>{}, tensor<int, dims<0, 1>>{}, tensor<int, dims<0>>{},
                             tensor<int, dims<0>>{})
                        .elements(),
                    0u);
}

BOOST_AUTO_TEST_CASE(decoders) {
  const auto frames = first<std::int32_t, integers>("frames", shape(5));
  graph g;
  const auto p = placeholder<float, logits>(g, "p");
  session_on_cpu s{g, {.threads = 2}};
  for (const bool merged : {false, true}) {
    const std::string name = merged ? "greedy_1" : "greedy_0";
    const ctc_greedy_options options{.blank = -1, .merge_repeated = merged};
    const auto [labels, lengths, scores] = ctc_greedy_decoder(x<float>(5), frames, options);
    check(name, labels, 0);
    check(name + ".score", scores, 1e-6);
    for (int i = 0; i < 5; ++i)
      for (int t = 0; t < 6; ++t) BOOST_CHECK_EQUAL(labels(i, t) >= 0, t < lengths(i));
    const auto in_graph = ctc_greedy_decoder(p, frames, options);
    check(name, s.eval(in_graph.labels, with(p, x<float>(5))), 0);
  }
  for (const std::size_t width : {std::size_t{100}, std::size_t{3}}) {
    const std::string name = "beam_" + std::to_string(width);
    const auto found = ctc_beam_search_decoder<3>(x<double>(5), frames, {.blank = 3, .beam_width = width});
    check(name, found.labels, 0);
    check(name + ".score", found.log_probabilities, 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(a_wide_beam_finds_the_probabilities_of_ctc_loss) {
  constexpr int paths = 40;
  const auto frames = first<std::int32_t, integers>("frames", shape(6));
  const auto [labels, lengths, scores] = ctc_beam_search_decoder<paths>(x<double>(), frames, {.beam_width = 5000});
  for (int i = 0; i < 6; ++i)
    for (int k = 0; k < paths; ++k) {
      if (lengths(i, k) < 0) {
        BOOST_CHECK(k >= (i == 3 ? 25 : 1) && (i == 3 || i == 5));  // three frames and none have no more sequences
        BOOST_CHECK_EQUAL(scores(i, k), -std::numeric_limits<double>::infinity());
        continue;
      }
      tensor<int, dims<1, 6>> label{};
      for (int t = 0; t < lengths(i, k); ++t) label(0, t) = labels(i, k, t);
      tensor<double, dims<1, 6, 4>> row;
      std::copy_n(x<double>().data() + i * 24, 24, row.data());
      const double loss = ctc_loss(row, label, tensor<int, dims<1>>{frames(i)}, tensor<int, dims<1>>{lengths(i, k)})(0);
      BOOST_CHECK_SMALL(loss + scores(i, k), 1e-9);
    }
}

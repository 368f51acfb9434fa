// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>
#include <weft/graph/checkpointed.hpp>
#include <weft/graph/debugging.hpp>
#include <weft/graph/random.hpp>
#include <weft/ops/assign_slice.hpp>
#include <weft/ops/gpu/all.hpp>
#include <weft/ops/gpu/matmul.hpp>
#include <weft/ops/index/assign_scatter.hpp>
#include <weft/ops/index/copy_rows.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/session/gpu_session.hpp>
#include <weft/session/trace.hpp>
#include <weft/train/loss_scale.hpp>
#include <weft/train/moving_average.hpp>
#include <weft/weft.hpp>
#include "emulated.hpp"

#include "errors.hpp"

using namespace weft;
using test::failure;

namespace {

template <class A, class B>
void check_close(const A& a, const B& b, double tolerance = 1e-5) {
  BOOST_REQUIRE_EQUAL(a.elements(), b.elements());
  for (std::size_t i = 0; i < a.elements(); ++i)
    BOOST_CHECK_SMALL(double(a.data()[i]) - double(b.data()[i]), tolerance);
}

/// The classifier, small.
struct classifier {
  graph g;
  node<float, dims<dyn<"batch">, 20>> x = placeholder<float, dims<dyn<"batch">, 20>>(g, "x");
  node<std::int32_t, dims<dyn<"batch">>> y = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "y");
  variable_node<float, dims<20, 12>> w1 = variable<float, dims<20, 12>>(g, "w1", init::normal{.stddev = 0.3f});
  variable_node<float, dims<12>> b1 = variable<float, dims<12>>(g, "b1", init::zeros{});
  variable_node<float, dims<12, 5>> w2 = variable<float, dims<12, 5>>(g, "w2", init::normal{.stddev = 0.3f});
  variable_node<float, dims<5>> b2 = variable<float, dims<5>>(g, "b2", init::zeros{});
  node<float, dims<dyn<"batch">, 5>> logits = let(matmul(sigmoid(matmul(x, w1) + b1), w2) + b2);
  node<float, dims<>> loss = mean(softmax_cross_entropy(logits, y));
  effect train = gradient_descent{.learning_rate = 0.2}.minimize(loss);

  static auto images(std::int64_t n) {
    tensor<float, dims<dyn<"batch">, 20>> t(shape(n, 20));
    for (std::int64_t i = 0; i < n * 20; ++i) t.data()[i] = std::sin(0.37f * static_cast<float>(i));
    return t;
  }
  static auto classes(std::int64_t n) {
    tensor<std::int32_t, dims<dyn<"batch">>> t{shape(n)};
    for (std::int64_t i = 0; i < n; ++i) t.data()[i] = static_cast<std::int32_t>((i * 7 + 3) % 5);
    return t;
  }
};

const session_options on_gpu{.threads = 1, .device = cuda{0}};
const session_options on_cpu{.threads = 1};

/// Trains with a step of a GPU and with the host, on batches of n(0), n(1), ..., and compares the costs.
template <class Step, class Extent>
void check_costs(const classifier& m, Step& step, session& host, int steps, Extent n) {
  auto same = host.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  for (int i = 0; i < steps; ++i) {
    const auto x = classifier::images(n(i));
    const auto y = classifier::classes(n(i));
    BOOST_CHECK_SMALL(std::get<0>(step(x, y)) - std::get<0>(same(x, y)), 1e-5f);
  }
}
std::int64_t four(int) { return 4; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_on_a_gpu_trains_as_one_on_the_cpu_does) {
  gpu::emulated_platform gpus;
  classifier m;
  session host{m.g, on_cpu}, device{m.g, on_gpu};
  auto step = device.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  check_costs(m, step, host, 20, [](int i) { return i % 3 == 0 ? 7 : 16; });  // two sets of extents, in turn
  check_close(host.eval(m.w1), device.eval(m.w1));
  check_close(host.eval(m.b2), device.eval(m.b2));
  BOOST_TEST(gpus.device(0).mistakes().empty());
}

namespace {

/// Kernels of a step of an optimizer of 150 variables, whose values have the bits of a CPU's.
template <class Optimizer>
std::size_t kernels_of_updates(gpu::emulated_platform& gpus, const Optimizer& optimizer) {
  graph g;
  variable_gradients<float> pairs;
  const auto add = [&](auto extents, int i) {
    using D = decltype(extents);
    auto of_w = variable<float, D>(g, "gradient" + std::to_string(i), init::uniform{-1, 1});
    auto w = variable<float, D>(g, "w" + std::to_string(i), init::uniform{-1, 1});
    pairs.pairs.push_back({of_w.erased(), w.erased()});
    return w;
  };
  std::vector<variable_node<float, dims<37>>> small;
  std::vector<variable_node<float, dims<5003>>> large;
  for (int i = 0; i < 150; ++i)
    if (i % 50 == 17)
      large.push_back(add(dims<5003>(), i));
    else if (i % 50 == 18)
      add(dims<0>(), i);
    else
      small.push_back(add(dims<37>(), i));
  const auto train = apply_gradients(optimizer, pairs);
  session host{g, on_cpu}, device{g, on_gpu};
  auto step = device.prepare(fetch(train)), same = host.prepare(fetch(train));
  const auto before = gpus.device(0).count().kernels;
  step(), same();
  const auto kernels = gpus.device(0).count().kernels - before;
  for (int i = 0; i < 2; ++i) step(), same();
  const auto check = [&](const auto& variables) {
    int differ = 0;
    for (const auto& w : variables) {
      const auto a = device.get(w), b = host.get(w);
      differ += !std::equal(a.begin(), a.end(), b.begin());
    }
    BOOST_TEST(differ == 0);
  };
  check(small), check(large);
  CHECK_SAYS(step.explain(), ", 150 variables");
  BOOST_TEST(gpus.device(0).mistakes().empty());
  return kernels;
}

}  // namespace

// As many variables as CUDA takes the addresses of: 128, 90 and 64 with their slots, each time.
BOOST_AUTO_TEST_CASE(all_variables_are_updated_by_few_launches) {
  gpu::emulated_platform gpus;
  BOOST_TEST(kernels_of_updates(gpus, gradient_descent{}) == 2u);
  BOOST_TEST(kernels_of_updates(gpus, momentum{}) == 2u);
  BOOST_TEST(kernels_of_updates(gpus, adam{.learning_rate = 0.01}) == 6u);
}

BOOST_AUTO_TEST_CASE(a_step_is_recorded_on_its_second_run_with_given_extents_and_then_only_launched) {
  gpu::emulated_platform gpus;
  classifier m;
  session s{m.g, on_gpu};
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  const auto x = classifier::images(16), small = classifier::images(3);
  const auto y = classifier::classes(16), few = classifier::classes(3);
  const auto& count = gpus.device(0).count();
  step(x, y);
  BOOST_TEST(count.recordings == 0u);
  step(x, y);
  BOOST_TEST(count.recordings == 1u);
  const auto recordings = count.recordings, launches = count.launches, kernels = count.kernels;
  const auto allocations = count.allocations, host = count.host_allocations, pageable = count.pageable_copies;
  for (int i = 0; i < 5; ++i) step(x, y);
  BOOST_TEST(count.recordings == recordings);
  BOOST_TEST(count.launches == launches);
  BOOST_TEST(count.kernels > kernels);
  BOOST_TEST(count.allocations == allocations);
  BOOST_TEST(count.host_allocations == host);
  BOOST_TEST(count.pageable_copies == pageable);
  step(small, few);
  BOOST_TEST(count.recordings == recordings);
  step(small, few);
  BOOST_TEST(count.recordings == recordings + 1);
  step(x, y), step(small, few);
  BOOST_TEST(count.recordings == recordings + 1);
  CHECK_SAYS(step.explain(), "stage gpu:0");
  CHECK_SAYS(step.explain(), "launched as a whole");
  CHECK_SAYS(step.explain(), "copy from the host");
}

BOOST_AUTO_TEST_CASE(a_recorded_step_draws_new_numbers_each_time_it_is_launched) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<300>>(g, "x");
  auto y = dropout(x, 0.5);
  auto z = let(y + random_uniform<float, dims<300>>(g, 0, 0.5));
  session s{g, on_gpu}, host{g, on_cpu};
  auto step = s.prepare(fetch(y, z), feed(x)), same = host.prepare(fetch(y, z), feed(x));
  tensor<float, dims<300>> ones;
  for (std::size_t i = 0; i < ones.elements(); ++i) ones.data()[i] = 1;
  const auto& count = gpus.device(0).count();
  std::vector<std::vector<float>> drawn;
  const auto check = [&] {
    const auto [a, b] = step(ones);
    const auto [c, d] = same(ones);
    BOOST_TEST(std::vector<float>(a.begin(), a.end()) == std::vector<float>(c.begin(), c.end()));
    BOOST_TEST(std::vector<float>(b.begin(), b.end()) == std::vector<float>(d.begin(), d.end()));
    for (const auto& before : drawn) BOOST_TEST((before != std::vector<float>(a.begin(), a.end())));
    drawn.emplace_back(a.begin(), a.end());
  };
  check(), check();
  const auto launches = count.launches, kernels = count.kernels;
  for (int i = 0; i < 4; ++i) check();
  BOOST_TEST(count.recordings == 1u);
  BOOST_TEST(count.launches == launches);
  BOOST_TEST(count.kernels == kernels + 4 * 3);
  session restarted{g, on_gpu};
  restarted.set_step_number(2);
  const auto again = std::get<0>(restarted.run(fetch(y, z), with(x, ones)));
  BOOST_TEST((drawn[2] == std::vector<float>(again.begin(), again.end())));
  gpus.fail_execution(1);
  BOOST_CHECK_THROW(step(ones), error);
  BOOST_TEST(s.step_number() == 6);  // it has not run
}

BOOST_AUTO_TEST_CASE(a_dropout_rate_out_of_range_makes_nans) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<300>>(g, "x");
  auto rate = placeholder<float>(g, "rate");
  session s{g, on_gpu};
  auto step = s.prepare(fetch(dropout(x, rate)), feed(x, rate));
  for (const float wrong : {1.0f, -0.5f})
    for (const float e : step(tensor<float, dims<300>>{}, wrong)) BOOST_TEST(std::isnan(e));
  for (const float e : step(tensor<float, dims<300>>{}, 0.5f)) BOOST_TEST(e == 0);
}

BOOST_AUTO_TEST_CASE(a_dropout_runs_on_the_gpu_that_its_scope_names) {
  gpu::emulated_platform gpus;
  graph g;
  auto w = variable<float, dims<300>>(g, "w", init::ones{});
  const auto beside = [&] {
    const auto scope = colocate_with(g, w);
    return dropout(w * 2.0f, 0.5);
  }();
  const auto asked = [&] {
    const auto scope = with_device(g, cuda{0});
    return dropout(w, 0.5);
  }();
  session s{g, on_gpu}, host{g, on_cpu};
  CHECK_SAYS(s.explain(beside), "on /device:GPU:0");
  CHECK_SAYS(s.explain(asked), "on /device:GPU:0: the node names it");
  const auto [a, b] = s.run(fetch(beside, asked));
  const auto c = host.eval(beside);
  BOOST_TEST(std::vector<float>(a.begin(), a.end()) == std::vector<float>(c.begin(), c.end()));
}

BOOST_AUTO_TEST_CASE(explain_says_why_a_convolution_is_a_plain_kernel) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<1, 4, 4, 2>>(g, "x");
  auto w = variable<float, dims<3, 3, 2, 5>>(g, "w", init::normal{});
  auto y = let(relu(conv2d(x, w)));
  session s{g, on_gpu};
  auto step = s.prepare(fetch(y), feed(x));
  step(tensor<float, dims<1, 4, 4, 2>>{});
  CHECK_SAYS(step.explain(), "conv2d, plain kernel: this program was built without cuDNN, then");
}

BOOST_AUTO_TEST_CASE(without_recording_kernels_are_launched_one_by_one) {
  gpu::emulated_platform gpus;
  classifier m;
  session_options o = on_gpu;
  o.gpu.record_steps = false;
  session s{m.g, o}, host{m.g, on_cpu};
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  check_costs(m, step, host, 3, four);
  BOOST_TEST(gpus.device(0).count().recordings == 0u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_recorded_is_launched_one_by_one) {
  gpu::emulated_platform gpus;
  classifier m;
  session s{m.g, on_gpu}, host{m.g, on_cpu};
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  gpus.break_recording(2);
  check_costs(m, step, host, 3, four);
  BOOST_TEST(gpus.device(0).count().recordings == 0u);
  CHECK_SAYS(step.explain(), "launched one by one");
  for (int i = 0; i < 2; ++i) step(classifier::images(5), classifier::classes(5));  // other extents: recorded
  BOOST_TEST(gpus.device(0).count().recordings == 1u);
}

BOOST_AUTO_TEST_CASE(scopes_place_parts_of_a_graph_and_values_are_copied_between_them) {
  gpu::emulated_platform gpus({.devices = 2});
  graph g;
  auto x = placeholder<float, dims<6>>(g, "x");
  auto v = variable<float, dims<6>>(g, "v", init::constant{2});  // on the CPU
  node<float, dims<6>> a = let(x + v);                           // CPU
  auto first = [&] {
    auto here = with_device(g, cuda{0});
    return let(exp(a * 0.1f));
  }();
  auto second = [&] {
    auto here = with_device(g, cuda{1});
    return let(first * first + v);
  }();
  auto back = let(second - a, "back");  // CPU
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(back, second, first), feed(x));
  for (int i = 0; i < 3; ++i) {
    tensor<float, dims<6>> in;
    for (int k = 0; k < 6; ++k) in.data()[k] = static_cast<float>(k + i);
    const auto [r, sec, fir] = step(in);
    for (int k = 0; k < 6; ++k) {
      const double av = in.data()[k] + 2, f = std::exp(av * 0.1);
      BOOST_CHECK_CLOSE(double(fir.data()[k]), f, 1e-3);
      BOOST_CHECK_CLOSE(double(sec.data()[k]), f * f + 2, 1e-3);
      BOOST_CHECK_CLOSE(double(r.data()[k]), f * f + 2 - av, 1e-3);
    }
  }
  CHECK_SAYS(step.explain(), "copy from another GPU");
  CHECK_SAYS(step.explain(), "copy to the host");
  CHECK_SAYS(step.explain(), "back on /device:CPU:0: the session's own choice");
}

BOOST_AUTO_TEST_CASE(variables_live_where_they_are_placed_and_keep_the_rules_of_reading_and_writing) {
  gpu::emulated_platform gpus;
  graph g;
  auto here = with_device(g, cuda{0});
  auto v = variable<float, dims<4>>(g, "v", init::constant{1});
  auto doubled = let(v * 2.0f);
  auto write = assign(v, doubled + 1.0f);
  auto host_view = [&] {
    auto on_host = with_device(g, cpu{0});
    return let(v + 10.0f);
  }();
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(v, write, doubled, host_view));
  float value = 1;
  for (int i = 0; i < 3; ++i) {
    const auto [old, now, twice, seen] = step();
    BOOST_TEST(old.data()[3] == value);
    BOOST_TEST(twice.data()[0] == 2 * value);
    BOOST_TEST(seen.data()[1] == value + 10);
    value = 2 * value + 1;
    BOOST_TEST(now.data()[2] == value);
  }
  BOOST_TEST(s.eval(v).data()[0] == value);
  BOOST_TEST(s.get(v)(3) == value);
  s.set(v, tensor<float, dims<4>>{1, 2, 3, 4});
  BOOST_TEST(std::get<3>(step())(2) == 13);
  BOOST_TEST(s.get(v)(3) == 9);
}

BOOST_AUTO_TEST_CASE(slices_of_variables_are_written_where_the_variables_are) {
  gpu::emulated_platform gpus;
  graph g;
  const auto cache = variable<float, dims<3, 5, 2>>(g, "cache", init::ones{});
  const auto at = placeholder<std::int64_t>(g, "at");
  const auto keys = placeholder<float, dims<3, 2, 2>>(g, "keys");
  const auto put = assign_slice<1>(cache, at, keys);
  session host{g, on_cpu}, device{g, on_gpu};
  tensor<float, dims<3, 2, 2>> in;
  for (int i = 0; i < 12; ++i) in.data()[i] = static_cast<float>(i);
  for (const std::int64_t begin : {0, 3, 2})
    check_close(host.eval(put, with(at, begin), with(keys, in)), device.eval(put, with(at, begin), with(keys, in)), 0);
  check_close(host.get(cache), device.get(cache), 0);
  const auto each = placeholder<std::int32_t, dims<3>>(g, "each");
  const auto put_each = assign_slice<1>(cache, each, keys);
  const tensor<std::int32_t, dims<3>> places{3, 0, 2}, sources{2, 1, 2}, counts{4, 5, 0};
  check_close(host.eval(put_each, with(each, places), with(keys, in)),
              device.eval(put_each, with(each, places), with(keys, in)), 0);
  const auto number = placeholder<std::int32_t, dims<3>>(g, "number");
  const auto half_cache = variable<half, dims<3, 5, 1>>(g, "half", init::normal{});
  const auto copied = [&](const auto& v) {
    return std::remove_cvref_t<decltype(v)>(
        record<copy_rows_op>({v.erased(), each.erased(), number.erased()}, v.erased().info(), {1}));
  };
  const auto rows_copied = copied(cache);
  const auto halves_copied = copied(half_cache);
  const auto run = [&](session& s, const auto& v) { return s.eval(v, with(each, sources), with(number, counts)); };
  const auto before = host.get(cache), after = run(host, rows_copied);
  for (int k = 0; k < 5; ++k) BOOST_TEST(after(0, k, 1) == before(k < 4 ? 2 : 0, k, 1));
  check_close(after, run(device, rows_copied), 0);
  const tensor<float, dims<3, 5, 1>> halves = cast<float>(run(host, halves_copied));
  check_close(halves, tensor<float, dims<3, 5, 1>>(cast<float>(run(device, halves_copied))), 0);
  BOOST_CHECK_THROW(host.eval(rows_copied, with(each, places), with(number, counts)), error);
  const auto which = placeholder<std::int32_t, dims<3>>(g, "which");
  const auto rows = placeholder<float, dims<3, 5, 2>>(g, "rows");
  for (const combine how : {combine::update, combine::add, combine::max}) {
    const auto write = assign_scatter<0>(cache, which, rows, how);
    const tensor<std::int32_t, dims<3>> twice{2, 0, 2};
    tensor<float, dims<3, 5, 2>> values;
    for (int i = 0; i < 30; ++i) values.data()[i] = static_cast<float>((i * 5) % 9);
    check_close(host.eval(write, with(which, twice), with(rows, values)),
                device.eval(write, with(which, twice), with(rows, values)), 0);
  }
}

BOOST_AUTO_TEST_CASE(values_are_computed_again_and_checked_in_steps_of_a_gpu) {
  gpu::emulated_platform gpus;
  graph g;
  const auto x = placeholder<float, dims<4, 3>>(g, "x");
  const auto w = variable<float, dims<3, 3>>(g, "w", init::normal{});
  const auto h = checkpointed([&](auto v) { return tanh(matmul(v, w)); }, x);
  const auto [dx, dw] = gradients(sum(check_numerics(h * h, "h")), x, w);
  session host{g, on_cpu}, device{g, {.threads = 1, .device = cuda{0}, .allow_soft_placement = true}};
  tensor<float, dims<4, 3>> in;
  for (int i = 0; i < 12; ++i) in.data()[i] = std::sin(static_cast<float>(i));
  const auto [hx, hw] = host.run(fetch(dx, dw), with(x, in));
  const auto [gx, gw] = device.run(fetch(dx, dw), with(x, in));
  check_close(hx, gx);
  check_close(hw, gw);
}

BOOST_AUTO_TEST_CASE(what_reads_a_value_written_in_the_same_step_gets_the_new_one_on_any_device) {
  gpu::emulated_platform gpus;
  graph g;
  auto v = variable<float, dims<4>>(g, "v", init::constant{1});
  auto write = assign_add(v, v);
  auto after = [&] {
    auto here = with_device(g, cuda{0});
    return let(write * 3.0f + v);  // the new value, and the old one
  }();
  session s{g, {.threads = 1}};
  BOOST_TEST(s.eval(after).data()[0] == 7);
  BOOST_TEST(s.eval(after).data()[0] == 14);
}

BOOST_AUTO_TEST_CASE(constants_are_uploaded_once) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  tensor<float, dims<3>> t{1, 2, 3};
  auto y = let(x * t);
  session s{g, on_gpu};
  auto step = s.prepare(fetch(y), feed(x));
  BOOST_TEST(step(tensor<float, dims<3>>{1, 1, 1}).data()[2] == 3);
  const auto pageable = gpus.device(0).count().pageable_copies;
  BOOST_TEST(step(tensor<float, dims<3>>{2, 2, 2}).data()[2] == 6);
  BOOST_TEST(gpus.device(0).count().pageable_copies == pageable);
}

BOOST_AUTO_TEST_CASE(large_values_are_fed_by_several_threads) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<dyn<"n">>>(g, "x");
  auto y = let(x + 1.0f);
  session s{g, {.threads = 3, .device = cuda{0}}};
  auto step = s.prepare(fetch(y), feed(x));
  for (const std::int64_t n : {100, 524'288, 1'000'003}) {
    tensor<float, dims<dyn<"n">>> in(shape{n});
    for (std::int64_t i = 0; i < n; ++i) in.data()[i] = static_cast<float>(i);
    const auto out = step(in);
    bool right = true;
    for (std::int64_t i = 0; i < n; ++i) right = right && out.data()[i] == static_cast<float>(i + 1);
    BOOST_TEST(right);
  }
}

BOOST_AUTO_TEST_CASE(a_process_that_places_nothing_on_a_gpu_opens_none) {
  gpu::emulated_platform gpus;
  classifier m;
  session s{m.g, on_cpu};
  s.run(fetch(m.loss, m.train), with(m.x, classifier::images(4)), with(m.y, classifier::classes(4)));
  BOOST_TEST(gpus.opened() == 0);
}

BOOST_AUTO_TEST_CASE(what_is_colocated_with_a_variable_runs_on_its_gpu) {
  gpu::emulated_platform gpus;
  graph g;
  auto v = [&] {
    auto there = with_device(g, cuda{0});
    return variable<float, dims<3>>(g, "v", init::constant{1});
  }();
  auto here = with_device(g, cpu{0});
  auto beside = colocate_with(g, v);
  auto y = let(v * 2.0f, "y");
  session s{g, {.threads = 1}};
  BOOST_TEST(s.explain(y) == "y on /device:GPU:0: the node that it is colocated with is there");
  BOOST_TEST(s.eval(y).data()[2] == 2);
}

/// An operation that no GPU knows.
struct tenfold_kernel final : kernel {
  std::uint32_t from, to;
  tenfold_kernel(std::uint32_t f, std::uint32_t t) : from(f), to(t) {}
  void run(const kernel_context& f) override {
    for (int i = 0; i < 3; ++i)
      reinterpret_cast<float*>(f.buffers[to])[i] = 10 * reinterpret_cast<const float*>(f.buffers[from])[i];
  }
  std::string describe() const override { return "tenfold"; }
};
constexpr operation tenfold = {.name = "tenfold", .prepare_cpu = [](const prepare_context& p) -> kernel* {
                                 return new tenfold_kernel(p.input_slots[0], p.output_slots[0]);
                               }};

BOOST_AUTO_TEST_CASE(what_is_colocated_stays_together) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto v = variable<float, dims<3>>(g, "v", init::ones{});
  const auto [twice, odd, away] = [&] {
    auto beside = colocate_with(g, v);
    auto scaled = let(v * 2.0f, "scaled");
    node_def c;
    c.op = &tenfold;
    c.inputs = {x.id()};
    c.outputs = {x.erased().info()};
    const node<float, dims<3>> without(x.erased().builder()->record(c));
    auto elsewhere = with_device(g, cpu{0});
    return std::tuple(scaled, without, let(exp(x), "away"));
  }();
  auto written = assign_add(v, twice);
  // One of them has no kernel for a GPU: soft placement, and the session's own choice, move them all.
  session s{g, {.threads = 1, .device = cuda{0}}};
  const tensor<float, dims<3>> in{1, 2, 3};
  auto step = s.prepare(fetch(written, odd, away), feed(x));
  const auto [sum, o, a] = step(in);
  BOOST_TEST(sum.data()[1] == 3);
  BOOST_TEST(o.data()[2] == 30);
  BOOST_TEST(s.explain(twice) == "scaled on /device:CPU:0: the node that it is colocated with is there");
  BOOST_TEST(s.explain(v) == "v on /device:CPU:0: a node colocated with it has no kernel for a GPU");
  BOOST_TEST(s.explain(away) == "away on /device:CPU:0: the node names it");
}

BOOST_AUTO_TEST_CASE(an_operation_without_a_kernel_beside_what_was_asked_to_be_on_a_gpu_is_an_error_or_soft) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto there = with_device(g, cuda{0});
  auto y = let(x + 1.0f, "y");
  auto beside = colocate_with(g, y);
  node_def c;
  c.op = &tenfold;
  c.inputs = {y.id()};
  c.outputs = {y.erased().info()};
  const node<float, dims<3>> z(y.erased().builder()->record(c));
  session hard{g}, soft{g, {.allow_soft_placement = true}};
  const tensor<float, dims<3>> in{1, 2, 3};
  CHECK_SAYS(failure(error_code::unimplemented, [&] { hard.run(fetch(z), with(x, in)); }), "tenfold");
  BOOST_TEST(soft.run(fetch(z), with(x, in)).data()[2] == 40);
  BOOST_TEST(soft.explain(y) == "y on /device:CPU:0: a node colocated with it has no kernel for a GPU");
}

BOOST_AUTO_TEST_CASE(impossible_placements_are_errors_or_soft) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto far = [&] {
    auto here = with_device(g, cuda{3});
    return let(exp(x), "far");
  }();
  session hard{g};
  const tensor<float, dims<3>> in{0, 0, 0};
  const std::string text = failure(error_code::invalid_argument, [&] { hard.run(fetch(far), with(x, in)); });
  CHECK_SAYS(text, "far");
  CHECK_SAYS(text, "/device:GPU:3");
  CHECK_SAYS(text, "1 GPU");
  session soft{g, {.allow_soft_placement = true}};
  auto step = soft.prepare(fetch(far), feed(x));
  BOOST_TEST(step(in).data()[0] == 1);
}

BOOST_AUTO_TEST_CASE(what_writes_a_variable_on_a_gpu_and_has_no_kernel_there_is_told) {
  static constexpr operation reset = {.name = "reset",
                                      .prepare_cpu = [](const prepare_context&) -> kernel* { return nullptr; },
                                      .use = [](const node_def&, std::size_t) { return operand_use::update; },
                                      .writes = true};
  gpu::emulated_platform gpus;
  graph g;
  auto v = variable<float, dims<3>>(g, "v", init::constant{1});
  node_def c;
  c.op = &reset;
  c.inputs = {v.id()};
  c.outputs = {v.erased().info()};
  const node<float, dims<3>> written(v.erased().builder()->record(c));
  session s{g, on_gpu};
  const std::string text = failure(error_code::unimplemented, [&] { s.eval(written); });
  CHECK_SAYS(text, "reset writes a variable on /device:GPU:0");
  BOOST_TEST(s.eval(v).data()[0] == 1);
}

BOOST_AUTO_TEST_CASE(a_program_without_gpus_says_so) {
  graph g;
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { session s(g, on_gpu); }), "<weft/cuda.hpp>");
  gpu::emulated_platform none({.devices = 0});
  CHECK_SAYS(failure(error_code::failed_precondition, [&] { session s(g, on_gpu); }), "created without a device");
}

BOOST_AUTO_TEST_CASE(memory_is_never_more_than_allowed_and_the_error_lists_who_holds_it) {
  gpu::emulated_platform gpus({.memory_bytes = 4 << 20});
  graph g;
  auto big = variable<float, dims<400, 1000>>(g, "big", init::zeros{});  // 1.6 MB
  auto x = placeholder<float, dims<dyn<"n">, 1000>>(g, "x");
  auto y = let(matmul<transpose_of::b>(x, big) * 2.0f);
  session_options o = on_gpu;
  o.gpu.memory_fraction = 0.5;
  session s{g, o};
  auto step = s.prepare(fetch(y), feed(x));
  const auto small = tensor<float, dims<dyn<"n">, 1000>>(shape(2, 1000));
  const auto large = tensor<float, dims<dyn<"n">, 1000>>(shape(500, 1000));
  step(small);
  const std::string text = failure(error_code::resource_exhausted, [&] { step(large); });
  CHECK_SAYS(text, "/device:GPU:0");
  CHECK_SAYS(text, "1600000 bytes  big");
  CHECK_SAYS(text, "at most 2097152");
  step(small);  // the session stays usable
  BOOST_TEST(gpus.device(0).count().peak_bytes <= std::size_t{2} << 20);
}

BOOST_AUTO_TEST_CASE(workspaces_of_kernels_count_as_memory_of_the_session) {
  graph g;
  auto x = placeholder<float, dims<256, 1024>>(g, "x");
  auto columns = sum<0>(x * 2.0f);
  const tensor<float, dims<256, 1024>> in;
  const auto peak_within = [&](std::size_t limit, bool allow_growth) {
    gpu::emulated_platform gpus;
    session_options o = on_gpu;
    o.gpu.virtual_devices = {limit};
    o.gpu.allow_growth = allow_growth;
    session s{g, o};
    s.run(fetch(columns), with(x, in));
    BOOST_TEST(gpus.device(0).mistakes().empty());
    return gpus.device(0).count().peak_bytes;
  };
  const std::size_t enough = peak_within(4 << 20, true);
  BOOST_TEST(enough > sizeof(float) * (256 * 1024 + 1024));
  BOOST_TEST(peak_within(enough, true) == enough);
  BOOST_TEST(peak_within(enough, false) == enough);
  const std::string text = failure(error_code::resource_exhausted, [&] { peak_within(enough - 256, true); });
  CHECK_SAYS(text, "workspace of sum");
  CHECK_SAYS(text, "a step's intermediate values");
}

BOOST_AUTO_TEST_CASE(a_step_finds_the_page_locked_memory_and_the_queues_of_an_earlier_one) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<dyn<"n">, 1024>>(g, "x");
  auto columns = sum<0>(x * 2.0f);
  session s{g, on_gpu};
  const auto& count = gpus.device(0).count();
  const auto run = [&](std::int64_t n) {
    auto step = s.prepare(fetch(columns), feed(x));
    const auto sums = step(tensor<float, dims<dyn<"n">, 1024>>(shape(n, 1024)));
    BOOST_TEST(sums.data()[7] == 0);
  };
  run(256);
  const auto allocations = count.host_allocations;
  for (int i = 0; i < 3; ++i) run(256 - i);
  BOOST_TEST(count.host_allocations == allocations);
  run(16);  // much smaller
  BOOST_TEST(count.host_allocations > allocations);
  BOOST_TEST(count.queues == 3u);
  BOOST_TEST(gpus.device(0).mistakes().empty());
}

BOOST_AUTO_TEST_CASE(page_locked_memory_that_no_step_needs_makes_room) {
  gpu::emulated_platform gpus;
  detail::pinned_memory memory(gpus.device(0));
  {
    const detail::pinned_block once(memory, 100'000);
  }
  gpus.fail_allocation(1);
  const detail::pinned_block next(memory, 1000);
  BOOST_TEST((next.data() != nullptr));
  BOOST_TEST(gpus.device(0).count().live_host_bytes == 4096u);
}

BOOST_AUTO_TEST_CASE(workspaces_of_libraries_count_as_memory_of_the_session) {
  for (const bool grows : {true, false}) {
    gpu::emulated_platform gpus;
    detail::gpu_memory memory(gpus.device(0), 1 << 20, grows);
    {
      const gpu::device_memory other(memory, 100, "other");
      const auto q = gpus.device(0).make_queue(&memory);
      std::byte* const first = q->workspace(5000);
      BOOST_TEST((reinterpret_cast<std::uintptr_t>(first) % 256 == 0));
      BOOST_TEST((q->workspace(4000) == first));
      std::byte* const second = q->workspace(6000);  // another block, twice as large: no third one for a little more
      BOOST_TEST((second != first));
      BOOST_TEST((q->workspace(9000) == second));
      BOOST_TEST((q->workspace(5000) == first));
      CHECK_SAYS(memory.holders(), "10240 bytes  workspace of matrix products and convolutions");
      BOOST_TEST(memory.held() == 256u + 5120 + 10240);
      q->workspace(100'000);
      BOOST_TEST(q->workspace_bytes() == 5000u + 10'000 + 100'000);
      q->workspace(500'000);
      q->workspace(300'000);  // it fits into that
      BOOST_TEST(memory.held() == 256u + 5120 + 10240 + 100'096 + 500'224);
      const std::string text = failure(error_code::resource_exhausted, [&] { q->workspace(1 << 20); });
      CHECK_SAYS(text, "at most 1048576");
      CHECK_SAYS(text, "5120 bytes  workspace of matrix products and convolutions");
    }
    BOOST_TEST(memory.held() == 0u);
  }
}

namespace {

/// A library's call, as the plan sees it: it copies x, and wants so many bytes of workspace.
template <std::size_t Bytes>
struct library_call {
  class on_gpu final : public kernel {
   public:
    explicit on_gpu(const prepare_context& p)
        : from_(p.input_slots[0]), to_(p.output_slots[0]), bytes_(p.outputs[0].bytes()) {}
    void run(const kernel_context& f) override {
      std::byte* const room = f.queue->workspace(Bytes);
      f.queue->copy(room, f.buffers[from_], bytes_);
      f.queue->copy(f.buffers[to_], room, bytes_);
    }
    std::size_t workspace_bytes() const override { return Bytes; }
    std::string describe() const override { return "a library's call"; }

   private:
    std::uint32_t from_, to_;
    std::size_t bytes_;
  };
  static constexpr gpu::preparation preparation{
      .prepare = [](const prepare_context& p, gpu::device&) -> kernel* { return new on_gpu(p); }};
  static constexpr operation op = {.name = "library_call",
                                   .prepare_cpu = [](const prepare_context&) -> kernel* { return nullptr; },
                                   .gpu = &preparation};

  static auto of(const node<float, dims<1000>>& x) {
    node_def c;
    c.op = &op;
    c.inputs = {x.id()};
    c.outputs = {x.erased().info()};
    return node<float, dims<1000>>(x.erased().builder()->record(c));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(one_block_of_workspace_serves_a_whole_step) {
  for (const bool grows : {true, false}) {
    gpu::emulated_platform gpus;
    graph g;
    auto x = placeholder<float, dims<1000>>(g, "x");
    auto small = library_call<4096>::of(x), large = library_call<100'000>::of(small);
    auto last = library_call<30'000>::of(large);
    session_options o = on_gpu;
    o.gpu.allow_growth = grows;
    o.gpu.virtual_devices = {200'000};
    {
      session s{g, o};
      auto step = s.prepare(fetch(last), feed(x));
      tensor<float, dims<1000>> in;
      in.data()[999] = 3;
      for (int i = 0; i < 3; ++i) BOOST_TEST(step(in).data()[999] == 3);
      CHECK_SAYS(step.explain(), "gpu:0  100000 bytes of workspace for library calls");
      auto first = s.prepare(fetch(small), feed(x));  // finds the block
      BOOST_TEST(first(in).data()[999] == 3);
      CHECK_SAYS(first.explain(), "gpu:0  100000 bytes of workspace");
    }
    BOOST_TEST(gpus.device(0).count().recordings == 1u);
    o.gpu.virtual_devices = {100'000};
    session full{g, o};
    const std::string text =
        failure(error_code::resource_exhausted, [&] { full.eval(last, with(x, tensor<float, dims<1000>>{})); });
    CHECK_SAYS(text, "workspace of matrix products");
    CHECK_SAYS(text, "bytes  a step's intermediate values");
    BOOST_TEST(gpus.device(0).mistakes().empty());
  }
}

BOOST_AUTO_TEST_CASE(what_a_step_gives_back_serves_the_next_one_and_is_given_away_when_the_session_closes) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<dyn<"n">>>(g, "x");
  auto y = let(x + 1.0f);
  const auto& count = gpus.device(0).count();
  session_options o = on_gpu;
  o.gpu.virtual_devices = {64 << 10};
  {
    session s{g, o};
    for (const std::int64_t n : {1000, 1000, 5000, 2000, 7000, 1000}) {  // a step's memory goes with the step
      auto step = s.prepare(fetch(y), feed(x));
      BOOST_TEST(step(tensor<float, dims<dyn<"n">>>(shape{n})).data()[n - 1] == 1);
    }
    BOOST_TEST(count.reuses > 0u);
    BOOST_TEST(count.kept_bytes > 0u);
    BOOST_TEST(count.peak_reserved_bytes <= 64u << 10);
  }
  BOOST_TEST(count.kept_bytes == 0u);
  BOOST_TEST(count.live_bytes == 0u);
  BOOST_TEST(gpus.device(0).mistakes().empty());
}

BOOST_AUTO_TEST_CASE(a_session_knows_what_it_may_still_hold) {
  gpu::emulated_platform gpus({.memory_bytes = 4 << 20});
  for (const bool grows : {true, false}) {
    detail::gpu_memory memory(gpus.device(0), 1 << 20, grows);
    BOOST_TEST(memory.free_bytes() == 1u << 20);
    const gpu::device_memory some(memory, 100, "some");
    BOOST_TEST(memory.free_bytes() == (1u << 20) - 256);
    const gpu::device_memory others(gpus.device(0), gpus.device(0).free_bytes() - 1000, "others");
    BOOST_TEST(memory.free_bytes() == (grows ? 1000u : (1u << 20) - 256));
  }
}

BOOST_AUTO_TEST_CASE(memory_can_be_taken_at_once) {
  gpu::emulated_platform gpus({.memory_bytes = 8 << 20});
  classifier m;
  session_options o = on_gpu;
  o.gpu.memory_fraction = 0.5;
  o.gpu.allow_growth = false;
  session s{m.g, o};
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  step(classifier::images(9), classifier::classes(9));
  BOOST_TEST(gpus.device(0).count().peak_bytes >= std::size_t{4} << 20);
}

BOOST_AUTO_TEST_CASE(all_memory_at_once_is_what_others_left) {
  gpu::emulated_platform gpus({.memory_bytes = 8 << 20});
  const gpu::device_memory others(gpus.device(0), 1 << 20, "others");
  classifier m;
  session_options o = on_gpu;
  o.gpu.allow_growth = false;
  session s{m.g, o};
  s.run(fetch(m.train), with(m.x, classifier::images(9)), with(m.y, classifier::classes(9)));
  const auto taken = gpus.device(0).count().peak_bytes;
  BOOST_TEST(taken > std::size_t{7} << 20);
  BOOST_TEST(taken <= std::size_t{8} << 20);
}

BOOST_AUTO_TEST_CASE(one_card_is_several_devices_by_memory_limit) {
  gpu::emulated_platform gpus;
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto a = [&] {
    auto here = with_device(g, cuda{0});
    return let(exp(x));
  }();
  auto b = [&] {
    auto here = with_device(g, cuda{1});
    return let(a + a);
  }();
  session_options o{.threads = 1};
  o.gpu.virtual_devices = {std::size_t{1} << 20, std::size_t{1} << 20};
  session s{g, o};
  BOOST_TEST(s.run(fetch(b), with(x, tensor<float, dims<3>>{0, 0, 0})).data()[0] == 2);
  BOOST_TEST(gpus.opened() == 1);
}

BOOST_AUTO_TEST_CASE(a_launch_that_fails_names_its_operation_and_leaves_the_session_usable) {
  gpu::emulated_platform gpus;
  classifier m;
  session s{m.g, on_gpu};
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  gpus.fail_launch(1);
  const std::string text = failure(error_code::internal, [&] { step(classifier::images(4), classifier::classes(4)); });
  CHECK_SAYS(text, "matmul");
  step(classifier::images(4), classifier::classes(4));
  step(classifier::images(4), classifier::classes(4));
}

BOOST_AUTO_TEST_CASE(a_kernel_that_fails_while_it_runs_is_told) {
  gpu::emulated_platform gpus;
  classifier m;
  session_options o = on_gpu;
  o.gpu.synchronous = true;
  session s{m.g, o};
  auto step = s.prepare(fetch(m.loss, m.train), feed(m.x, m.y));
  gpus.fail_execution(1);
  const std::string text = failure(error_code::internal, [&] { step(classifier::images(4), classifier::classes(4)); });
  CHECK_SAYS(text, "matmul");
  CHECK_SAYS(text, "can no longer use the device");
}

BOOST_AUTO_TEST_CASE(a_kernel_that_fails_on_one_gpu_leaves_none_at_work) {
  gpu::emulated_platform gpus({.devices = 2});
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto part = [&](int d) {
    auto there = with_device(g, cuda{d});
    return let(exp(x + static_cast<float>(d)));
  };
  auto first = part(0), second = part(1);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(first, second), feed(x));
  gpus.fail_execution(1);
  failure(error_code::internal, [&] { step(tensor<float, dims<3>>{1, 2, 3}); });
  for (int d = 0; d < 2; ++d) BOOST_TEST(!gpus.device(d).is_busy());
}

BOOST_AUTO_TEST_CASE(devices_are_listed) {
  gpu::emulated_platform gpus({.devices = 2});
  const auto devices = list_devices();
  BOOST_REQUIRE_EQUAL(devices.size(), 3u);
  BOOST_TEST(devices[0].name == "/device:CPU:0");
  BOOST_TEST(devices[2].name == "/device:GPU:1");
  BOOST_TEST(devices[2].memory_bytes == std::size_t{256} << 20);
}

BOOST_AUTO_TEST_CASE(replicas_in_one_graph_train_on_two_gpus) {
  gpu::emulated_platform gpus({.devices = 2});
  graph g;
  auto x = placeholder<float, dims<8, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w", init::constant{0.5});
  auto part = [&](int d) {
    auto here = with_device(g, cuda{d});
    return mean(square(matmul(x + static_cast<float>(d), w)));
  };
  auto loss = let((part(0) + part(1)) * 0.5f);
  auto train = gradient_descent{.learning_rate = 0.01}.minimize(loss);
  tensor<float, dims<8, 3>> in;
  for (int i = 0; i < 24; ++i) in.data()[i] = std::cos(static_cast<float>(i));
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(loss, train), feed(x));

  graph h;
  auto hx = placeholder<float, dims<8, 3>>(h, "x");
  auto hw = variable<float, dims<3, 2>>(h, "w", init::constant{0.5});
  auto one = [&](float d) { return mean(square(matmul(hx + d, hw))); };
  auto hloss = let((one(0) + one(1)) * 0.5f);
  auto htrain = gradient_descent{.learning_rate = 0.01}.minimize(hloss);
  session t{h, on_cpu};
  auto same = t.prepare(fetch(hloss, htrain), feed(hx));
  for (int i = 0; i < 5; ++i) BOOST_CHECK_SMALL(std::get<0>(step(in)) - std::get<0>(same(in)), 1e-5f);
  check_close(s.eval(w), t.eval(hw));
}

BOOST_AUTO_TEST_CASE(a_trace_waits_for_each_kernel_and_has_all_of_them) {
  gpu::emulated_platform gpus;
  graph g;
  auto here = with_device(g, cuda{0});
  auto v = variable<float, dims<4>>(g, "v", init::constant{1});
  auto write = assign(v, v * 2.0f);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(write));
  step();
  step();
  CHECK_SAYS(explain(step), "launched as a whole");
  {
    trace t(s);
    step();
    BOOST_TEST(t.kernels() == 2);  // and the copy to the host
    CHECK_SAYS(t.json(), "\"gpu:0\"");
  }
  BOOST_TEST(step().data()[0] == 16);
}

BOOST_AUTO_TEST_CASE(scaled_losses_and_averages_have_the_cpus_bits) {
  const gpu::emulated_platform gpus;
  const auto bytes_after_training = [](const device_spec& where) {
    graph g(3);
    auto w = variable<float, dims<300, 7>>(g, "w", init::normal{});
    auto x = placeholder<float, dims<7>>(g, "x");
    loss_scale scale(g, dynamic_loss_scale{.initial_scale = 64, .growth_interval = 2});
    auto train = scale.minimize(adam{}, sum(w * x));
    auto averages = exponential_moving_average{.decay = 0.75}.apply(train);
    auto debiased = exponential_moving_average{.decay = 0.75, .zero_debias = true}.apply(averages, w);
    session s{g, {.threads = 1, .device = where}};
    auto step = s.prepare(fetch(debiased), feed(x));
    for (int t = 0; t < 7; ++t)
      step(tensor<float, dims<7>>{1, 2, 3, -1, t == 4 ? INFINITY : 0.25f * static_cast<float>(t), 0.5f, -2});
    const auto average = s.get(averages.average(w));
    const auto swapped = averages.evaluate(s, [&] { return s.get(w); });
    BOOST_TEST(std::memcmp(average.data(), swapped.data(), sizeof(float) * 2100) == 0);
    BOOST_TEST(s.get(find_variable<float>(g, "loss_scale/scale")) == 256);
    std::string bytes;
    for (std::uint32_t n = 0; n < g.size(); ++n)
      if (is_operation<variable_op>(g[n].def.op)) {
        std::string value(s.variable_info(n).bytes(), '\0');
        s.read_variable(n, value.data());
        bytes += value;
      }
    return bytes;
  };
  BOOST_TEST((bytes_after_training(cuda{0}) == bytes_after_training(cpu{0})));
}

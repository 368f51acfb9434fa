// SPDX-License-Identifier: BSL-1.0
// Layers with the weights of PyTorch's modules compute what those compute (make_pytorch_layer_values.py).
#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/nn.hpp>
#include <weft/nn/depthwise_conv2d.hpp>
#include <weft/nn/pytorch.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "ops/values_of.hpp"

using namespace weft;

namespace {

constexpr auto batch = dyn<"batch">;
const std::string folder = TEST_DATA "/nn/";

const values_of& right() {
  static const values_of all((folder + "pytorch_layer_values.txt").c_str());
  return all;
}

struct convolutions {
  nn::depthwise_conv2d<size2d(3, 2), 2, conv2d_options{.stride = 2, .pad = padding::of(1)}> depthwise;
  nn::grouped_conv2d<3, 6, 2, conv2d_options{.pad = padding::of(2), .dilation = 2}> grouped{.use_bias = false};
};

struct recurrent {
  nn::simple_rnn<2> rnn;
  nn::stacked<nn::bidirectional<nn::lstm<2>>, 2> lstm;
  nn::bidirectional<nn::gru<2>> gru;
  nn::stacked<nn::gru<2>, 3> deep_gru;
  nn::lstm<2> unbiased{.use_bias = false};
};

struct attentions {
  nn::multi_head_attention<2> attention;
  nn::multi_head_attention<2> unbiased_attention{.use_bias = false};
  nn::multi_head_attention<2> memory;
};

struct normalizations {
  nn::group_norm<2> groups{.epsilon = 1e-5};
  nn::instance_norm<6> instances;
  nn::layer_norm<> rows{.epsilon = 1e-5};
  nn::rms_norm<6> squares;
};

/// The file has tensors of other models, too.
template <class Net>
restore_report load(const Net& net, session& s) {
  const restore_report report =
      nn::load_pytorch_weights(folder + "pytorch_layers.safetensors", net, s, {.partial = true});
  BOOST_CHECK_EQUAL(report.missing.size(), 0u);
  BOOST_CHECK_EQUAL(report.different.size(), 0u);
  return report;
}

}  // namespace

BOOST_AUTO_TEST_CASE(grouped_and_depthwise_convolutions) {
  graph g;
  const auto x = placeholder<float, dims<batch, 5, dyn<"width">, 3>>(g, "x");
  const auto z = placeholder<float, dims<batch, 5, 4, 4>>(g, "z");
  const auto net = nn::named(convolutions(), "net");
  const auto y = net.depthwise(x);
  const auto of_groups = net.grouped(z);
  static_assert(std::is_same_v<dims_t<decltype(of_groups)>, dims<batch, 5, 4, 6>>);
  const auto [dx, dw] = gradients(sum(square(y)), x, net.depthwise.weights.as<dims<3, 2, 3, 2>>());
  const auto [dz, dv] = gradients(sum(square(of_groups)), z, net.grouped.weights.as<dims<3, 3, 2, 6>>());
  session s{g};
  BOOST_CHECK_EQUAL(load(net, s).restored.size(), 3u);
  const auto images = right().tensor<float, dims<2, 5, 4, 3>>("depthwise.x");
  const auto of_z = right().tensor<float, dims<2, 5, 4, 4>>("grouped.x");
  right().check("depthwise", s.eval(y, with(x, images)), 1e-5);
  right().check("depthwise.dx", s.eval(dx, with(x, images)), 1e-5);
  right().check("depthwise.dw", s.eval(dw, with(x, images)), 1e-5);
  right().check("grouped", s.eval(of_groups, with(z, of_z)), 1e-5);
  right().check("grouped.dx", s.eval(dz, with(z, of_z)), 1e-5);
  right().check("grouped.dw", s.eval(dv, with(z, of_z)), 1e-5);
}

BOOST_AUTO_TEST_CASE(named_channels_give_variables_types) {
  graph g;
  const auto x = placeholder<float, dims<batch, 5, 4, 4>>(g, "x");
  const nn::depthwise_conv2d<3, 2, conv2d_options{}, 4> depthwise;
  const nn::grouped_conv2d<3, 6, 2, conv2d_options{}, 4> grouped;
  depthwise(x), grouped(x);
  static_assert(std::is_same_v<dims_t<std::remove_reference_t<decltype(depthwise.weights)>>, dims<3, 3, 4, 2>>);
  static_assert(std::is_same_v<dims_t<std::remove_reference_t<decltype(depthwise.bias)>>, dims<8>>);
  static_assert(std::is_same_v<dims_t<std::remove_reference_t<decltype(grouped.weights)>>, dims<3, 3, 2, 6>>);
  // 4 * 5 * 4 * (3 * 3) * 2 products, and 5 * 4 * 6 results of 3 * 3 * 2.
  const std::string text = nn::describe(depthwise, x) + nn::describe(grouped, x);
  BOOST_CHECK_MESSAGE(text.find(" 1,440 ") != std::string::npos && text.find(" 2,160 ") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(bias_and_activation_run_with_the_convolution) {
  graph g;
  const auto x = placeholder<float, dims<batch, 8, 8, 4>>(g);
  const nn::depthwise_conv2d<3> depthwise{.activation = nn::relu};
  const nn::grouped_conv2d<3, 8, 2> grouped{.activation = nn::relu};
  session s{g};
  for (const auto& y : {depthwise(x).erased(), grouped(x).erased()}) {
    auto step = s.prepare(fetch(node<float, dims<batch, 8, 8, dyn<"filters">>>(y)), feed(x));
    step(tensor<float, dims<2, 8, 8, 4>>());
    const std::string plan = step.explain();
    BOOST_CHECK_MESSAGE(plan.find("1 kernels") != std::string::npos, plan);
  }
}

BOOST_AUTO_TEST_CASE(normalizations_of_groups_instances_and_rows) {
  graph g;
  const auto x = placeholder<float, dims<batch, dyn<"height">, 4, 6>>(g, "x");
  const auto net = nn::named(normalizations(), "net");
  const auto groups = net.groups(x), instances = net.instances(x), rows = net.rows(x), squares = net.squares(x);
  static_assert(std::is_same_v<dims_t<decltype(groups)>, dims<batch, dyn<"height">, 4, 6>>);
  session s{g};
  BOOST_CHECK_EQUAL(load(net, s).restored.size(), 3u * 2 + 1);
  const auto images = right().tensor<float, dims<2, 3, 4, 6>>("images");
  const auto check = [&](const std::string& name, const auto& y) {
    right().check(name, s.eval(y, with(x, images)), 1e-5);
  };
  check("groups", groups), check("instances", instances), check("rows", rows), check("squares", squares);
}

BOOST_AUTO_TEST_CASE(recurrent_layers) {
  graph g;
  const auto x = placeholder<float, dims<batch, dyn<"time">, 3>>(g, "x");
  const auto net = nn::named(recurrent(), "net");
  const auto rnn = net.rnn(x).states, deep = net.deep_gru(x).states, unbiased = net.unbiased(x).states;
  const auto lstm = net.lstm(x).states, gru = net.gru(x).states;
  session s{g};
  BOOST_CHECK_EQUAL(load(net, s).restored.size(), 3u + 4 * 3 + 2 * 4 + 3 * 4 + 2);
  const auto sequences = right().tensor<float, dims<2, 5, 3>>("sequences");
  const auto check = [&](const std::string& name, const auto& y) {
    right().check(name, s.eval(y, with(x, sequences)), 1e-5);
  };
  check("rnn", rnn), check("lstm", lstm), check("gru", gru), check("deep_gru", deep), check("unbiased", unbiased);
}

BOOST_AUTO_TEST_CASE(two_biases_are_those_of_pytorch) {
  graph g;
  const auto x = placeholder<float, dims<batch, dyn<"time">, 3>>(g, "x");
  auto net = nn::named(recurrent(), "net");
  net.rnn.two_biases = true;
  for (auto& layer : net.lstm.layers) layer.forward.two_biases = layer.backward.two_biases = true;
  const auto rnn = net.rnn(x).states;
  const auto lstm = net.lstm(x).states;
  net.deep_gru(x), net.unbiased(x), net.gru(x);
  const auto in = net.lstm.layers[1].backward.bias.as<dims<8>>();
  const auto hidden = net.lstm.layers[1].backward.recurrent_bias.as<dims<8>>();
  const auto train = gradient_descent{.learning_rate = 0.1}.minimize(sum(square(lstm)));
  session s{g};
  BOOST_CHECK_EQUAL(load(net, s).restored.size(), 4u + 4 * 4 + 2 * 4 + 3 * 4 + 2);
  const auto sequences = right().tensor<float, dims<2, 5, 3>>("sequences");
  right().check("rnn", s.eval(rnn, with(x, sequences)), 1e-5);
  right().check("lstm", s.eval(lstm, with(x, sequences)), 1e-5);
  const auto in_before = s.get(in), hidden_before = s.get(hidden);
  s.run(fetch(train), with(x, sequences));
  const auto in_step = eval(s.get(in) - in_before), hidden_step = eval(s.get(hidden) - hidden_before);
  BOOST_CHECK(!(in_step == zeros<float, dims<8>>()));
  for (int i = 0; i < 8; ++i) BOOST_CHECK_SMALL(in_step(i) - hidden_step(i), 1e-6f);
}

BOOST_AUTO_TEST_CASE(two_biases_of_different_types_are_added) {
  graph g;
  const auto x = placeholder<float, dims<batch, dyn<"time">, 1>>(g, "x");
  const nn::lstm<1> net;
  net(x);
  session s{g};
  const auto weights = ones<float, dims<4, 1>>();
  const tensor<half, dims<4>> in{half(0.5f), half(-1.0f), half(2.0f), half(0.25f)};
  const tensor<double, dims<4>> hidden{1.0, 0.5, -4.0, 0.125};
  const std::string path = "pytorch_layers_biases.safetensors";
  const auto write = [&](const auto& second) {
    write_safetensors(
        path, {{"weight_ih_l0", weights}, {"weight_hh_l0", weights}, {"bias_ih_l0", in}, {"bias_hh_l0", second}});
  };
  write(hidden);
  BOOST_CHECK_EQUAL(nn::load_pytorch_weights(path, net, s).restored.size(), 3u);
  BOOST_CHECK(s.get(net.bias.as<dims<4>>()) == (tensor<float, dims<4>>{1.5f, -0.5f, -2.0f, 0.375f}));
  write(tensor<std::int32_t, dims<4>>{1, 2, 3, 4});
  BOOST_CHECK_EXCEPTION(nn::load_pytorch_weights(path, net, s), weft::error,
                        test::says(error_code::invalid_argument, "cannot be added"));
  write(ones<double, dims<3>>());
  BOOST_CHECK_EXCEPTION(nn::load_pytorch_weights(path, net, s), weft::error,
                        test::says(error_code::invalid_argument, "cannot be added"));
  std::remove(path.c_str());
}

BOOST_AUTO_TEST_CASE(attention_layers) {
  graph g;
  const auto q = placeholder<float, dims<batch, 3, 4>>(g, "q");
  const auto k = placeholder<float, dims<batch, 5, 3>>(g, "k");
  const auto v = placeholder<float, dims<batch, 5, 5>>(g, "v");
  const auto net = nn::named(attentions(), "net");
  const auto own = net.attention(q), unbiased = net.unbiased_attention(q), memory = net.memory(q, k, v);
  session s{g};
  BOOST_CHECK_EQUAL(load(net, s).restored.size(), 8u + 4 + 8);
  const auto queries = right().tensor<float, dims<2, 3, 4>>("queries");
  right().check("attention", s.eval(own, with(q, queries)), 1e-5);
  right().check("unbiased_attention", s.eval(unbiased, with(q, queries)), 1e-5);
  right().check("memory",
                s.eval(memory, with(q, queries), with(k, right().tensor<float, dims<2, 5, 3>>("keys")),
                       with(v, right().tensor<float, dims<2, 5, 5>>("values"))),
                1e-5);
}

/// A layer that is called like one of Weft's.
struct homonym {
  nn::layer_state state;
  mutable variable_node<float, dims<3>> gain;
  mutable variable_node<float, dims<3>> running;
  mutable variable_node<std::int64_t, dims<>> steps;
  auto operator()(const auto& x) const {
    nn::layer_call call(state, x);
    graph& g = graph_of(x);
    if (gain.empty()) {
      gain = variable<float, dims<3>>(g, "gain", init::ones{});
      running = variable<float, dims<3>>(g, "running", init::zeros{}, variable_kind::averaged);
      steps = variable<std::int64_t>(g, "steps", 0, variable_kind::counter);
    }
    return call.result(x * gain);
  }
};
struct homonyms {
  homonym attention{nn::layer_state("attention")}, conv2d{nn::layer_state("conv2d")}, lstm{nn::layer_state("lstm")};
  mutable variable_node<std::int64_t, dims<>> step;
  const nn::dense<3>* again = nullptr;
  nn::dense<3> head;
};

BOOST_AUTO_TEST_CASE(own_layers_have_rows_whatever_their_kinds_are_called) {
  graph g;
  const auto x = placeholder<float, dims<batch, 3>>(g, "x");
  auto net = nn::named(homonyms(), "net");
  net.again = &net.head;
  net.step = variable<std::int64_t>(g, "step", 0, variable_kind::counter);
  net.head(net.lstm(net.conv2d(net.attention(x))));
  std::vector<std::string> rows;
  const weight_table table = nn::pytorch_table(net);
  for (const weight_row& row : table.rows)
    if (!row.variable.empty()) rows.push_back(row.in_file);
  const std::vector<std::string> expected{"attention.gain", "attention.running", "conv2d.gain",  "conv2d.running",
                                          "lstm.gain",      "lstm.running",      "again.weight", "again.bias",
                                          "head.weight",    "head.bias"};
  BOOST_CHECK_EQUAL_COLLECTIONS(rows.begin(), rows.end(), expected.begin(), expected.end());
  BOOST_CHECK_EQUAL(nn::parameter_count(net), 3 * 3 + 12);
  const weight_table alone = nn::pytorch_table(net.lstm.gain);
  BOOST_REQUIRE_EQUAL(alone.rows.size(), 1u);
  BOOST_CHECK_EQUAL(alone.rows[0].in_file, "gain");

  // The file needs one of the names of a layer.
  const auto threes = ones<float, dims<3>>();
  const auto square3 = ones<float, dims<3, 3>>();
  const std::string path = "pytorch_layers_tied.safetensors";
  const tensor<std::int64_t, dims<>> steps{};
  session s{g};
  for (const std::string name : {"head", "again"}) {
    write_safetensors(path, {{"attention.gain", threes},
                             {"attention.running", threes},
                             {"conv2d.gain", threes},
                             {"conv2d.running", threes},
                             {"lstm.gain", threes},
                             {"lstm.running", threes},
                             {"lstm.steps", steps},
                             {name + ".weight", square3},
                             {name + ".bias", threes}});
    BOOST_CHECK_EQUAL(nn::load_pytorch_weights(path, net, s).restored.size(), 8u);
  }
  write_safetensors(path, {{"attention.gain", threes}});
  BOOST_CHECK_EXCEPTION(load_weights(path, s, table), weft::error,
                        test::says(error_code::not_found, "attention.running"));
  std::remove(path.c_str());
}

BOOST_AUTO_TEST_CASE(a_stack_in_each_direction_is_no_module_of_pytorch) {
  graph g;
  const auto x = placeholder<float, dims<batch, 5, 3>>(g, "x");
  const nn::bidirectional<nn::stacked<nn::lstm<2>, 2>> net;
  net(x);
  BOOST_CHECK_EXCEPTION(static_cast<void>(nn::pytorch_table(net)), weft::error,
                        test::says(error_code::unimplemented, "it stacks bidirectional layers"));
}

namespace {

using seven_images = dims<batch, 2, 2, 3>;

template <class T>
auto synchronized_layer() {
  return nn::named(nn::batch_norm<3, T>{.momentum = 0.75, .activation = nn::relu}, "norm");
}
template <class T>
void set_scale_and_offset(session& s, const nn::batch_norm<3, T>& norm) {
  s.set(norm.scale, tensor<T, dims<3>>{T(0.75), T(-1.5), T(1.25)});
  s.set(norm.offset, tensor<T, dims<3>>{T(0.5), T(-0.25), T(0.125)});
}
template <class T>
void check_averages(session& s, const nn::batch_norm<3, T>& norm, double tolerance) {
  right().check("synchronized.mean", s.get(norm.moving_mean), tolerance);
  right().check("synchronized.variance", s.get(norm.moving_variance), tolerance);
}

/// Images begin, ..., begin + Count - 1, in a replica on device `number`.
template <int Count, class X>
auto replica(const X& x, int begin, int number) {
  const device_scope there(graph_of(x), cpu{number});
  return let(slice<0, Count>(x, begin));
}

/// `divide(x)` is a list of replicas, and `join(list)` is the list as one value.
template <class T, class Divide, class Join>
void check_replicas(double tolerance, const Divide& divide, const Join& join) {
  graph g;
  const auto x = placeholder<T, seven_images>(g, "x");
  const auto norm = synchronized_layer<T>();
  const auto y = let(join(norm(divide(x), nn::mode::training)));
  const auto inferred = let(join(norm(divide(x), nn::mode::inference)));
  const auto loss = let(sum(square(y - T(1))));
  const auto [dx, dscale, doffset] = gradients(loss, x, norm.scale, norm.offset);
  const auto train = gradient_descent{.learning_rate = 0.0}.minimize(loss);
  BOOST_CHECK_EQUAL(variables(g).size(), 4u);
  session s{g, {.threads = 2, .devices = 2}};
  set_scale_and_offset(s, norm);
  const auto images = right().tensor<T, seven_images>("synchronized.x", shape(7, 2, 2, 3));
  auto step = s.prepare(fetch(y, dx, dscale, doffset, train), feed(x));
  for (int i = 0; i < 2; ++i) {
    const auto [of_y, of_dx, of_dscale, of_doffset, trained] = step(images);
    right().check("synchronized", of_y, tolerance);
    right().check("synchronized.dx", of_dx, tolerance);
    right().check("synchronized.dscale", of_dscale, tolerance);
    right().check("synchronized.doffset", of_doffset, tolerance);
  }
  check_averages(s, norm, tolerance);
  right().check("synchronized.inferred", s.eval(inferred, with(x, images)), tolerance);
}

template <class T>
void check_all_replicas(double tolerance) {
  const auto join = [](const auto& list) { return std::apply([](const auto&... y) { return concat<0>(y...); }, list); };
  check_replicas<T>(tolerance, [](const auto& x) { return std::pair(replica<3>(x, 0, 0), replica<4>(x, 3, 1)); }, join);
  check_replicas<T>(
      tolerance,
      [](const auto& x) { return std::tuple(replica<2>(x, 0, 1), replica<1>(x, 2, 0), replica<4>(x, 3, 1)); }, join);
  const auto one_by_one = [](const auto& x) {
    std::vector<decltype(replica<1>(x, 0, 0))> list;
    for (int i = 0; i < 7; ++i) list.push_back(replica<1>(x, i, i % 2));
    return list;
  };
  check_replicas<T>(tolerance, one_by_one, [](const auto& list) {
    return concat<0>(list[0], list[1], list[2], list[3], list[4], list[5], list[6]);
  });
  check_replicas<T>(tolerance, [](const auto& x) { return std::array{let(x * T(1))}; }, join);
}

}  // namespace

BOOST_AUTO_TEST_CASE(replicas_normalize_by_the_whole_batch) {
  check_all_replicas<double>(1e-12);
  check_all_replicas<float>(1e-5);
}

BOOST_AUTO_TEST_CASE(replicas_have_any_number_of_rows) {
  using few_images = dims<dyn<"few">, 2, 2, 3>;
  using many_images = dims<dyn<"many">, 2, 2, 3>;
  graph g;
  const auto in_replica = [&]<class D>(int number, D, const char* name) {
    const device_scope there(g, cpu{number});
    return placeholder<double, D>(g, name);
  };
  const auto few = in_replica(0, few_images(), "few");
  const auto many = in_replica(1, many_images(), "many");
  const auto norm = synchronized_layer<double>();
  const auto [y0, y1] = norm(std::tuple(few, many), nn::mode::training);
  const auto loss = let(sum(square(y0 - 1.0)) + sum(square(y1 - 1.0)));
  const auto [dx0, dx1, dscale, doffset] = gradients(loss, few, many, norm.scale, norm.offset);
  const auto train = gradient_descent{.learning_rate = 0.0}.minimize(loss);
  session s{g, {.threads = 1, .devices = 2}};
  set_scale_and_offset(s, norm);
  auto step = s.prepare(fetch(concat<0>(y0, y1), concat<0>(dx0, dx1), dscale, doffset, train), feed(few, many));
  const std::vector<double>& images = right()["synchronized.x"];
  const auto run = [&](int begin, int middle, int end) {
    const auto part = [&]<class D>(D, int first, int last) {
      tensor<double, D> t(shape(last - first, 2, 2, 3));
      std::copy_n(images.begin() + 12 * first, t.elements(), t.data());
      return t;
    };
    return step(part(few_images(), begin, middle), part(many_images(), middle, end));
  };
  for (const int middle : {3, 0}) {
    const auto [y, dx, of_scale, of_offset, trained] = run(0, middle, 7);
    right().check("synchronized", y);
    right().check("synchronized.dx", dx);
    right().check("synchronized.dscale", of_scale);
    right().check("synchronized.doffset", of_offset);
  }
  check_averages(s, norm, 1e-12);
  const auto [y, dx, of_scale, of_offset, trained] = run(0, 0, 0);
  BOOST_CHECK_EQUAL(y.elements(), 0u);
  BOOST_CHECK(of_scale == (zeros<double, dims<3>>()) && of_offset == (zeros<double, dims<3>>()));
  check_averages(s, norm, 1e-12);
  // Each replica's rows are summed and normalized on its own device.
  const std::string plan = step.explain();
  for (const char* kernel :
       {"cpu:0  norm/reduce  sum a0 ", "cpu:1  norm/reduce_1  sum a0 ", "cpu:0  norm/reduce_2  sum square(",
        "cpu:1  norm/reduce_3  sum square(", "cpu:0  norm/map_9  map relu(", "cpu:1  norm/map_10  map relu("})
    CHECK_SAYS(plan, kernel);

  const std::vector<node<double, few_images>> nothing;
  BOOST_CHECK_EXCEPTION(norm(nothing, nn::mode::training), weft::error,
                        test::says(error_code::invalid_argument, "the list of replicas is empty"));
  graph other;
  const std::array apart{few, placeholder<double, few_images>(other, "few")};
  BOOST_CHECK_EXCEPTION(norm(apart, nn::mode::training), weft::error,
                        test::says(error_code::invalid_argument, "different graphs"));
}

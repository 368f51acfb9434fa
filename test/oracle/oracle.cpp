// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <string>
#include <weft/weft.hpp>

#include "compare.hpp"
#include "values.hpp"

using namespace weft;

// Weft in float against PyTorch in double; see make_values.py.

namespace {

using oracle::as_tensor;
using oracle::compare;
using oracle::numbers;

struct expected_gradient {
  symbol of;
  const numbers& values;
};

struct oracle_check {
  graph g;
  template <class D>
  auto in(const char* name, const numbers& values) {
    return variable<float, D>(g, name, as_tensor<D>(values));
  }

  template <class E>
  void operator()(const std::string& name, const E& y, const numbers& value,
                  std::initializer_list<expected_gradient> gradients) {
    check(name, let(y).erased(), value, gradients);
  }

  void check(const std::string& name, symbol y, const numbers& value,
             std::initializer_list<expected_gradient> gradients) {
    g.use(primitives<float>);
    std::vector<float> weight;
    for (std::size_t i = 0; i < y.extents().elements(); ++i)
      weight.push_back(static_cast<float>(oracle::in_weight[i % 12]));
    sequence<symbol> xs;
    for (const auto& e : gradients) xs.push_back(e.of);
    const auto found = g.differentiate({y}, {g.record_constant(weight.data(), y.info(), y.extents())}, xs);
    compare(name, run(y), value, 1e-6);
    std::size_t i = 0;
    for (const auto& e : gradients)
      compare(name + ", gradient " + std::to_string(i), run(found[i]), e.values, 2e-6), ++i;
  }

  numbers run(symbol s) {
    session session(g, {.threads = 1});
    plan::step_request request;
    request.fetches.push_back(s.id());
    prepared_step step(session, request);
    std::vector<float> result;
    step.run(nullptr, [&](std::size_t, const shape& extents) -> void* {
      result.resize(extents.elements());
      return result.data();
    });
    return numbers(result.begin(), result.end());
  }
};

}  // namespace

using namespace oracle;

BOOST_AUTO_TEST_CASE(operations) {
  oracle_check check;
  using matrix = dims<3, 4>;
  const auto x = check.in<matrix>("x", in_x), y = check.in<matrix>("y", in_y);
  const auto p = check.in<matrix>("p", in_p);
  const auto row = check.in<dims<4>>("row", in_row);
  const auto column = check.in<dims<3, 1>>("column", in_column);
  const auto scalar = check.in<dims<>>("scalar", in_scalar);
  const auto a = check.in<dims<3, 5>>("a", in_a);
  const auto b = check.in<dims<5, 4>>("b", in_b);
  const auto deep = check.in<dims<2, 3, 4>>("deep", in_deep);
  const symbol ex = x.erased(), ey = y.erased(), ep = p.erased();

#define UNARY(name, of) check(#name, name(of), name##_value, {{of.erased(), name##_d_##of}})
  UNARY(abs, x), UNARY(square, x), UNARY(exp, x), UNARY(tanh, x), UNARY(sigmoid, x), UNARY(relu, x);
  UNARY(softmax, x), UNARY(log_softmax, x), UNARY(transpose, x), UNARY(sqrt, p), UNARY(log, p);
  check("negate", -x, negate_value, {{ex, negate_d_x}});
  check("reshape", reshape<dims<2, 6>>(x), reshape_value, {{ex, reshape_d_x}});

  check("add", x + y, add_value, {{ex, add_d_x}, {ey, add_d_y}});
  check("subtract", x - y, subtract_value, {{ex, subtract_d_x}, {ey, subtract_d_y}});
  check("multiply", x * y, multiply_value, {{ex, multiply_d_x}, {ey, multiply_d_y}});
  check("divide", x / p, divide_value, {{ex, divide_d_x}, {ep, divide_d_p}});
  check("pow", pow(p, y), pow_value, {{ep, pow_d_p}, {ey, pow_d_y}});
  check("maximum", maximum(x, y), maximum_value, {{ex, maximum_d_x}, {ey, maximum_d_y}});
  check("minimum", minimum(x, y), minimum_value, {{ex, minimum_d_x}, {ey, minimum_d_y}});
  check("select", select(x < y, x * x, y), select_value, {{ex, select_d_x}, {ey, select_d_y}});
  check("with a row", x * row + row, with_row_value, {{ex, with_row_d_x}, {row.erased(), with_row_d_row}});
  check("with a column", x * column - column, with_column_value,
        {{ex, with_column_d_x}, {column.erased(), with_column_d_column}});
  check("with a scalar", x * scalar + scalar, with_scalar_value,
        {{ex, with_scalar_d_x}, {scalar.erased(), with_scalar_d_scalar}});
  check("of a column and a row", exp(column) * row, column_row_value,
        {{column.erased(), column_row_d_column}, {row.erased(), column_row_d_row}});

  check("sum", sum(deep), sum_all_value, {{deep.erased(), sum_all_d_deep}});
  check("sum<0>", sum<0>(deep), sum_0_value, {{deep.erased(), sum_0_d_deep}});
  check("sum<1, 2>", sum<1, 2>(deep), sum_12_value, {{deep.erased(), sum_12_d_deep}});
  check("mean", mean(deep), mean_all_value, {{deep.erased(), mean_all_d_deep}});
  check("mean<0>", mean<0>(deep), mean_0_value, {{deep.erased(), mean_0_d_deep}});
  check("mean<1, 2>", mean<1, 2>(deep), mean_12_value, {{deep.erased(), mean_12_d_deep}});
  check("max<1>", max<1>(deep), max_1_value, {{deep.erased(), max_1_d_deep}});
  check("min<0, 2>", min<0, 2>(deep), min_02_value, {{deep.erased(), min_02_d_deep}});
  check("prod<2>", prod<2>(deep), product_2_value, {{deep.erased(), product_2_d_deep}});

  using t = transpose_of;
  check("matmul", matmul(a, b), matmul_value, {{a.erased(), matmul_d_a}, {b.erased(), matmul_d_b}});
  check("matmul of a'", matmul<t::a>(x, y), matmul_ta_value, {{ex, matmul_ta_d_x}, {ey, matmul_ta_d_y}});
  check("matmul by b'", matmul<t::b>(x, y), matmul_tb_value, {{ex, matmul_tb_d_x}, {ey, matmul_tb_d_y}});
  check("matmul of b' by a'", matmul<t::both>(b, a), matmul_both_value,
        {{b.erased(), matmul_both_d_b}, {a.erased(), matmul_both_d_a}});

  const auto labels = constant(check.g, tensor<std::int32_t, dims<3>>{3, 0, 2});
  check("sparse cross-entropy", softmax_cross_entropy(x, labels), sparse_cross_entropy_value,
        {{ex, sparse_cross_entropy_d_x}});
  check("dense cross-entropy", softmax_cross_entropy(x, softmax(y)), dense_cross_entropy_value,
        {{ex, dense_cross_entropy_d_x}});

  const auto centred = let(x - reshape<dims<3, 1>>(mean<1>(x)));
  const auto variance = reshape<dims<3, 1>>(mean<1>(square(centred)));
  check("layer norm", centred / sqrt(variance + 1e-3f) * row, layer_norm_value,
        {{ex, layer_norm_d_x}, {row.erased(), layer_norm_d_row}});

  const auto second = [&](const std::string& name, const auto& f, const auto& of, const numbers& expected) {
    const auto [d] = gradients(f, of);
    const auto [dd] = gradients(sum(square(d)), of);
    compare(name, check.run(dd.erased()), expected, 5e-6);
  };
  second("second gradient of exp(tanh)", exp(tanh(x)), x, second_exp_tanh);
  second("second gradient of log(sum)", log(sum<1>(p)), p, second_log_sum);
  second("second gradient of softmax squared", square(softmax(y)), y, second_softmax_twice);
}

BOOST_AUTO_TEST_CASE(a_training_run) {
  oracle_check make;
  graph& g = make.g;
  const auto x = placeholder<float, dims<6, 8>>(g, "x");
  const auto labels = placeholder<std::int32_t, dims<6>>(g, "labels");
  const auto w1 = make.in<dims<8, 7>>("w1", run_start_0);
  const auto b1 = make.in<dims<7>>("b1", run_start_1);
  const auto w2 = make.in<dims<7, 4>>("w2", run_start_2);
  const auto b2 = make.in<dims<4>>("b2", run_start_3);
  const auto loss = mean(softmax_cross_entropy(matmul(sigmoid(matmul(x, w1) + b1), w2) + b2, labels));
  const auto train = momentum{.learning_rate = 0.2, .momentum = 0.9}.minimize(loss);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(loss, train), feed(x, labels));
  numbers costs;
  for (std::size_t i = 0; i < 15; ++i) {
    tensor<std::int32_t, dims<6>> classes;
    for (std::size_t k = 0; k < 6; ++k) classes.data()[k] = static_cast<std::int32_t>(run_classes[i % 5 * 6 + k]);
    costs.push_back(std::get<0>(step(as_tensor<dims<6, 8>>(run_images, i % 5 * 48), classes)));
  }
  compare("costs", costs, run_costs, 5e-6);
  const auto ends = [&](const auto& v, const numbers& expected) {
    compare("a variable at the end", s.eval(v), expected, 1e-5);
  };
  ends(w1, run_end_0), ends(b1, run_end_1), ends(w2, run_end_2), ends(b2, run_end_3);
}

// SPDX-License-Identifier: BSL-1.0
// Weights that PyTorch has trained, by a table of names and layouts: the outputs are PyTorch's.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include <weft/checkpoint/npy.hpp>
#include <weft/checkpoint/weight_table.hpp>
#include <weft/weft.hpp>

#include "checkpoint/files.hpp"
#include "errors.hpp"

using namespace weft;
using test::failure;

namespace {

const std::string pytorchs = TEST_DATA "/checkpoint/pytorch/";

/// The network of make_pytorch_weights.py.
struct lenet {
  graph g;
  node<float, dims<dyn<"batch">, 28, 28, 1>> images = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "images");
  variable_node<float, dims<5, 5, 1, 4>> w1 = variable<float, dims<5, 5, 1, 4>>(g, "conv1/weights", init::zeros{});
  variable_node<float, dims<4>> b1 = variable<float, dims<4>>(g, "conv1/bias", init::zeros{});
  variable_node<float, dims<5, 5, 4, 8>> w2 = variable<float, dims<5, 5, 4, 8>>(g, "conv2/weights", init::zeros{});
  variable_node<float, dims<8>> b2 = variable<float, dims<8>>(g, "conv2/bias", init::zeros{});
  variable_node<float, dims<392, 24>> w3 = variable<float, dims<392, 24>>(g, "dense/weights", init::zeros{});
  variable_node<float, dims<24>> b3 = variable<float, dims<24>>(g, "dense/bias", init::zeros{});
  variable_node<float, dims<24, 10>> w4 = variable<float, dims<24, 10>>(g, "softmax/weights", init::zeros{});
  variable_node<float, dims<10>> b4 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});

  auto logits() const {
    auto halved = max_pool2d<2>(relu(conv2d(images, w1) + b1));
    auto quartered = max_pool2d<2>(relu(conv2d(halved, w2) + b2));
    auto hidden = relu(matmul(reshape<dims<dyn<"batch">, 392>>(quartered), w3) + b3);
    return matmul(hidden, w4) + b4;
  }
};

const weight_table table = {{"conv1.weight", "conv1/weights", pytorch::conv2d()},
                            {"conv1.bias", "conv1/bias"},
                            {"conv2.weight", "conv2/weights", pytorch::conv2d()},
                            {"conv2.bias", "conv2/bias"},
                            {"fc1.weight", "dense/weights", pytorch::linear_after_flatten(8, 7, 7)},
                            {"fc1.bias", "dense/bias"},
                            {"fc2.weight", "softmax/weights", pytorch::linear()},
                            {"fc2.bias", "softmax/bias"}};
const std::string file = pytorchs + "lenet.safetensors";

weight_table changed(const std::string& name, weight_row row) {
  weight_table other = table;
  std::replace_if(other.rows.begin(), other.rows.end(), [&](const weight_row& r) { return r.in_file == name; }, row);
  return other;
}

}  // namespace

BOOST_AUTO_TEST_CASE(outputs_are_pytorchs) {
  const lenet model;
  session s(model.g);
  const restore_report report = load_weights(file, s, table);
  BOOST_TEST(report.complete());
  BOOST_TEST(report.restored.size() == 8u);
  const auto given = read_npy<tensor<float, dims<4, 1, 28, 28>>>(pytorchs + "images.npy");
  const auto expected = read_npy<tensor<float, dims<4, 10>>>(pytorchs + "logits.npy");
  // One channel: as NHWC they are the same bytes.
  const tensor<float, dims<dyn<"batch">, 28, 28, 1>> images(shape(4, 28, 28, 1), given);
  const auto found = s.eval(model.logits(), with(model.images, images));
  BOOST_TEST(found.elements() == 40u);
  for (std::size_t i = 0; i < 40; ++i) BOOST_TEST(std::abs(found.data()[i] - expected.data()[i]) < 1e-5f, i);
  BOOST_TEST(*std::max_element(expected.begin(), expected.end()) > 0.05f);
}

BOOST_AUTO_TEST_CASE(a_table_that_does_not_fit_changes_nothing) {
  const lenet model;
  session s(model.g);
  const auto refusal = [&](error_code code, const weight_table& other) {
    const std::string words = failure(code, [&] { load_weights(file, s, other); });
    const auto w4 = s.get(model.w4);
    BOOST_TEST(std::all_of(w4.begin(), w4.end(), [](float x) { return x == 0; }));
    return words;
  };
  CHECK_SAYS(refusal(error_code::invalid_argument, changed("fc2.weight", {"fc2.weight", "softmax/weights"})),
             "softmax/weights is F32 [10, 24] in the file and float [24, 10] in the graph");
  weight_table swapped = changed("fc2.weight", {"fc2.weight", "dense/weights", pytorch::linear()});
  swapped["fc1.weight"] = {"fc1.weight", "softmax/weights", pytorch::linear()};
  CHECK_SAYS(
      refusal(error_code::invalid_argument, swapped),
      "softmax/weights is F32 [24, 392] ([392, 24] after the table's conversion) in the file and float [24, 10] in "
      "the graph");
  CHECK_SAYS(refusal(error_code::invalid_argument,
                     changed("fc1.weight", {"fc1.weight", "dense/weights", pytorch::linear_after_flatten(8, 7, 5)})),
             "the layout of 'fc1.weight', F32 [24, 392], does not fit: `viewed` has another number of elements");
  CHECK_SAYS(
      refusal(error_code::invalid_argument, changed("fc1.weight", {"fc1.weight", "dense/weights", pytorch::conv2d()})),
      "`axes` must list each axis once");
  CHECK_SAYS(refusal(error_code::invalid_argument, changed("fc2.bias", {"fc2.bias", ""})),
             "missing in the file: softmax/bias");
  CHECK_SAYS(refusal(error_code::not_found, changed("fc2.bias", {"fc3.bias", "softmax/bias"})),
             "has no tensor fc3.bias, which the table names");
  weight_table lacks_two = changed("fc2.bias", {"fc3.bias", "softmax/bias"});
  lacks_two["fc1.bias"].in_file = "fc0.bias";
  CHECK_SAYS(refusal(error_code::not_found, lacks_two), "has no tensors fc0.bias, fc3.bias, which the table names");
}

// The extents of a tensor without elements are as large as its file says.
BOOST_AUTO_TEST_CASE(merged_extents_do_not_overflow) {
  const weight_layout layout{.merged = 2};
  safetensors_entry huge{.name = "x", .type = "F32", .extents = {std::int64_t{1} << 40, std::int64_t{1} << 40, 0}};
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { detail::apply_layout("f", layout, huge); }),
             "the merged axes have too many elements");
}

BOOST_AUTO_TEST_CASE(a_part_for_fine_tuning) {
  const lenet model;
  session s(model.g);
  weight_table part = table;
  part.rows.resize(4);
  const restore_report report = load_weights(file, s, part, {.partial = true});
  BOOST_TEST(report.restored.size() == 4u);
  BOOST_TEST(report.missing.size() == 4u);
  BOOST_TEST(report.extra.size() == 4u);
  const auto w1 = s.get(model.w1);
  const auto given = safetensors_file(file).read<float, dims<4, 1, 5, 5>>("conv1.weight");
  BOOST_TEST(w1(3, 2, 0, 1) == given(1, 0, 3, 2));
}

BOOST_AUTO_TEST_CASE(names_with_a_prefix_and_tied_tensors) {
  const folder f;
  const std::string path = f.path / "w.safetensors";
  graph g;
  const auto w = variable<float, dims<2, 3>>(g, "fc/weights", init::zeros{});
  const auto head = variable<float, dims<3, 2>>(g, "head/weights", init::zeros{});
  session s(g);
  const tensor<float, dims<3, 2>> value{1, 2, 3, 4, 5, 6};
  const weight_table rows{{"fc.weight", "fc/weights", pytorch::linear()},
                          {"head.weight", "head/weights"},
                          {"norm.num_batches_tracked", ""}};
  const auto loads = [&](const restore_options& options) {
    s.set(w, zeros<float, dims<2, 3>>());
    s.set(head, zeros<float, dims<3, 2>>());
    load_weights(path, s, rows, options);
    BOOST_TEST(s.get(w)(1, 2) == 6);
    BOOST_TEST(s.get(head)(2, 1) == 6);
  };
  const std::int64_t batches = 7;
  write_safetensors(path, {{"module.fc.weight", value},
                           {"module.head.weight", value},
                           {"module.norm.num_batches_tracked", dtype::int64, shape(), &batches}});
  loads({.rename = {{"module.", ""}}});
  loads({.rename = [](const std::string& n) { return n.starts_with("module.") ? n.substr(7) : n; }});
  CHECK_SAYS(failure(error_code::not_found, [&] { load_weights(path, s, rows); }), "removes a prefix");
  // safetensors.torch.save_model writes one of the tensors that share their elements.
  write_safetensors(path, {{"fc.weight", value}}, {{"format", "pt"}, {"head.weight", "fc.weight"}});
  loads({});
  write_safetensors(path, {{"model.head.weight", value}}, {{"model.fc.weight", "model.head.weight"}});
  loads({.rename = {{"model.", ""}}});
  // Two tensors for one variable must be equal.
  const weight_table tied{{"fc.weight", "head/weights"}, {"head.weight", "head/weights"}};
  const auto both = [&](const tensor<float, dims<3, 2>>& other) {
    write_safetensors(path, {{"fc.weight", value}, {"head.weight", other}});
    load_weights(path, s, tied, {.variables = variables_in(g, "head")});
  };
  both(value);
  BOOST_TEST(s.get(head)(0, 1) == 2);
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { both(tensor<float, dims<3, 2>>{1, 2, 3, 4, 5, 7}); }),
             "rename maps two tensors to");
}

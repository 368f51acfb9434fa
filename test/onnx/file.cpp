// SPDX-License-Identifier: BSL-1.0
// Files that the package onnx has written (make_files.py), read, written again, and damaged.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>
#include <weft/onnx/file.hpp>

#include "errors.hpp"

using namespace weft;
namespace fs = std::filesystem;
using std::int64_t;

namespace {

const std::string files = TEST_DATA "/onnx/files/";

/// A folder for one test.
struct folder {
  std::string path = (fs::temp_directory_path() / ("weft_onnx_" + std::to_string(::getpid()))).string();
  folder() { fs::create_directories(path); }
  ~folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

template <class T>
std::vector<T> elements(const onnx::graph& g, const std::string& name) {
  for (const onnx::tensor_value& t : g.initializers)
    if (t.name == name) {
      std::vector<T> all(t.bytes.size() / sizeof(T));
      if (!all.empty()) std::memcpy(all.data(), t.bytes.data(), t.bytes.size());
      return all;
    }
  BOOST_ERROR(name << " is not an initializer");
  return {};
}

template <class T>
void check_elements(const onnx::graph& g, const std::string& name, const std::vector<T>& expected) {
  BOOST_TEST_CONTEXT(name) BOOST_TEST((elements<T>(g, name) == expected));
}

void check_small(const onnx::model& m) {
  BOOST_TEST(m.ir_version == 10);
  BOOST_TEST(m.producer == "make_files");
  BOOST_TEST(m.opsets.at("") == 18);
  BOOST_TEST(m.opsets.at("my") == 1);
  BOOST_TEST((m.metadata == onnx::texts{{"author", "somebody"}}));
  const onnx::graph& g = m.main;
  BOOST_TEST(g.initializers.size() == 21u);
  BOOST_TEST((g.initializers[0].extents == std::vector<int64_t>{2, 3}));
  check_elements<float>(g, "weights", {0, 1, 2, 3, 4, 5});
  check_elements<int64_t>(g, "outside", {-2, -1, 0, 1, 2});
  check_elements<float>(g, "float", {1.5f, -2});
  check_elements<double>(g, "double", {0.1, 1e300});
  check_elements<std::int8_t>(g, "int8", {-128, 127});
  check_elements<std::uint8_t>(g, "uint8", {0, 255});
  check_elements<std::int16_t>(g, "int16", {-32768, 7});
  check_elements<std::uint16_t>(g, "uint16", {65535});
  check_elements<std::int32_t>(g, "int32", {INT32_MIN, INT32_MAX});
  check_elements<int64_t>(g, "int64", {INT64_MIN, INT64_MAX});
  check_elements<std::uint32_t>(g, "uint32", {UINT32_MAX});
  check_elements<std::uint64_t>(g, "uint64", {UINT64_MAX});
  check_elements<unsigned char>(g, "bool", {1, 0});
  check_elements<std::uint16_t>(g, "half", {0x3e00, 0xc000});
  check_elements<std::uint16_t>(g, "bfloat16", {0x3fc0, 0xc000});
  check_elements<float>(g, "complex", {1, 2});
  check_elements<unsigned char>(g, "int4", {0xe1, 0x03});
  check_elements<unsigned char>(g, "float8", {0x38, 0x40});
  check_elements<float>(g, "scalar", {3});
  check_elements<int64_t>(g, "empty", {});
  BOOST_TEST((g.initializers[18].strings == std::vector<std::string>{"a", std::string("\0b", 2)}));

  const onnx::value_info& x = g.inputs.at(0);
  BOOST_TEST(x.kind == "tensor");
  BOOST_TEST((x.has_shape && x.extents.size() == 3));
  BOOST_TEST(x.extents[0].name == "batch");
  BOOST_TEST(x.extents[1].value == 3);
  BOOST_TEST((x.extents[2].value == -1 && x.extents[2].name.empty()));
  BOOST_TEST((g.inputs[1].has_shape && g.inputs[1].extents.empty()));
  BOOST_TEST(g.inputs[2].kind == "sequence");

  const onnx::node& branch = g.nodes.at(0);
  BOOST_TEST(branch.name == "branch");
  const onnx::attribute* const then_branch = branch.find("then_branch");
  BOOST_REQUIRE((then_branch && then_branch->g));
  BOOST_TEST(then_branch->g->nodes.at(0).op_type == "Identity");
  BOOST_TEST(!branch.find("absent"));
  BOOST_TEST((g.nodes[1].domain == "my" && g.nodes[1].doc == "a call"));
  const onnx::node& many = g.nodes.at(2);
  BOOST_TEST((many.inputs == std::vector<std::string>{"", "x"}));
  BOOST_TEST(many.find("f")->f == 0.5f);
  BOOST_TEST(many.find("i")->i == -3);
  BOOST_TEST(many.find("s")->s == "text");
  BOOST_TEST((many.find("fs")->floats == std::vector<float>{1, 2}));
  BOOST_TEST((many.find("ns")->ints == std::vector<int64_t>{1, -1}));
  BOOST_TEST((many.find("ss")->strings == std::vector<std::string>{"a", "b"}));
  BOOST_TEST(many.find("t")->t.bytes.size() == 8u);
  BOOST_TEST(m.functions.at(0).nodes.at(0).op_type == "Add");
  BOOST_TEST(m.functions[0].opsets.at("") == 18);
}

}  // namespace

BOOST_AUTO_TEST_CASE(reads_what_the_package_onnx_writes) { check_small(onnx::read_model(files + "small.onnx")); }

BOOST_AUTO_TEST_CASE(written_models_are_read_with_and_without_external_data) {
  const folder made;
  const onnx::model m = onnx::read_model(files + "small.onnx");
  onnx::write_model(made / "inside.onnx", m);
  BOOST_TEST(!fs::exists(made / "inside.onnx.data"));
  check_small(onnx::read_model(made / "inside.onnx"));
  onnx::write_model(made / "outside.onnx", m, {.external_above = 20});
  BOOST_TEST(fs::file_size(made / "outside.onnx.data") == 4096u + 40u);
  check_small(onnx::read_model(made / "outside.onnx"));
  const onnx::model again = onnx::read_model(made / "outside.onnx");
  onnx::write_model(made / "outside.onnx", again,
                    {.external_above = 20});  // the mapped files are replaced, not changed
  check_small(again);
  check_small(onnx::read_model(made / "outside.onnx"));
}

BOOST_AUTO_TEST_CASE(an_error_in_external_data_leaves_the_model) {
  const folder made;
  const onnx::model m = onnx::read_model(files + "small.onnx");
  fs::create_directory(made / "outside.onnx.data");
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { onnx::write_model(made / "outside.onnx", m, {.external_above = 20}); }),
             "outside.onnx.data must be a regular file, but is a folder");
  BOOST_TEST(std::distance(fs::directory_iterator(made.path), {}) == 1);
}

BOOST_AUTO_TEST_CASE(element_types_have_names_and_codes) {
  for (int type = 0; type < 13; ++type)
    BOOST_TEST((onnx::element_type(onnx::type_of(static_cast<dtype>(type))) == static_cast<dtype>(type)));
  BOOST_TEST(onnx::type_of(dtype::float32) == 1);
  BOOST_TEST(onnx::type_name(22) == "INT4");
  BOOST_TEST(onnx::type_name(-5) == "number -5");
  BOOST_TEST(!onnx::element_type(22));
  BOOST_TEST(!onnx::element_type(1000));
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_read_or_refused) {
  const folder made;
  const std::string good = content(files + "small.onnx");
  fs::copy(files + "outside.bin", made / "outside.bin");
  const auto read = [&](const std::string& bytes) {
    put(made / "bad.onnx", bytes);
    std::string why;
    const error_code code = test::code_of([&] { onnx::read_model(made / "bad.onnx"); }, &why);
    const bool known = code == error_code{} || code == error_code::data_loss || code == error_code::invalid_argument ||
                       code == error_code::unimplemented || code == error_code::not_found ||
                       code == error_code::permission_denied;
    BOOST_CHECK_MESSAGE(known, why);
    return code;
  };
  for (std::size_t size = 0; size < good.size(); size += 1 + size / 200) read(good.substr(0, size));
  BOOST_TEST((read("") == error_code::invalid_argument));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    read(bad);
  }
}

BOOST_AUTO_TEST_CASE(hostile_models_are_refused) {
  const folder made;
  const auto failure_of = [&](error_code code, const data::protobuf_writer& graph) {
    data::protobuf_writer m;
    m.add_integer(1, 10);
    m.add_message(7, graph);
    put(made / "bad.onnx", m.bytes());
    return test::failure(code, [&] { onnx::read_model(made / "bad.onnx"); });
  };
  const auto with = [](std::uint32_t field, const data::protobuf_writer& part) {
    data::protobuf_writer g;
    g.add_message(field, part);
    return g;
  };
  data::protobuf_writer deep;
  for (int i = 0; i < 200; ++i) {
    data::protobuf_writer a, n;
    a.add_text(1, "body");
    a.add_message(6, deep);
    n.add_text(4, "Loop");
    n.add_message(5, a);
    deep = with(1, n);
  }
  CHECK_SAYS(failure_of(error_code::data_loss, deep), "graphs are nested too deeply at byte");

  const auto tensor = [&](std::vector<int64_t> extents, int type, const onnx::texts& external = {}) {
    data::protobuf_writer t;
    t.add_integers(1, extents.data(), extents.size());
    t.add_integer(2, type);
    t.add_text(8, "w");
    for (const auto& [key, value] : external) {
      data::protobuf_writer entry;
      entry.add_text(1, key);
      entry.add_text(2, value);
      t.add_message(13, entry);
    }
    if (!external.empty()) t.add_integer(14, 1);
    return t;
  };
  const int64_t big = int64_t{1} << 32;
  CHECK_SAYS(failure_of(error_code::data_loss, with(5, tensor({big, big}, 1))), "too many elements");
  CHECK_SAYS(failure_of(error_code::data_loss, with(5, tensor({big, 2}, 1))), "do not match its extents");
  CHECK_SAYS(failure_of(error_code::data_loss, with(5, tensor({-2}, 1))), "a negative extent");
  CHECK_SAYS(failure_of(error_code::data_loss, with(5, tensor({2}, 99))), "an unknown element type");
  data::protobuf_writer t = tensor({1}, 3);
  const std::int32_t three_hundred = 300;
  t.add_integers(5, &three_hundred, 1);
  CHECK_SAYS(failure_of(error_code::data_loss, with(5, t)), "does not fit its element type");
  t = tensor({1}, 9);
  t.add_text(9, "\2");
  CHECK_SAYS(failure_of(error_code::data_loss, with(5, t)), "a bool is neither 0 nor 1");
  t = tensor({1}, 1);
  t.add_message(3, {});
  CHECK_SAYS(failure_of(error_code::unimplemented, with(5, t)), "a tensor in segments");
  CHECK_SAYS(failure_of(error_code::unimplemented, with(15, with(1, tensor({1}, 1)))), "initializer 'w' is sparse");

  // External data.
  const auto outside = [&](error_code code, const onnx::texts& external) {
    return failure_of(code, with(5, tensor({4}, 2, external)));
  };
  put(made / "four", "abcd");
  fs::create_directory(made / "in");
  put(made / "in/four", "abcd");
  fs::create_symlink("/etc/passwd", made / "link");
  fs::create_symlink("in/four", made / "safe");
  for (const char* place : {"/etc/passwd", "../four", "in/../four", "link", ""})
    CHECK_SAYS(outside(error_code::permission_denied, {{"location", place}}), "must be a file in the model's folder");
  CHECK_SAYS(outside(error_code::not_found, {{"location", "five"}}), "five cannot be read");
  CHECK_SAYS(outside(error_code::data_loss, {{"location", "four"}, {"offset", "1"}}), "are 4 bytes from byte 1");
  CHECK_SAYS(outside(error_code::data_loss, {{"location", "four"}, {"offset", "18446744073709551615"}}), "from byte");
  CHECK_SAYS(outside(error_code::data_loss, {{"location", "four"}, {"length", "3"}}), "are 3 bytes");
  CHECK_SAYS(outside(error_code::data_loss, {{"location", "four"}, {"offset", "-1"}}), "it must be a number");
  for (const char* place : {"four", "in/four", "safe"}) {
    data::protobuf_writer m;
    m.add_integer(1, 10);
    m.add_message(7, with(5, tensor({4}, 2, {{"location", place}})));
    put(made / "good.onnx", m.bytes());
    check_elements<unsigned char>(onnx::read_model(made / "good.onnx").main, "w", {'a', 'b', 'c', 'd'});
  }
}

BOOST_AUTO_TEST_CASE(large_models_need_external_data) {
  const folder made;
  {
    std::ofstream(made / "zeros.bin");
  }
  constexpr std::uint64_t size = (std::uint64_t{1} << 31) + 1000;
  fs::resize_file(made / "zeros.bin", size);  // a hole
  const auto zeros = weft::detail::map_file(made / "zeros.bin");
  onnx::model m;
  m.ir_version = 10;
  onnx::tensor_value& t = m.main.initializers.emplace_back();
  t.name = "w";
  t.type = onnx::type_of(dtype::uint8);
  t.extents = {static_cast<int64_t>(size)};
  t.bytes = *zeros;
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { onnx::write_model(made / "big.onnx", m); }),
             "big.onnx must have at most 2147483647 bytes");
  BOOST_TEST(!fs::exists(made / "big.onnx"));
}

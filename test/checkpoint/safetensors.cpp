// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <string>

#include <weft/checkpoint/safetensors.hpp>

#include "data/files.hpp"
#include "errors.hpp"

using namespace weft;
using test::says;

namespace {

/// A file of this header and so many bytes behind it.
std::string file_of(const folder& f, const std::string& header, std::size_t size) {
  bytes all;
  for (unsigned i = 0; i < 8; ++i) all.push_back(static_cast<unsigned char>(header.size() >> (8 * i)));
  all.insert(all.end(), header.begin(), header.end());
  all.resize(all.size() + size);
  return f.file("made.safetensors", all);
}

bytes content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return bytes(std::istreambuf_iterator<char>(in), {});
}

std::size_t files_in(const folder& f) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(f.path), {}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  const folder f;
  const std::string path = f.path / "a.safetensors";
  tensor<float, dims<2, 3>> w{1, 2, 3, 4, 5, 6};
  tensor<half, dims<3>> h{1.0f, -2.0f, 0.5f};
  tensor<bool, dims<2>> b{true, false};
  tensor<std::uint64_t> u(~std::uint64_t{0});
  tensor<double, dims<dyn<"n">, 2>> none(shape(0, 2));
  const auto entries =
      write_safetensors(path, {{"w", w}, {"b", b}, {"u", u}, {"h", h}, {"none", none}}, {{"made by", "a \"test\"\n"}});
  const safetensors_file file(path);
  BOOST_TEST(file.entries().size() == 5u);
  BOOST_TEST(file.metadata().at(0).second == "a \"test\"\n");
  const auto again = file.read<float, dims<2, 3>>("w");
  BOOST_TEST(std::memcmp(again.data(), w.data(), sizeof(float) * 6) == 0);
  BOOST_TEST((float(file.read<half, dims<3>>("h")(1)) == -2.0f));
  BOOST_TEST((file.read<bool, dims<2>>("b")(0)));
  BOOST_TEST(std::uint64_t{file.read<std::uint64_t>("u")} == ~std::uint64_t{0});
  BOOST_TEST((file.read<double, dims<dyn<"n">, 2>>("none").elements()) == 0u);
  // Each tensor lies where the writer says, and elements are aligned.
  for (const safetensors_entry& e : entries) {
    const safetensors_entry* there = file.find(e.name);
    BOOST_REQUIRE(there);
    BOOST_TEST(there->offset == e.offset);
    BOOST_TEST(there->bytes == e.bytes);
  }
  BOOST_TEST(file.find("w")->offset % 4 == 0u);
  BOOST_TEST(file.find("u")->offset % 8 == 0u);

  BOOST_CHECK_EXCEPTION(file.read<float>("v"), error, says(error_code::not_found, "has no tensor 'v'"));
  BOOST_CHECK_EXCEPTION((file.read<double, dims<2, 3>>("w")), error,
                        says(error_code::invalid_argument, "'w' is F32 [2, 3], but was requested as F64"));
  BOOST_CHECK_EXCEPTION((file.read<float, dims<3, 2>>("w")), error, says(error_code::invalid_argument, "[2, 3]"));
}

BOOST_AUTO_TEST_CASE(names_that_cannot_be_written) {
  const folder f;
  const std::string path = f.path / "a.safetensors";
  const tensor<float> x(1.0f);
  const auto refused = [&](const std::string& words) { return says(error_code::invalid_argument, words); };
  BOOST_CHECK_EXCEPTION(write_safetensors(path, {{"x", x}, {"y", x}, {"x", x}}), error, refused("unique"));
  BOOST_CHECK_EXCEPTION(write_safetensors(path, {{"__metadata__", x}}), error, refused("__metadata__"));
  BOOST_CHECK_EXCEPTION(write_safetensors(path, {{"\xff", x}}), error, refused("UTF-8"));
  BOOST_TEST(files_in(f) == 0u);
}

BOOST_AUTO_TEST_CASE(damaged_files_are_refused_with_the_byte) {
  const folder f;
  const auto refused = [&](const std::string& header, std::size_t size, const std::string& words) {
    BOOST_TEST_CONTEXT(header)
    BOOST_CHECK_EXCEPTION(safetensors_file(file_of(f, header, size)), error, says(error_code::data_loss, words));
  };
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  BOOST_CHECK_NO_THROW(safetensors_file(file_of(f, "{" + a + "}", 8)));
  refused("{" + a + "}", 7, "'a' must end within the file, but ends at byte 70 of 69: it was truncated");
  refused("{" + a + "}", 9, "damaged at byte 70: the file must end with its last tensor, but has 1 more bytes");
  refused("{" + a + "," + a + "}", 8, "must begin where the one before it ends");
  refused("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", 8, "tensor 'b' must begin");
  refused("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[9,13]}})", 13, "leave gaps");
  refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "too many elements");
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "data_offsets do not match dtype and shape");
  refused(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8, "damaged at byte 61: an unknown dtype");
  refused(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "a nonnegative integer is expected");
  refused(R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", 8, "a member occurs twice");
  refused(
      R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0,
      "names must be unique, but 'a' occurs twice");
  refused("{\"\xff\":1}", 0, "not UTF-8");
  refused(R"({"\ud800":1})", 0, "surrogate");
  refused("{", 0, "damaged at byte 9");
  std::string deep = R"({"a":{"x":)";
  refused(deep + std::string(100000, '['), 0, "nested too deeply");

  BOOST_CHECK_EXCEPTION(safetensors_file(f.file("short", {1, 2, 3})), error, says(error_code::data_loss, "8 bytes"));
  BOOST_CHECK_EXCEPTION(safetensors_file(f.file("long", bytes(16, 0xff))), error,
                        says(error_code::data_loss, "the header must have at most 8 bytes"));
  BOOST_CHECK_EXCEPTION(safetensors_file(f.path / "none"), error, says(error_code::not_found, "/none"));
  BOOST_CHECK_EXCEPTION(safetensors_file(f.path), error, says(error_code::invalid_argument, "not a regular file"));
}

BOOST_AUTO_TEST_CASE(an_element_is_not_any_byte) {
  const folder f;
  const std::string path = f.path / "a.safetensors";
  write_safetensors(path, {{"b", tensor<bool, dims<3>>{true, false, true}}});
  bytes all = content(path);
  all.back() = 2;
  const safetensors_file file(f.file("b.safetensors", all));
  const std::string at = std::to_string(all.size() - 1);
  BOOST_CHECK_EXCEPTION((file.read<bool, dims<3>>("b")), error,
                        says(error_code::data_loss, "damaged at byte " + at + ": an element of 'b' is bool and is 2"));
}

BOOST_AUTO_TEST_CASE(types_that_weft_has_not_can_be_looked_at) {
  const folder f;
  const safetensors_file file(file_of(f,
                                      R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
                                      R"("b":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[4,5]}})",
                                      5));
  BOOST_TEST(file.find("a")->type == "F8_E4M3");
  BOOST_CHECK_EXCEPTION((file.read<float, dims<4>>("a")), error, says(error_code::invalid_argument, "'a' is F8_E4M3"));
  BOOST_CHECK_EXCEPTION((file.read<std::uint8_t, dims<1>>("b")), error,
                        says(error_code::invalid_argument, "at most 8 axes"));
}

BOOST_AUTO_TEST_CASE(a_write_that_fails_leaves_what_was_there) {
  const folder f;
  const std::string path = f.path / "a.safetensors";
  write_safetensors(path, {{"x", tensor<float>(1.0f)}});

  // As a full disk does, the system says no in the middle.
  struct rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit little{100'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &little);
  const tensor<float, dims<1'000'000>> large;
  BOOST_CHECK_EXCEPTION(write_safetensors(path, {{"x", large}}), error,
                        says(error_code::resource_exhausted, "a.safetensors cannot be written: File too large; make"));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);

  BOOST_TEST(float{safetensors_file(path).read<float>("x")} == 1.0f);
  BOOST_TEST(files_in(f) == 1u);
  BOOST_CHECK_EXCEPTION(write_safetensors(f.path / "no/a", {{"x", tensor<float>(1.0f)}}), error,
                        says(error_code::not_found, "/no/a cannot be written"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_cut_off_later) {
  const folder f;
  const std::string path = f.path / "a.safetensors";
  write_safetensors(path, {{"x", tensor<float, dims<100>>()}});
  const safetensors_file file(path);
  std::filesystem::resize_file(path, 200);
  BOOST_CHECK_EXCEPTION((file.read<float, dims<100>>("x")), error,
                        says(error_code::data_loss, "ends at byte 200, but had"));
}

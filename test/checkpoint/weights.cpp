// SPDX-License-Identifier: BSL-1.0
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <weft/checkpoint/npy.hpp>
#include <weft/checkpoint/weights.hpp>
#include <weft/weft.hpp>

#include "data/files.hpp"
#include "errors.hpp"

using namespace weft;
using test::says;

namespace {

using names = std::vector<std::string>;

/// A model of two layers, with what is averaged, counted and a worker's own.
struct model {
  graph g;
  variable_node<float, dims<3, 2>> w = variable<float, dims<3, 2>>(g, "hidden/w", init::normal{.stddev = 1});
  variable_node<float, dims<2>> b = variable<float, dims<2>>(g, "hidden/b", init::normal{.stddev = 1});
  variable_node<double, dims<2>> mean = variable<double, dims<2>>(g, "mean", 0.5, variable_kind::averaged);
  variable_node<std::int64_t, dims<>> count = variable<std::int64_t>(g, "count", 7, variable_kind::counter);
  explicit model(std::uint64_t seed) : g(seed) {}
};

template <class T, class D>
bool equal(const tensor<T, D>& a, const tensor<T, D>& b) {
  return a.extents() == b.extents() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_are_saved_and_loaded) {
  const folder f;
  const std::string path = f.path / "w.safetensors";
  model a(1), b(2);
  session s(a.g), t(b.g);
  s.set(a.mean, tensor<double, dims<2>>{3, 4});
  s.set(a.count, std::int64_t{9});
  save_weights(path, s, {{"format", "pt"}});
  const safetensors_file file(path);
  BOOST_TEST(file.entries().size() == 3u);  // trained and averaged
  BOOST_TEST(equal(file.read<float, dims<3, 2>>("hidden/w"), s.get(a.w)));
  BOOST_TEST(!equal(s.get(a.w), t.get(b.w)));
  const restore_report report = load_weights(path, t);
  BOOST_TEST(report.complete());
  BOOST_TEST(report.restored == (names{"hidden/b", "hidden/w", "mean"}), boost::test_tools::per_element());
  BOOST_TEST(equal(s.get(a.w), t.get(b.w)));
  BOOST_TEST(equal(s.get(a.b), t.get(b.b)));
  BOOST_TEST(equal(s.get(a.mean), t.get(b.mean)));
  BOOST_TEST(t.get(b.count) == 7);
}

BOOST_AUTO_TEST_CASE(files_are_written_through_links) {
  namespace fs = std::filesystem;
  const folder f;
  const auto at = [&](const char* name) { return std::string(f.path / name); };
  fs::create_directory(at("real"));
  fs::create_symlink("real", at("linked"));
  fs::create_symlink("linked/new.npy", at("first"));
  fs::create_symlink(at("first"), at("second"));  // a link to a link, to a file that is not there yet
  const tensor<float, dims<2>> one{1, 2}, two{3, 4};
  write_npy(at("second"), one);
  BOOST_TEST(fs::is_symlink(at("second")));
  BOOST_TEST(fs::is_symlink(at("first")));
  BOOST_TEST(equal(read_npy<tensor<float, dims<2>>>(at("real/new.npy")), one));
  BOOST_REQUIRE_EQUAL(::chmod(at("real/new.npy").c_str(), 0640), 0);
  write_npy(at("first"), two);
  BOOST_TEST(fs::is_symlink(at("first")));
  BOOST_TEST(equal(read_npy<tensor<float, dims<2>>>(at("second")), two));
  struct stat status{};
  BOOST_REQUIRE_EQUAL(::stat(at("real/new.npy").c_str(), &status), 0);
  BOOST_TEST((status.st_mode & 0777) == 0640u);  // of the file that was replaced
  BOOST_TEST(std::distance(fs::directory_iterator(at("real")), {}) == 1);

  fs::create_symlink("round", at("round"));
  CHECK_SAYS(test::failure(error_code::unavailable, [&] { write_npy(at("round"), one); }), at("round"));
}

BOOST_AUTO_TEST_CASE(what_is_not_a_regular_file_is_not_replaced) {
  namespace fs = std::filesystem;
  const folder f;
  const auto at = [&](const char* name) { return std::string(f.path / name); };
  fs::create_directory(at("folder"));
  BOOST_REQUIRE_EQUAL(::mkfifo(at("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", at("to-pipe"));
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, at("socket").c_str(), sizeof address.sun_path - 1);
  BOOST_REQUIRE_EQUAL(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
  model m(1);
  session s(m.g);
  const std::pair<std::string, const char*> paths[] = {{at("folder"), "a folder"}, {at("folder/"), "a folder"},
                                                       {at("pipe"), "a pipe"},     {at("to-pipe"), "a pipe"},
                                                       {at("socket"), "a socket"}, {"/dev/null", "a device"}};
  for (const auto& [path, kind] : paths) {
    const auto before = fs::status(path).type();
    const std::string says = path + " must be a regular file, but is " + kind;
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&, &path = path] { save_weights(path, s); }), says);
    CHECK_SAYS(test::failure(error_code::invalid_argument, [&, &path = path] { write_npy(path, s.get(m.w)); }), says);
    BOOST_TEST((fs::status(path).type() == before));
  }
  BOOST_TEST(fs::is_symlink(at("to-pipe")));
  BOOST_TEST(std::distance(fs::directory_iterator(f.path), {}) == 4);
  BOOST_CHECK(test::code_of([&] { save_weights("", s); }) == error_code::not_found);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_named_and_changes_nothing) {
  const folder f;
  const std::string path = f.path / "w.safetensors";
  model a(1);
  session s(a.g);
  const tensor<float, dims<3, 2>> w{1, 2, 3, 4, 5, 6};
  write_safetensors(path, {{"hidden/w", w}, {"hidden/b", tensor<float, dims<3>>()}, {"other", w}});
  const auto before = s.get(a.w);
  const std::string said = test::failure(error_code::invalid_argument, [&] { load_weights(path, s); });
  CHECK_SAYS(said, path);
  CHECK_SAYS(said, "missing in the file: mean");
  CHECK_SAYS(said, "extra in the file: other");
  CHECK_SAYS(said, "hidden/b is F32 [3] in the file and float [2] in the graph");
  CHECK_SAYS(said, "restore_options{.partial = true}");
  BOOST_TEST(equal(s.get(a.w), before));

  const restore_report report = load_weights(path, s, {.partial = true});
  BOOST_TEST(report.restored == names{"hidden/w"}, boost::test_tools::per_element());
  BOOST_TEST(report.missing == names{"mean"}, boost::test_tools::per_element());
  BOOST_TEST(report.extra == names{"other"}, boost::test_tools::per_element());
  BOOST_REQUIRE(report.different.size() == 1u);
  BOOST_TEST(report.different[0].name == "hidden/b");
  BOOST_TEST(!report.complete());
  BOOST_TEST(equal(s.get(a.w), w));
}

BOOST_AUTO_TEST_CASE(names_of_the_file_become_names_of_the_graph) {
  const folder f;
  const std::string path = f.path / "w.safetensors";
  const tensor<float, dims<3, 2>> w{1, 2, 3, 4, 5, 6};
  const tensor<float, dims<2>> b{7, 8};
  const tensor<double, dims<2>> mean{9, 10};
  write_safetensors(path, {{"fc.weight", w}, {"fc.bias", b}, {"mean", mean}, {"head", mean}});
  model m(1);
  session s(m.g);
  load_weights(path, s, {.rename = {{"fc.weight", "hidden/w"}, {"fc.bias", "hidden/b"}, {"head", ""}}});
  BOOST_TEST(equal(s.get(m.w), w));
  BOOST_TEST(equal(s.get(m.mean), mean));
  session t(m.g);
  const restore_report report = load_weights(
      path, t, {.partial = true, .rename = [](const std::string& n) { return n == "fc.bias" ? "hidden/b" : n; }});
  BOOST_TEST(equal(t.get(m.b), b));
  BOOST_TEST(report.missing == names{"hidden/w"}, boost::test_tools::per_element());
  BOOST_CHECK_EXCEPTION(load_weights(path, s, {.rename = {{"head", "mean"}}}), error,
                        says(error_code::invalid_argument, ": 'head' and 'mean'"));
}

BOOST_AUTO_TEST_CASE(a_table_renames_scopes) {
  const renaming table{{"net/encoder", "encoder"}, {"module.", ""}, {"optimizer", ""}, {"net/encoder/b", "bias"}};
  BOOST_TEST(table("net/encoder/w") == "encoder/w");
  BOOST_TEST(table("net/encoder") == "encoder");
  BOOST_TEST(table("net/encoder/b") == "bias");
  BOOST_TEST(table("net/encoders/w") == "net/encoders/w");
  BOOST_TEST(table("module.fc.weight") == "fc.weight");
  BOOST_TEST(table("optimizer.step") == "");
  BOOST_TEST(table("optimizers") == "optimizers");
}

BOOST_AUTO_TEST_CASE(floating_point_types_are_converted) {
  const folder f;
  const std::string path = f.path / "w.safetensors";
  const std::uint16_t half_bits[] = {0x3e00, 0xc000, 0x0001, 0x7bff, 0x3c01, 0xfc00};  // IEEE 754 binary16
  const std::uint16_t bfloat_bits[] = {0x3fc0, 0xc049};                                // the upper half of binary32
  const float mean[] = {0.1f, -3};
  const float expected[] = {1.5f, -2, 5.9604645e-8f, 65504, 1.0009766f, -INFINITY};
  write_safetensors(path, {{"hidden/w", dtype::float16, shape(3, 2), half_bits},
                           {"hidden/b", dtype::bfloat16, shape(2), bfloat_bits},
                           {"mean", dtype::float32, shape(2), mean}});  // a variable of double
  model m(1);
  session s(m.g);
  BOOST_TEST(load_weights(path, s).complete());
  const auto w = s.get(m.w);
  for (std::size_t i = 0; i < 6; ++i) BOOST_TEST(w.data()[i] == expected[i], i);
  BOOST_TEST(s.get(m.b)(0) == 1.5f);
  BOOST_TEST(s.get(m.b)(1) == -3.140625f);
  BOOST_TEST(s.get(m.mean)(0) == static_cast<double>(0.1f));
  const double wide[] = {0.1, 1e-50};
  write_safetensors(path, {{"hidden/b", dtype::float64, shape(2), wide}});
  load_weights(path, s, {.partial = true});
  BOOST_TEST(s.get(m.b)(0) == 0.1f);
  BOOST_TEST(s.get(m.b)(1) == 0.0f);
  // From double to 16 bits, values are rounded once: float would make the first of each pair a tie.
  graph narrow;
  const auto f16 = variable<half, dims<4>>(narrow, "h");
  const auto bf16 = variable<bfloat16, dims<4>>(narrow, "bf");
  session of_narrow(narrow);
  const double halves[] = {1 + 0x1p-11 + 0x1p-40, -(1 + 3 * 0x1p-11 - 0x1p-40), 1e300, 1e-300};
  const double bfloats[] = {1 + 0x1p-8 + 0x1p-40, -(1 + 3 * 0x1p-8 - 0x1p-40), 1e300, 1 + 0x1p-8};
  write_safetensors(path, {{"h", dtype::float64, shape(4), halves}, {"bf", dtype::float64, shape(4), bfloats}});
  load_weights(path, of_narrow, {.partial = true});
  const auto halves_read = of_narrow.get(f16);
  const auto bfloats_read = of_narrow.get(bf16);
  const float halves_expected[] = {1 + 0x1p-10f, -(1 + 0x1p-10f), INFINITY, 0};
  const float bfloats_expected[] = {1 + 0x1p-7f, -(1 + 0x1p-7f), INFINITY, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_TEST(static_cast<float>(halves_read.data()[i]) == halves_expected[i], i);
    BOOST_TEST(static_cast<float>(bfloats_read.data()[i]) == bfloats_expected[i], i);
  }
  const std::int32_t integers[] = {1, 2};
  write_safetensors(path, {{"hidden/b", dtype::int32, shape(2), integers}});
  BOOST_TEST(load_weights(path, s, {.partial = true}).different.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_variable_without_a_value_has_nothing_to_save) {
  const folder f;
  graph g;
  const auto v = variable<float, dims<2>>(g, "v", init::none{});
  session s(g);
  const std::string path = f.path / "w.safetensors";
  BOOST_CHECK_EXCEPTION(save_weights(path, s), error, says(error_code::failed_precondition, "v: the variable has no"));
  write_safetensors(path, {{"v", tensor<float, dims<2>>{1, 2}}});
  load_weights(path, s);
  BOOST_TEST(s.get(v)(1) == 2.0f);  // now it has one
}

// SPDX-License-Identifier: BSL-1.0
// NumPy's files, both ways. Files that NumPy has written lie in npy/; files that Weft has written must be the same
// bytes, and where NumPy is installed it reads them.
#include <boost/test/unit_test.hpp>

#include <weft/checkpoint/npz.hpp>

#include <cstdint>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/files.hpp"
#include "errors.hpp"

using namespace weft;
using test::code_of;
using test::contains;
using test::failure;

namespace {

const std::string numpy = TEST_DATA "/checkpoint/npy/";

template <class F>
void for_each_type(F f) {
  f("b1", bool());
  f("i1", std::int8_t());
  f("i2", std::int16_t());
  f("i4", std::int32_t());
  f("i8", std::int64_t());
  f("u1", std::uint8_t());
  f("u2", std::uint16_t());
  f("u4", std::uint32_t());
  f("u8", std::uint64_t());
  f("f2", half());
  f("f4", float());
  f("f8", double());
}

using matrix = tensor<float, dims<2, 3>>;

std::string refusal(error_code code, const std::string& path) {
  return failure(code, [&] { read_npy<matrix>(path); });
}

bytes npy(const std::string& header, const bytes& elements, unsigned char version = 1) {
  bytes all{0x93, 'N', 'U', 'M', 'P', 'Y', version, 0};
  for (unsigned i = 0; i < (version == 1 ? 2u : 4u); ++i)
    all.push_back(static_cast<unsigned char>(header.size() >> 8 * i));
  all.insert(all.end(), header.begin(), header.end());
  all.insert(all.end(), elements.begin(), elements.end());
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(numpys_formats_byte_orders_and_orders_of_elements) {
  for (const char* file : {"version_1.npy", "version_2.npy", "version_3.npy", "big_endian.npy"}) {
    BOOST_TEST(has_expected_elements(read_npy<matrix>(numpy + file)), file);
    BOOST_TEST(has_expected_elements(read_npy<tensor<float, dims<dyn<"rows">, 3>>>(numpy + file)), file);
  }
  BOOST_TEST(has_expected_elements(read_npy<tensor<float, dims<2, 3, 4>>>(numpy + "column_major.npy")));
  BOOST_TEST(has_expected_elements(read_npy<tensor<std::int16_t, dims<4, 3>>>(numpy + "column_major_big_endian.npy")));
  BOOST_TEST(has_expected_elements(read_npy<tensor<std::int64_t, dims<5>>>(numpy + "vector.npy")));
  BOOST_TEST(read_npy<tensor<double>>(numpy + "scalar.npy") == -5.0);
  BOOST_TEST((read_npy<tensor<float, dims<dyn<"n">, 5>>>(numpy + "empty.npy").extents() == shape(0, 5)));
}

BOOST_AUTO_TEST_CASE(types_are_spelt_in_all_ways_that_numpy_reads) {
  folder f;
  const auto read = [&](const std::string& descr) {
    bytes elements(8);
    for (unsigned char i = 0; i < 8; ++i) elements[i] = i;
    const std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
    for (const int count : {8, 4, 2, 1}) {  // of elements of 1, 2, 4 or 8 bytes
      const std::string path = f.file("a.npy", npy(header + std::to_string(count) + ",)}", elements));
      if (descr.find("b1") != std::string::npos || descr.find('?') != std::string::npos || descr.rfind("bool", 0) == 0)
        return std::pair(npy_info(path).type, std::vector<std::byte>());  // not all of these bytes are one
      try {
        const auto value = read_npy<untyped_tensor>(path);
        return std::pair(std::optional(value.type), std::vector(value.bytes.begin(), value.bytes.end()));
      } catch (const error& e) {
        if (e.code() != error_code::data_loss) throw;
      }
    }
    throw std::runtime_error(descr + " is not read");
  };
  std::ifstream spellings(numpy + "spellings.txt");
  int count = 0;
  for (std::string word, meaning; spellings >> word >> meaning; ++count)
    BOOST_TEST((read(word) == read(meaning)), word << " is not read as " << meaning);
  BOOST_TEST(count == 122);
  // numpy.dtype() does not take these, or they are no numbers that Weft has.
  for (const char* word : {"<float32", "<F", "g", "float128", "x", "<", "object", "float32 "})
    BOOST_CHECK_EXCEPTION(read(word), error, test::says(error_code::unimplemented));
}

BOOST_AUTO_TEST_CASE(a_file_of_two_arrays_is_refused) {
  CHECK_SAYS(refusal(error_code::invalid_argument, numpy + "two.npy"),
             "two.npy contains several arrays, the second at byte 152");
  BOOST_CHECK_THROW(npy_info(numpy + "two.npy"), error);
}

BOOST_AUTO_TEST_CASE(what_is_written_is_what_numpy_writes) {
  folder f;
  const auto same = [&](const auto& value, const char* file) {
    const std::string mine = (f.path / file).string();
    write_npy(mine, value);
    BOOST_TEST(bytes_of_file(mine) == bytes_of_file(numpy + file), file);
  };
  same(expected_tensor<matrix>(shape(2, 3)), "version_1.npy");
  same(expected_tensor<tensor<std::int64_t, dims<5>>>(shape(5)), "vector.npy");
  same(tensor<double>(-5.0), "scalar.npy");
  same(tensor<float, dims<0, 5>>(), "empty.npy");
}

BOOST_AUTO_TEST_CASE(archives_of_all_types) {
  const npz_reader stored(numpy + "stored.npz");
  BOOST_TEST(stored.names().size() == 12u);
  BOOST_TEST(stored.contains("f4"));
  BOOST_TEST(!stored.contains("f"));
  BOOST_TEST(!stored.contains("f4.npy"));
  for_each_type([&]<class T>(const char* name, T) {
    BOOST_TEST(has_expected_elements(stored.read<tensor<T, dims<3, 4>>>(name)), name);
    BOOST_TEST((stored.info(name).type == dtype_of<T>));
  });
  BOOST_TEST(has_expected_elements(npz_reader(numpy + "comment.npz").read<matrix>("a")));
  BOOST_TEST(npz_reader(numpy + "comment.npz").names().size() == 1u);
#ifdef WEFT_HAS_ZLIB
  const npz_reader deflated(numpy + "deflated.npz");
  for_each_type([&]<class T>(const char* name, T) {
    BOOST_TEST(has_expected_elements(deflated.read<tensor<T, dims<3, 4>>>(name)), name);
  });
  BOOST_TEST(has_expected_elements(deflated.read<tensor<float, dims<100, 30>>>("layer/big")));
#else
  CHECK_SAYS(failure(error_code::unimplemented, [] { npz_reader(numpy + "deflated.npz").info("f4"); }), "without zlib");
#endif
}

BOOST_AUTO_TEST_CASE(numpy_reads_what_is_written) {
  folder f;
  npz_writer archive((f.path / "written.npz").string());
  for_each_type([&]<class T>(const char* name, T) {
    const auto value = expected_tensor<tensor<T, dims<3, 4>>>(shape(3, 4));
    archive.add(name, value);
    write_npy((f.path / name).string() + ".npy", value);
  });
  archive.add("bf16", expected_tensor<tensor<bfloat16, dims<3, 4>>>(shape(3, 4)));
  archive.add("empty", tensor<float, dims<0, 5>>());
  archive.add("scalar", tensor<float>(1));
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { archive.add("scalar", tensor<float>(1)); }), "already");
  archive.close();
  // More than the archive's old directory can count.
  npz_writer many((f.path / "many.npz").string());
  for (int i = 0; i < 66'000; ++i) many.add(std::to_string(i), tensor<std::int32_t>(i));
  many.close();
  run_python("numpy", "check_npy_files.py", f.path.string());

  const npz_reader again((f.path / "written.npz").string());
  for_each_type([&]<class T>(const char* name, T) {
    BOOST_TEST(has_expected_elements(again.read<tensor<T, dims<3, 4>>>(name)), name);
  });
  BOOST_TEST(has_expected_elements(again.read<tensor<bfloat16, dims<3, 4>>>("bf16")));
  const npz_reader all((f.path / "many.npz").string());
  BOOST_TEST(all.names().size() == 66'000u);
  BOOST_TEST(all.read<tensor<std::int32_t>>("65999") == 65'999);
}

BOOST_AUTO_TEST_CASE(elements_whose_type_the_file_knows) {
  const auto value = read_npy<untyped_tensor>(numpy + "big_endian.npy");
  BOOST_TEST((value.type == dtype::float32));
  BOOST_TEST((value.extents == shape(2, 3)));
  folder f;
  const std::string again = (f.path / "a.npy").string();
  write_npy(again, value);
  BOOST_TEST(bytes_of_file(again) == bytes_of_file(numpy + "version_1.npy"));
  const tensor_info info = npy_info(numpy + "nine_axes.npy");
  BOOST_TEST(info.extents.size() == 9u);
}

BOOST_AUTO_TEST_CASE(a_file_that_does_not_fit_the_declaration) {
  const std::string file = numpy + "version_1.npy";
  const std::string other_type =
      failure(error_code::invalid_argument, [&] { read_npy<tensor<double, dims<2, 3>>>(file); });
  CHECK_SAYS(other_type, "version_1.npy has elements of type <f4, but double was requested");
  const std::string other_extents =
      failure(error_code::invalid_argument, [&] { read_npy<tensor<float, dims<3, 2>>>(file); });
  CHECK_SAYS(other_extents, "version_1.npy: the extents [2, 3] do not fit the declared [3, 2]");
  CHECK_SAYS(refusal(error_code::unimplemented, numpy + "complex.npy"),
             "elements of type <c8, which Weft does not support");
  CHECK_SAYS(refusal(error_code::unimplemented, numpy + "text.npy"), "elements of type <U2");
  CHECK_SAYS(refusal(error_code::unimplemented, numpy + "fields.npy"), "has a structured element type");
  CHECK_SAYS(refusal(error_code::unimplemented, numpy + "nine_axes.npy"), "9 axes, but a tensor has at most 8");
  CHECK_SAYS(refusal(error_code::not_found, numpy + "absent.npy"), "absent.npy cannot be read");
  CHECK_SAYS(refusal(error_code::invalid_argument, numpy), "is not a regular file");
  CHECK_SAYS(refusal(error_code::invalid_argument, numpy + "stored.npz"), "is not an .npy file");
  CHECK_SAYS(failure(error_code::invalid_argument, [&] { npz_reader a(file); }), "is not a zip archive");
  CHECK_SAYS(failure(error_code::not_found, [] { npz_reader(numpy + "comment.npz").read<matrix>("b"); }),
             "comment.npz has no array b; it has a");
}

BOOST_AUTO_TEST_CASE(headers_that_lie) {
  folder f;
  const bytes six(24);
  const auto says = [&](error_code code, const std::string& header, const bytes& elements, const char* words) {
    CHECK_SAYS(refusal(code, f.file("a.npy", npy(header, elements))), words);
  };
  const auto data_loss = error_code::data_loss;
  const std::string front = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  // 16 EB, and a product that is 0 modulo 2^64: refused before anything is allocated.
  says(data_loss, front + "(4611686018427387904, 1)}", six, "more than any file can contain");
  says(data_loss, front + "(4294967296, 4294967296)}", six, "more than any file can contain");
  says(data_loss, front + "(9223372036854775808,)}", six, "an extent that exceeds 64 bits at byte 79");
  says(data_loss, front + "(1000000000, 6)}", six, "24000000000 bytes, but 24 follow its header");
  says(data_loss, front + "(2, 3)}", bytes(25), "24 bytes, but 25 follow its header");
  says(data_loss, front + "(2, -3)}", six, "a missing extent");
  says(data_loss, front + "(2 3)}", six, "no comma after the only extent");
  says(data_loss, front + "(2, 3)", six, "no }");
  says(data_loss, front + "(2, 3)} x", six, "text after the dictionary");
  says(data_loss, "{'descr': '<f4', 'shape': (2, 3)}", six, "without descr, fortran_order or shape");
  says(data_loss, front + "(2, 3), 'shape': (2, 3)}", six, "a duplicate key");
  says(data_loss, front + "(2, 3), 'more': (2, 3)}", six, "an unknown key");
  says(data_loss, "{'descr': '<f4", six, "an unclosed quote");
  says(data_loss, "{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3)}", six, "neither True nor False");
  says(data_loss, "", six, "no {");
  // As other writers have it.
  for (const char* header : {"{\"shape\":(2L,3L),\"fortran_order\":False,\"descr\":\"<f4\"}",
                             "{ 'descr' : 'f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } \n"})
    read_npy<matrix>(f.file("a.npy", npy(header, six)));
  CHECK_SAYS(refusal(data_loss, f.file("a.npy", npy("{", {}, 2))), "no quote");
  bytes large = npy("", six, 2);
  large[11] = 0x7f;
  CHECK_SAYS(refusal(data_loss, f.file("a.npy", large)), "declares a header of 2130706432 bytes, but 24 are left");
  CHECK_SAYS(refusal(error_code::unimplemented, f.file("a.npy", npy("", six, 4))), "version 4.0");
  const std::string two = failure(data_loss, [&] {
    read_npy<tensor<bool, dims<3>>>(
        f.file("a.npy", npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", {0, 1, 2})));
  });
  CHECK_SAYS(two, "element 2 is 2, but a bool must be 0 or 1");
}

BOOST_AUTO_TEST_CASE(files_cut_anywhere) {
  folder f;
  const bytes whole = bytes_of_file(numpy + "version_1.npy");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto code = code_of([&] { read_npy<matrix>(f.file("a.npy", cut(whole, size))); });
    BOOST_TEST((code == error_code::data_loss || (code == error_code::invalid_argument && size < 10)), size);
  }
  for (const char* name : {"comment.npz", "stored.npz"}) {
    const bytes archive = bytes_of_file(numpy + name);
    for (std::size_t size = 0; size < archive.size(); size += 1 + archive.size() / 500) {
      const auto code = code_of([&] { npz_reader a(f.file("a.npz", cut(archive, size))); });
      BOOST_TEST((code == error_code::data_loss || code == error_code::invalid_argument), size);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_archive_with_a_flipped_bit_is_refused_or_right) {
  folder f;
  std::vector<const char*> archives{"stored.npz"};
#ifdef WEFT_HAS_ZLIB
  archives.push_back("deflated.npz");
#endif
  for (const char* name : archives) {
    const bytes whole = bytes_of_file(numpy + name);
    std::size_t refused = 0;
    for (std::size_t at = 0; at < whole.size(); ++at) {
      bytes flipped = whole;
      flipped[at] ^= static_cast<unsigned char>(1u << at % 8);
      const std::string file = f.file("a.npz", flipped);
      const auto code = code_of([&] {
        const npz_reader archive(file);
        for_each_type([&]<class T>(const char* array, T) {
          BOOST_TEST(has_expected_elements(archive.read<tensor<T, dims<3, 4>>>(array)), at);
        });
      });
      refused += code != error_code{};
    }
    BOOST_TEST(refused > whole.size() / 2);
  }
}

BOOST_AUTO_TEST_CASE(an_error_leaves_no_file) {
  folder f;
  const std::string path = (f.path / "a.npz").string();
  {
    npz_writer archive(path);
    archive.add("a", tensor<float>(1));
  }
  BOOST_TEST(std::filesystem::is_empty(f.path));
  const std::string absent = (f.path / "no" / "a.npy").string();
  CHECK_SAYS(failure(error_code::not_found, [&] { write_npy(absent, tensor<float>(1)); }), "cannot be written");
}

// SPDX-License-Identifier: BSL-1.0
#include "import.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <weft/checkpoint/npy.hpp>

#include "write.hpp"

namespace tool::importer {

weft::onnx::tensor_value read_constant(const std::string& file) {
  auto t = weft::read_npy<weft::untyped_tensor>(file);
  weft::onnx::tensor_value value;
  value.type = weft::onnx::type_of(t.type);
  for (std::size_t i = 0; i < t.extents.rank; ++i) value.extents.push_back(t.extents[i]);
  const auto* bytes = reinterpret_cast<const std::byte*>(t.bytes.data());
  value.own({bytes, bytes + t.bytes.size()});
  return value;
}

namespace {

/// A file that appears under its name when it is complete.
class text_file {
 public:
  text_file(std::string path, const std::string& text) : path_(std::move(path)) {
    std::ofstream out(path_ + ".new", std::ios::binary);
    out << text;
    out.close();
    if (!out) fail();
  }
  text_file(const text_file&) = delete;
  text_file& operator=(const text_file&) = delete;
  ~text_file() {
    std::error_code ignored;
    if (!done_) std::filesystem::remove(path_ + ".new", ignored);
  }
  void rename() {
    std::error_code failed;
    std::filesystem::rename(path_ + ".new", path_, failed);
    if (failed) fail();
    done_ = true;
  }

 private:
  [[noreturn]] void fail() {
    std::error_code ignored;
    std::filesystem::remove(path_ + ".new", ignored);
    throw error(error_code::unavailable, "import", {path_, " cannot be written"});
  }

  std::string path_;
  bool done_ = false;
};

}  // namespace

void import_file(options o) {
  if (o.folder.empty()) throw error(error_code::invalid_argument, "import", "--out needs the name of a folder");
  const bool is_given = !o.name.empty();
  const std::string given = is_given ? o.name : std::filesystem::path(o.file).stem().string();
  o.name = given;
  for (char& c : o.name)
    if (!is_word(c)) c = '_';
  if (o.name.empty() || (o.name[0] >= '0' && o.name[0] <= '9')) o.name = "model_" + o.name;
  if (!can_be_namespace(o.name)) o.name += "_model";
  if (is_given && o.name != given)
    throw error(error_code::invalid_argument, "import",
                {"--name ", given, " is not an unused name of C++: write --name ", o.name});
  const weft::onnx::model model = weft::onnx::read_model(o.file);
  importer all(model, o);
  all.run();
  const std::string header = header_text(all);
  std::error_code failed;
  std::filesystem::create_directories(o.folder, failed);
  const std::string base = o.folder + "/" + o.name;
  text_file written(base + ".hpp", header);
  std::optional<text_file> program;
  if (o.program) program.emplace(base + ".cpp", program_text(all));
  write_weights(all, base + ".safetensors");
  if (program) program->rename();
  written.rename();
  std::printf("%s.hpp: %zu layers and variables\n", base.c_str(), all.members.size());
}

}  // namespace tool::importer

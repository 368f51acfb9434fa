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

void write_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  std::error_code failed;
  if (out) std::filesystem::rename(temporary, path, failed);
  if (!out || failed) throw error(error_code::unavailable, "import", {path, " cannot be written"});
}

}  // namespace

void import_file(options o) {
  const bool is_given = !o.name.empty();
  const std::string given = is_given ? o.name : std::filesystem::path(o.file).stem().string();
  o.name = given;
  for (char& c : o.name)
    if (!is_word(c)) c = '_';
  if (o.name.empty() || (o.name[0] >= '0' && o.name[0] <= '9')) o.name = "model_" + o.name;
  if (reserved_names().count(o.name)) o.name += "_model";
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
  write_weights(all, base + ".safetensors");
  if (o.program) write_file(base + ".cpp", program_text(all));
  write_file(base + ".hpp", header);
  std::printf("%s.hpp: %zu layers and variables\n", base.c_str(), all.members.size());
}

}  // namespace tool::importer

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
  if (o.name.empty()) o.name = std::filesystem::path(o.file).stem().string();
  for (char& c : o.name)
    if (!is_word(c)) c = '_';
  if (o.name.empty() || (o.name[0] >= '0' && o.name[0] <= '9')) o.name = "model_" + o.name;
  bool reserved = false;
  const auto compare = [&](std::string_view word) { reserved |= word == o.name; };
  for_each_row([&](const row& r) { for_each_word(r.text, compare); });
  if (reserved || o.name == "weft" || o.name == "std" || o.name == "nn" || o.name == "main") o.name += "_model";
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

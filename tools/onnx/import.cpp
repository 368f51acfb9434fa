// SPDX-License-Identifier: BSL-1.0
#include "import.hpp"

#include <cstdio>
#include <filesystem>
#include <weft/checkpoint/npy.hpp>
#include <weft/encoding/file.hpp>

#include "write.hpp"

namespace tool::importer {

using weft::detail::atomic_file;

weft::onnx::tensor_value read_constant(const std::string& file) {
  auto t = weft::read_npy<weft::untyped_tensor>(file);
  weft::onnx::tensor_value value;
  value.type = weft::onnx::type_of(t.type);
  for (std::size_t i = 0; i < t.extents.rank; ++i) value.extents.push_back(t.extents[i]);
  const auto* bytes = reinterpret_cast<const std::byte*>(t.bytes.data());
  value.own({bytes, bytes + t.bytes.size()});
  return value;
}

void import_file(options o) {
  if (o.folder.empty()) throw error(error_code::invalid_argument, "import", "--out needs the name of a folder");
  const bool is_given = !o.name.empty();
  const std::string given = is_given ? o.name : std::filesystem::path(o.file).stem().string();
  o.name = with_underscores(given);
  if (o.name.empty() || (o.name[0] >= '0' && o.name[0] <= '9')) o.name = "model_" + o.name;
  if (!can_be_namespace(o.name)) o.name += "_model";
  if (is_given && o.name != given)
    throw error(error_code::invalid_argument, "import",
                {"--name ", given, " is not an unused name of C++: write --name ", o.name});
  const weft::onnx::model model = weft::onnx::read_model(o.file);
  importer all(model, o);
  all.run();
  const std::string header = header_text(all), program = o.program ? program_text(all) : "";
  std::error_code failed;
  std::filesystem::create_directories(o.folder, failed);
  const std::string base = o.folder + "/" + o.name;
  // The files appear under their names when all of them are complete.
  atomic_file header_file(base + ".hpp", header.size());
  header_file.write(header.data(), header.size());
  std::optional<atomic_file> program_file;
  if (o.program) program_file.emplace(base + ".cpp", program.size()).write(program.data(), program.size());
  write_weights(all, base + ".safetensors");
  if (program_file) program_file->commit();
  header_file.commit();
  std::printf("%s.hpp: %zu layers and variables\n", base.c_str(), all.members.size());
}

}  // namespace tool::importer

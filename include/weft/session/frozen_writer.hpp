// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <weft/session/freeze_names.hpp>
#include <weft/session/frozen_subgraphs.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Writes the header of a frozen step.
class frozen_writer : frozen_subgraphs {
 public:
  using frozen_subgraphs::frozen_subgraphs;

  void write(const std::string& path) {
    name_buffers();
    statements(results_);
    add_parameters();
    save(path, header());
    if (options_.weights == frozen_weights::in_file) save(weights_path(path), arrays_.file());
  }

 private:
  // ---- the file ----

  static std::string weights_path(const std::string& path) {
    const std::size_t dot = path.rfind('.'), slash = path.rfind('/');
    const bool has_end = dot != std::string::npos && (slash == std::string::npos || dot > slash);
    return path.substr(0, has_end ? dot : path.size()) + ".weights";
  }
  static void save(const std::string& path, const std::string& bytes) {
    std::FILE* const f = std::fopen(path.c_str(), "wb");
    const bool written = f && std::fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size();
    if (!f || std::fclose(f) != 0 || !written)
      throw error(error_code::unavailable, "freeze", {"cannot write ", path, ": check the folder and the free space"});
  }

  std::string header() {
    const std::size_t scratch_at = whole_.end, all = scratch_at + (scratch_ + 63) / 64 * 64;
    std::string kernels;
    const char* const files[] = {"frozen/map",  "frozen/product", "frozen/image",     "frozen/rows",
                                 "frozen/copy", "frozen/reduce",  "frozen/attention", "ops/elementwise/more_formulas"};
    for (const unsigned k : {6u, 4u, 2u, 0u, 1u, 5u, 3u, 7u})
      if (headers_ >> k & 1) append(kernels, {"#include <weft/", files[k], ".hpp>\n"});
    std::string space = frozen_identifier(options_.name);
    if (has_word(functions_of_c, space)) space += '_';
    const bool named = extents_.has_name();
    const std::string& extent = extents_.name();
    std::string h =
        str_cat({"// Written by weft::freeze. Do not edit: freeze the model again.\n#pragma once\n\n#include "
                 "<array>\n#include <cstddef>\n#include <cstdint>\n",
                 options_.weights == frozen_weights::in_file ? "#include <cstdio>\n" : "", "\n", kernels,
                 "\nnamespace ", space, " {\n\n"});
    append(h, {"// Weights: ", arrays_.bytes(), " bytes. Memory of a call: ", all, " bytes, including ", scratch_,
               " bytes of scratch memory for kernels.\n\n"});
    h += arrays_.text();
    if (!expressions_.empty()) {
      h += "namespace expressions {\nusing namespace weft::skeleton;\nnamespace formula = weft::formula;\n";
      for (std::size_t k = 0; k < expressions_.size(); ++k)
        append(h, {"using expression_", k + 1, " = ", expressions_[k], ";\n"});
      h += "}  // namespace expressions\n\n";
    }
    append(h, {"/// The memory in which predict works. One call at a time can use it.\nstruct alignas(64) workspace "
               "{\n  std::byte bytes[",
               all ? all : 1, "];\n};\n\n", described_});
    if (named)
      append(h, {"/// Returns false, and computes nothing, unless ", extents_.least(), " <= ", extent,
                 " <= ", extents_.most(), ".\n"});
    const std::string extent_parameter = named ? str_cat({"std::int64_t ", extent, ", "}) : "";
    append(h, {"inline ", named ? "bool" : "void", " predict(", extent_parameter, parameters_, ", ",
               "[[maybe_unused]] workspace& memory) {\n  namespace frozen = weft::frozen;\n"});
    if (!expressions_.empty()) h += "  using namespace expressions;\n";
    if (named)
      append(h,
             {"  if (", extent, " < ", extents_.least(), " || ", extent, " > ", extents_.most(), ") return false;\n"});
    for (const auto& v : extents_.variables())
      append(h, {"  [[maybe_unused]] const std::int64_t ", v.name, " = ", v.formula, ";\n"});
    h += pointers_;
    if (scratch_) append(h, {"  std::byte* const scratch = memory.bytes + ", scratch_at, ";\n"});
    append(h, {code_, named ? "  return true;\n" : "", "}\n\n"});
    append(h, {"/// The same in memory of the thread.\ninline ", named ? "bool" : "void", " predict(", extent_parameter,
               parameters_, ") {\n  static thread_local workspace memory;\n  ", named ? "return " : "", "predict(",
               named ? extent + ", " : "", arguments_, ", memory);\n}\n"});
    if (!named) h += returning();
    append(h, {"\n}  // namespace ", space, "\n"});
    return h;
  }
  /// The function that returns its results.
  std::string returning() {
    const program& p = made();
    std::string members, inputs, arguments;
    for (std::size_t i = 0; i < feeds_; ++i) {
      const value_info& v = g_.info(p.request.feeds[i]);
      const std::string& name = scope_->names[p.feed_buffers[i]];
      append(inputs, {i ? ", " : "", "const ", frozen_type(v.type), "* ", name});
      append(arguments, {i ? ", " : "", name});
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const value_info& v = g_.info(p.request.fetches[i]);
      append(members,
             {"  std::array<", frozen_type(v.type), ", ", resolved(v.extents, 0).elements(), "> ", results_[i], ";\n"});
      append(arguments, {arguments.empty() ? "" : ", ", "all.", results_[i], ".data()"});
    }
    return str_cat({"\nstruct results {\n", members, "};\n/// The same; returns the results.\ninline results predict(",
                    inputs, ") {\n  results all;\n  predict(", arguments, ");\n  return all;\n}\n"});
  }
};

}  // namespace weft::detail
WEFT_COLD_END

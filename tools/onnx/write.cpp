// SPDX-License-Identifier: BSL-1.0
#include "write.hpp"

#include <algorithm>
#include <weft/checkpoint/safetensors.hpp>
#include <weft/printable.hpp>

namespace tool::importer {

namespace {

constexpr std::size_t width = 120;

/// Breaks a line that is too long after a comma or an operator, outside of inner brackets if possible.
std::string wrapped(std::string line) {
  std::string done;
  if (const std::size_t comment = line.find(";  // "); comment != line.npos && line.size() > width) {
    done = std::string(line.find_first_not_of(' '), ' ') + line.substr(comment + 3) + "\n";
    line.erase(comment + 1);
  }
  while (line.size() > width) {
    std::vector<std::size_t> open;
    std::size_t best = 0, best_depth = 1000, indent = 0;
    const std::size_t begin = line.find_first_not_of(' ');
    bool quoted = false;
    for (std::size_t i = begin; i < line.size() && i < width; ++i) {
      const char c = line[i];
      if (c == '"') quoted = !quoted;
      if (quoted) continue;
      if (c == '(' || c == '{' || (c == '<' && is_word(line[i - 1]))) open.push_back(i + 1);
      if ((c == ')' || c == '}' || (c == '>' && line[i - 1] != ' ')) && !open.empty()) open.pop_back();
      const bool can_break =
          c == ' ' && i > begin && std::string_view(",+-*/=&|<>?").find(line[i - 1]) != std::string_view::npos;
      const bool useful = i > begin + 20 && (open.empty() || i > open.back());
      if (can_break && useful && open.size() <= best_depth)
        best = i, best_depth = open.size(), indent = open.empty() ? begin + 4 : open.back();
    }
    if (best == 0) break;
    done += line.substr(0, best) + "\n";
    line = std::string(indent, ' ') + line.substr(best + 1);
  }
  return done + line + "\n";
}

std::string shape_and_type(const value& v) {
  std::string text = cpp_type(v.type);
  if (text.starts_with("std::")) text = text.substr(5, text.size() - 7);
  return text + " " + importer::shape_text(importer::physical(v));
}

/// Returns a text of the file on one line of a comment.
std::string quoted(const std::string& text) {
  std::string shown = weft::printable(text);
  while (shown.find("?"
                    "?") != shown.npos)
    shown.erase(shown.find("?"
                           "?"),
                1);
  while (!shown.empty() && shown.back() == '\\') shown.pop_back();
  return shown;
}

std::string parameters(const importer& of) {
  std::string text;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const std::string& name = of.input_names[i];
    text +=
        (i > 0 ? ", " : "") + std::string("const auto& ") + (name.empty() ? "/*" + of.inputs[i]->text + "*/" : name);
  }
  if (of.inputs.empty()) text = of.uses_graph ? "graph& g" : "graph& /*g*/";
  return text + (of.uses_mode ? ", nn::mode how" : "");
}

}  // namespace

std::string header_text(const importer& of) {
  const std::string space = of.chosen.name;
  std::string text = "// Imported by weft import from " + quoted(of.chosen.file.substr(of.chosen.file.rfind('/') + 1));
  if (!of.model.producer.empty()) text += " of " + quoted(of.model.producer + " " + of.model.producer_version);
  text += ".\n#pragma once\n\n";
  std::set<std::string> standard, headers{"weft.hpp"};
  for (const std::string& h : of.headers) headers.insert(h);
  if (!of.members.empty() || of.uses_mode) headers.insert("nn.hpp");
  std::string body;
  for (const value* v : of.inputs)
    body += wrapped("using " + v->text + "_dims = " + of.dims_of(*v) + ";  // of " + quoted(v->name));
  if (!of.inputs.empty()) body += "\n";
  body += "///";
  for (std::size_t i = 0; i < of.outputs.size(); ++i)
    body +=
        (i == 0 ? " Returns " : ", ") + quoted(of.model.main.outputs[i].name) + " " + shape_and_type(*of.outputs[i]);
  body += ".\n";
  for (const value* v : of.inputs) body += "/// " + v->text + ": " + shape_and_type(*v) + "\n";
  body += "struct model {\n";
  for (const member& m : of.members)
    body += wrapped("  " + m.type + " " + m.name + (m.options.empty() ? "" : "{" + m.options + "}") + ";");
  if (!of.members.empty()) body += "\n";
  body += wrapped("  auto operator()(" + parameters(of) + ") const {");
  if (of.uses_graph && !of.inputs.empty()) body += "    graph& g = graph_of(" + of.any_input() + ");\n";
  for (const statement& s : of.statements) {
    std::string names = s.names[0];
    if (s.names.size() > 1) {
      names = "[";
      for (std::size_t i = 0; i < s.names.size(); ++i) names += (i > 0 ? ", " : "") + s.names[i];
      names += "]";
    }
    const std::string line = "    const auto " + names + " = " + s.text + ";";
    if (s.comment.empty() || line.size() + 5 + s.comment.size() <= width)
      body += wrapped(line + (s.comment.empty() ? "" : "  // " + s.comment));
    else
      body += "    // " + s.comment + "\n" + wrapped(line);
  }
  std::string results;
  for (const std::string& each : of.returned) results += (results.empty() ? "" : ", ") + ("let(" + each + ")");
  body += wrapped("    return " + (of.returned.size() == 1 ? results : "std::tuple(" + results + ")") + ";") + "  }\n";
  if (of.members.size() > 32) {
    body += "\n  void visit(const std::string& path, nn::layer_visitor& v) const {\n";
    for (const member& m : of.members) body += "    v(path, \"" + m.name + "\", " + m.name + ");\n";
    body += "  }\n";
    standard.insert("string");
  }
  body += "};\n";
  if (body.find("std::int") != body.npos || body.find("std::uint") != body.npos) standard.insert("cstdint");
  if (body.find("std::numeric_limits") != body.npos) standard.insert("limits");
  if (body.find("std::tuple") != body.npos) standard.insert("tuple");
  for (const std::string& h : standard) text += "#include <" + h + ">\n";
  for (const std::string& h : headers) text += "#include <weft/" + h + ">\n";
  return text + "\nnamespace " + space + " {\n\nusing namespace weft;\n\n" + body + "\n}  // namespace " + space + "\n";
}

std::string program_text(const importer& of) {
  const std::string space = of.chosen.name;
  const auto text_literal = [](const std::string& s) {
    std::string text = "\"";
    for (const char c : s) {
      char code[8];
      if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 32)
        std::snprintf(code, sizeof code, "\\%03o", static_cast<unsigned>(static_cast<unsigned char>(c))), text += code;
      else
        text += c;
    }
    return text + "\"";
  };
  std::string text = "// Reads inputs from .npy files and writes outputs to .npy files:\n//   " + space;
  for (const value* v : of.inputs) text += " --" + quoted(v->name) + " FILE.npy";
  text +=
      " [--weights FILE] [--out FOLDER]\n#include <cstdio>\n#include <exception>\n#include <map>\n#include <string>\n"
      "#include <weft/checkpoint/npy.hpp>\n";
  bool has_weights = false;
  for (const member& m : of.members) has_weights |= !m.weights.empty();
  if (has_weights) text += "#include <weft/nn/weights.hpp>\n";
  text += "#include <weft/weft.hpp>\n\n#include \"" + space + ".hpp\"\n\nusing namespace weft;\n\n";
  text += "int main(int argc, char** argv) try {\n";
  text += wrapped("  std::map<std::string, std::string> flags{{\"--weights\", \"" + space +
                  ".safetensors\"}, {\"--out\", \".\"}};");
  text += "  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];\n\n  graph g;\n";
  std::string arguments, feeds;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const value& v = *of.inputs[i];
    const std::string type = cpp_type(v.type) + ", " + space + "::" + v.text + "_dims";
    text += wrapped("  const auto " + v.text + " = placeholder<" + type + ">(g, \"" + v.text + "\");");
    arguments += (i > 0 ? ", " : "") + v.text;
    if (!of.input_names[i].empty())
      feeds += ",\n      with(" + v.text + ", read_npy<tensor<" + type + ">>(flags.at(" + text_literal("--" + v.name) +
               ")))";
  }
  if (of.inputs.empty()) arguments = "g";
  if (of.uses_mode) arguments += ", nn::mode::inference";
  std::string fetched, names, values;
  for (std::size_t i = 0; i < of.outputs.size(); ++i) {
    const std::string number = of.outputs.size() == 1 ? "" : "_" + std::to_string(i);
    names += (i > 0 ? ", " : "") + ("output" + number);
    values += (i > 0 ? ", " : "") + ("result" + number);
  }
  const bool one = of.outputs.size() == 1;
  text += of.members.empty() ? "  const " + space + "::model net;\n"
                             : "  const auto net = nn::named(" + space + "::model(), \"" + space + "\");\n";
  text += wrapped("  const auto " + (one ? names : "[" + names + "]") + " = net(" + arguments + ");");
  text += "\n  session s{g};\n";
  if (has_weights) text += "  nn::load_weights(flags.at(\"--weights\"), net, s);\n";
  text += wrapped("  const auto " + (one ? values : "[" + values + "]") + " = s." +
                  (one ? "eval(" + names : "run(fetch(" + names + ")") + feeds + ");");
  for (std::size_t i = 0; i < of.outputs.size(); ++i) {
    std::string file = of.model.main.outputs[i].name;
    for (char& c : file)
      if (!is_word(c) && c != '.' && c != '-') c = '_';
    const std::string result = one ? "result" : "result_" + std::to_string(i);
    const value& v = *of.outputs[i];
    text += wrapped("  write_npy(flags.at(\"--out\") + \"/" + file + ".npy\", " +
                    (v.rank() == 0 ? "tensor<" + cpp_type(v.type) + ", dims<>>(" + result + ")" : result) + ");");
  }
  return text +
         "  return 0;\n} catch (const std::exception& e) {\n  std::fprintf(stderr, \"%s\\n\", e.what());\n  return "
         "1;\n}\n";
}

void write_weights(const importer& of, const std::string& path) {
  std::vector<std::vector<std::byte>> permuted_elements;
  std::vector<weft::named_tensor> tensors;
  for (const member& m : of.members)
    for (const weight& w : m.weights) {
      const dtype type = weft::onnx::element_type(w.from->type).value();
      const std::size_t size = weft::size_of(type);
      const void* data = w.from->bytes.data();
      if (!std::is_sorted(w.order.begin(), w.order.end())) {
        auto& elements = permuted_elements.emplace_back(w.from->bytes.size());
        std::byte* to = elements.data();
        for (const std::size_t i : source_elements(w.view, w.order)) {
          std::memcpy(to, w.from->bytes.data() + i * size, size);
          to += size;
        }
        data = elements.data();
      }
      weft::shape extents;
      extents.rank = static_cast<std::uint32_t>(w.extents.size());
      for (std::size_t i = 0; i < w.extents.size(); ++i) extents[i] = w.extents[i];
      tensors.emplace_back(m.name + "/" + w.name, type, extents, data);
    }
  weft::write_safetensors(path, tensors);
}

}  // namespace tool::importer

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
  if (const std::size_t end = line.find('\n'); end != line.npos)  // a lambda
    return wrapped(line.substr(0, end)) + wrapped(line.substr(end + 1));
  if (const std::size_t comment = line.find(";  // ");
      comment != line.npos && line.size() > width &&
      std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(comment), '"') % 2 == 0) {
    done = std::string(line.find_first_not_of(' '), ' ') + line.substr(comment + 3) + "\n";
    line.erase(comment + 1);
  }
  std::vector<std::size_t> outer;  // the open brackets of the lines before
  while (line.size() > width) {
    std::vector<std::size_t> open = outer, opened;
    std::size_t best = 0, best_depth = 1000, indent = 0, assigned = 0;
    const std::size_t begin = line.find_first_not_of(' ');
    bool quoted = false;
    int angles = 0;  // lists of template arguments stay on one line
    for (std::size_t i = begin; i < line.size() && i < width; ++i) {
      const char c = line[i];
      if (c == '"') quoted = !quoted;
      if (quoted) continue;
      if (c == '(' || c == '{') open.push_back(i + 1);
      if ((c == ')' || c == '}') && !open.empty()) open.pop_back();
      if (c == '<' && is_word(line[i - 1])) ++angles;
      if (c == '>' && line[i - 1] != ' ' && angles > 0) --angles;
      const bool can_break =
          c == ' ' && i > begin && std::string_view(",+-*/=&|<>?").find(line[i - 1]) != std::string_view::npos;
      if (!can_break || angles > 0 || (line[i - 1] == '&' && is_word(line[i - 2]))) continue;
      if (line.substr(i - 2, 2) == " =" && open.empty()) {
        assigned = i;
      } else if (i > begin + 20 && (open.empty() || i > open.back()) && open.size() <= best_depth) {
        best = i, best_depth = open.size(), indent = open.empty() ? begin + 4 : open.back(), opened = open;
      }
    }
    if (assigned > 0 && (best == 0 || best_depth > 1 || line.size() - assigned + 4 + begin <= width))
      best = assigned, indent = begin + 4, opened.clear();
    if (best == 0) break;
    done += line.substr(0, best) + "\n";
    line = std::string(indent, ' ') + line.substr(best + 1);
    outer = opened;
  }
  return done + line + "\n";
}

/// Aligns the comments at the ends of consecutive lines, as clang-format does.
std::string with_aligned_comments(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const auto comment_of = [&](std::size_t i) {
    const std::size_t at = i < lines.size() ? lines[i].find("  // ") : std::string::npos;
    return at == std::string::npos || at <= lines[i].find_first_not_of(' ') ||
                   std::count(lines[i].begin(), lines[i].begin() + std::ptrdiff_t(at), '"') % 2 != 0
               ? std::string::npos
               : at + 2;
  };
  std::string aligned;
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t end = i, column = 0, last = width;
    for (std::size_t at; (at = comment_of(end)) != std::string::npos; ++end) {
      const std::size_t own_last = width - (lines[end].size() - at);
      if (std::max(column, at) > std::min(last, own_last)) break;
      column = std::max(column, at), last = std::min(last, own_last);
    }
    if (end == i) ++i;
    for (; i < end; ++i) lines[i].insert(comment_of(i), column - comment_of(i), ' ');
  }
  for (const std::string& line : lines) aligned += line + "\n";
  return aligned;
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

std::string parameters(const body& of) {
  std::string text;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const std::string& name = of.input_names[i];
    if (name.empty() && of.id != 0) continue;
    text += (text.empty() ? "" : ", ") + std::string("const auto& ") +
            (name.empty() ? "/*" + of.inputs[i]->text + "*/" : name);
  }
  if (of.inputs.empty()) text = of.uses_graph ? "graph& g" : "graph& /*g*/";
  return text + (of.uses_mode ? ", nn::mode how" : "");
}

/// Declares a member. The parts of a long nn::sequential are on lines of their own, with the shapes of their results.
std::string member_text(const member& m) {
  const std::string line = "  " + m.type + " " + m.name + (m.options.empty() ? "" : "{" + m.options + "}") + ";";
  if (line.size() <= width || m.parts.empty()) return wrapped(line);
  const std::string indent(line.find('<') + 1, ' ');
  std::string text = "  nn::sequential<";
  for (const auto& [type, shape] : m.parts) {
    const bool last = &type == &m.parts.back().first;
    text += (text.size() < indent.size() + 1 ? "" : indent) + type + (last ? ">" : ",") + "  // " + shape + "\n";
  }
  return text + "      " + m.name + ";\n";
}

std::string struct_text(const body& of, const std::string& name, bool comments) {
  std::string text = "struct " + name + " {\n";
  for (const member& m : of.members) text += member_text(m);
  if (!of.members.empty()) text += "\n";
  const std::size_t head = text.size();
  text += wrapped("  auto operator()(" + parameters(of) + ") const {");
  const std::size_t begin = text.size();
  if (of.uses_graph && !of.inputs.empty()) text += "    graph& g = graph_of(" + of.first_input + ");\n";
  for (const statement& s : of.statements) {
    if (s.names.empty()) {  // a loop
      text += s.text;
      continue;
    }
    const std::string line = "    const auto " + s.declared() + " = " + s.text + ";";
    const bool fits = line.size() + 5 + s.comment.size() <= width && line.find('\n') == line.npos;
    if (s.comment.empty() || !comments || fits)
      text += wrapped(line + (s.comment.empty() || !comments ? "" : "  // " + s.comment));
    else
      text += "    // " + s.comment + "\n" + wrapped(line);
  }
  std::string results;
  for (std::size_t i = 0; i < of.returned.size(); ++i)
    results += (i > 0 ? ", " : "") + (of.outputs[i]->bounded ? of.returned[i] : "let(" + of.returned[i] + ")");
  if (of.returned.size() > 1) results = "std::tuple(" + results + ")";
  const std::string one_line = "  auto operator()(" + parameters(of) + ") const { return " + results + "; }";
  if (text.size() == begin && one_line.size() <= width)
    text.replace(head, begin - head, one_line + "\n");
  else
    text += wrapped("    return " + results + ";") + "  }\n";
  if (of.members.size() > 32) {
    text += "\n  void visit(const std::string& path, nn::layer_visitor& v) const {\n";
    for (const member& m : of.members) text += "    v(path, \"" + m.name + "\", " + m.name + ");\n";
    text += "  }\n";
  }
  return text + "};\n";
}

/// The integers of a C++ text, and the text between them.
struct divided_text {
  std::vector<std::string> between, numbers;

  explicit divided_text(const std::string& text) {
    between.emplace_back();
    for (std::size_t i = 0; i < text.size();) {
      std::size_t end = i;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
      const bool after_word = i > 0 && (is_word(text[i - 1]) || text[i - 1] == '.' || text[i - 1] == '-');
      if (end > i && !after_word && !(end < text.size() && (is_word(text[end]) || text[end] == '.'))) {
        numbers.push_back(text.substr(i, end - i));
        between.emplace_back();
      } else {
        end = std::max(end, i + 1);
        between.back() += text.substr(i, end - i);
      }
      i = end;
    }
  }
};

/// Returns a name for a template parameter that follows this text.
std::string parameter_name(const std::string& before) {
  const std::string line = before.substr(before.rfind('\n') + 1);
  const std::string member_text = line.substr(line.rfind("nn::") == line.npos ? 0 : line.rfind("nn::"));
  if (line.ends_with(".stride = ")) return "Stride";
  if (line.ends_with(".dilation = ")) return "Dilation";
  if (line.ends_with("padding::of(")) return "Padding";
  if (member_text.starts_with("nn::dense<")) return "Units";
  if (member_text.find("conv") != member_text.npos) return member_text.ends_with("<") ? "Window" : "Filters";
  return "Size";
}

/// Returns the sum's operand besides the block's first input: `conv(x)` of `x + conv(x)`; empty if there is none.
std::string branch_of(const body& b) {
  if (b.returned.size() != 1 || b.input_names.empty()) return "";
  const std::string &text = b.returned[0], &x = b.input_names[0];
  std::string branch;
  if (text.starts_with(x + " + ")) branch = text.substr(x.size() + 3);
  if (text.ends_with(" + " + x)) branch = text.substr(0, text.size() - x.size() - 3);
  return looseness(branch) <= 3 ? branch : "";
}

std::string unused_name(const body& of, std::string name) {
  while (of.names.count(name) > 0) name += "_";
  return name;
}

/// A form in which a block can be written: with the short types of its layers, or with all options; and with its sum in
/// a statement of its own, which blocks can lack.
struct form {
  bool branches = false;
  std::set<std::size_t> full = {};  ///< the members with all options
};
std::string block_text(const body& of, form how, bool comments) {
  body b = of;
  for (const std::size_t i : how.full)
    if (i < b.members.size() && !b.members[i].full.empty()) b.members[i].type = b.members[i].full;
  if (how.branches && b.returned.size() == 1) {
    std::string branch = branch_of(b);
    if (!b.statements.empty() && b.statements.back().names == std::vector{branch})
      branch = b.statements.back().text, b.statements.pop_back();
    b.statements.push_back({{unused_name(b, "y")}, branch.empty() ? b.returned[0] : branch, ""});
    b.returned[0] = "@sum";
  }
  std::string text = struct_text(b, "@", comments);
  if (const std::size_t at = text.find("    return let(@sum);\n"); at != text.npos) {
    const std::string y = b.statements.back().names[0];
    text.replace(at, 22,
                 "    if constexpr (Residual)\n      return let(" + b.input_names.at(0) + " + " + y +
                     ");\n    else\n      return let(" + y + ");\n");
  }
  return text;
}

/// Writes the structures of the blocks, equal ones once, and gives the model's members their types.
std::string blocks_text(importer& of) {
  struct instance {
    member* m;
    const block* b;
  };
  using instances = std::vector<instance>;
  std::map<std::vector<std::string>, instances> groups;
  std::vector<const instances*> order;
  for (member& m : of.members) {
    if (m.block == 0) continue;
    const block& b = of.blocks[m.block - 1];
    std::set<std::size_t> all;
    for (std::size_t i = 0; i < b.content.members.size(); ++i) all.insert(i);
    instances& group = groups[divided_text(block_text(b.content, {true, all}, false)).between];
    if (group.empty()) order.push_back(&group);
    group.push_back({&m, &b});
  }
  const auto is_equal = [](const instances& group, const auto& f) {
    return std::all_of(group.begin(), group.end(), [&](const instance& i) { return f(*i.b) == f(*group[0].b); });
  };
  std::string text;
  for (const instances* group : order) {
    const block& first = *(*group)[0].b;
    form how;
    how.branches = !is_equal(*group, [](const block& b) { return branch_of(b.content).empty(); });
    for (std::size_t i = 0; i < first.content.members.size(); ++i)
      if (!is_equal(*group, [&](const block& b) { return divided_text(b.content.members[i].type).between; }))
        how.full.insert(i);
    std::vector<divided_text> parts;
    for (const instance& each : *group) parts.emplace_back(block_text(each.b->content, how, false));
    std::map<std::vector<std::string>, std::string> columns;  // the numbers of the instances, and the parameter's name
    std::vector<std::vector<std::string>> in_order;
    std::string body_text = parts[0].between[0];
    std::set<std::string> used;
    for (std::size_t i = 0; i < parts[0].numbers.size(); ++i) {
      std::vector<std::string> column;
      for (const divided_text& each : parts) column.push_back(each.numbers[i]);
      if (std::all_of(column.begin(), column.end(), [&](const auto& n) { return n == column[0]; })) {
        body_text += column[0];
      } else {
        std::string& name = columns[column];
        if (name.empty()) {
          const std::string wanted = parameter_name(body_text);
          name = wanted;
          for (int k = 2; !used.insert(name).second; ++k) name = wanted + std::to_string(k);
          in_order.push_back(column);
        }
        body_text += name;
      }
      body_text += parts[0].between[i + 1];
    }
    // A block that has one more layer than others is named by it.
    std::string name = first.name;
    for (const instances* other : order) {
      const auto &more = first.content.members, &fewer = (*other)[0].b->content.members;
      if (other != group && (*other)[0].b->name == name && more.size() == fewer.size() + 1)
        for (const member& m : more)
          if (std::none_of(fewer.begin(), fewer.end(), [&](const member& f) { return f.name == m.name; }))
            name = first.name + "_with_" + m.name;
    }
    name = of.name_for(name);
    std::string declared;
    for (const auto& column : in_order) declared += (declared.empty() ? "template <int " : ", int ") + columns[column];
    if (how.branches) declared += declared.empty() ? "template <bool Residual" : ", bool Residual";
    if (in_order.empty() && !how.branches &&
        is_equal(*group, [](const block& b) { return block_text(b.content, {}, true); }))
      body_text = block_text(first.content, {}, true);
    body_text.replace(body_text.find('@'), 1, name);
    text += (declared.empty() ? "" : wrapped(declared + ">")) + body_text + "\n";
    for (std::size_t k = 0; k < group->size(); ++k) {
      std::string arguments;
      for (const auto& column : in_order) arguments += (arguments.empty() ? "" : ", ") + column[k];
      if (how.branches)
        arguments +=
            std::string(arguments.empty() ? "" : ", ") + (branch_of((*group)[k].b->content).empty() ? "false" : "true");
      (*group)[k].m->type = name + (arguments.empty() ? "" : "<" + arguments + ">");
    }
  }
  return text;
}

std::size_t count_of_word(const body& of, const std::string& name) {
  std::size_t count = 0;
  const auto compare = [&](std::string_view word) { count += word == name; };
  for (const statement& s : of.statements) for_each_word(s.text, compare);
  for (const std::string& text : of.returned) for_each_word(text, compare);
  return count;
}

/// Makes consecutive blocks with numbered names one nn::sequential, if they differ in their types or their extents.
void make_sequences(importer& of) {
  const auto prefix_of = [](const std::string& name) {
    const std::size_t end = name.find_last_not_of("0123456789") + 1;
    return end == name.size() ? "" : name.substr(0, end);
  };
  const auto called = [&](const statement& s) {
    const std::size_t open = s.text.find('(');
    return std::find_if(of.members.begin(), of.members.end(), [&](const member& m) {
      return m.block != 0 && s.names.size() == 1 && open != s.text.npos && m.name == s.text.substr(0, open);
    });
  };
  const auto keeps_extents = [&](const member& m) {
    const body& b = of.blocks[m.block - 1].content;
    return importer::physical(*b.inputs[0]) == importer::physical(*b.outputs[0]);
  };
  for (std::size_t first = 0; first < of.statements.size(); ++first) {
    const auto m = called(of.statements[first]);
    if (m == of.members.end() || of.blocks[m->block - 1].content.inputs.size() != 1) continue;
    const std::string prefix = prefix_of(m->name),
                      rest = of.statements[first].text.ends_with(", how)") ? ", how)" : ")";
    std::vector<std::string> parts{m->name};
    bool loops = keeps_extents(*m);
    std::size_t end = first + 1;
    for (; end < of.statements.size() && !prefix.empty(); ++end) {
      const auto next = called(of.statements[end]);
      const std::string& before = of.statements[end - 1].names[0];
      if (next == of.members.end() || prefix_of(next->name) != prefix || count_of_word(of, before) != 1 ||
          of.statements[end].text != next->name + "(" + before + rest)
        break;
      parts.push_back(next->name);
      loops = loops && next->type == m->type && keeps_extents(*next);
    }
    if (parts.size() < 2 || loops) continue;
    member all{"", "", "", {}, "", 0};
    for (std::size_t k = 0; k < parts.size(); ++k) {
      member& part = of.find_member(parts[k]);
      all.type += (k == 0 ? "nn::sequential<" : ", ") + part.type;
      all.parts.emplace_back(part.type, of.statements[first + k].comment);
      for (weight& w : part.weights) {
        w.name = std::to_string(k) + "/" + w.name;
        all.weights.push_back(std::move(w));
      }
    }
    all.type += ">";
    all.name = of.name_for(prefix);
    statement& s = of.statements[end - 1];
    s.text = all.name + of.statements[first].text.substr(parts[0].size());
    of.statements.erase(of.statements.begin() + static_cast<std::ptrdiff_t>(first),
                        of.statements.begin() + static_cast<std::ptrdiff_t>(end - 1));
    of.find_member(parts[0]) = std::move(all);
    std::erase_if(of.members, [&](const member& each) {
      return std::find(parts.begin() + 1, parts.end(), each.name) != parts.end();
    });
  }
}

/// Makes one array of blocks of one type whose names are numbered, and a loop of their calls if each reads the result
/// of the one before.
void make_arrays(importer& of) {
  std::string each;  // the name of a loop's block
  for (std::size_t first = 0; first < of.members.size(); ++first) {
    const member& m = of.members[first];
    const std::size_t line = m.name.rfind('_');
    if (m.block == 0 || line == m.name.npos || line + 5 < m.name.size() || line + 1 == m.name.size() ||
        m.name.find_first_not_of("0123456789", line + 1) != m.name.npos)
      continue;
    const std::string prefix = m.name.substr(0, line);
    const std::size_t begin_number = std::stoul(m.name.substr(line + 1));
    const auto numbered = [&](std::size_t k) { return prefix + "_" + std::to_string(begin_number + k); };
    std::size_t count = 1;
    while (first + count < of.members.size() && of.members[first + count].type == m.type &&
           of.members[first + count].name == numbered(count))
      ++count;
    if (count < 2) continue;
    const std::string name =
        of.name_for(begin_number == 0 ? prefix : m.name + "_to_" + std::to_string(begin_number + count - 1));
    const std::string call = m.name + "(";
    const auto starts = [&](const statement& s) { return s.names.size() == 1 && s.text.starts_with(call); };
    const auto begin = std::find_if(of.statements.begin(), of.statements.end(), starts);
    bool loops = begin != of.statements.end() && static_cast<std::size_t>(of.statements.end() - begin) >= count;
    const body& inner = of.blocks[m.block - 1].content;
    loops = loops && inner.outputs.size() == 1 && !inner.input_names[0].empty() &&
            inner.inputs[0]->type == inner.outputs[0]->type &&
            importer::physical(*inner.inputs[0]) == importer::physical(*inner.outputs[0]);
    // The arguments after the first.
    std::string argument, rest;
    if (loops) {
      int depth = 0;
      std::size_t end = call.size();
      for (; end < begin->text.size() && !(depth == 0 && (begin->text[end] == ',' || begin->text[end] == ')')); ++end) {
        const char c = begin->text[end];
        depth += c == '(' || c == '{' || c == '<' ? 1 : c == ')' || c == '}' || c == '>' ? -1 : 0;
      }
      argument = begin->text.substr(call.size(), end - call.size());
      rest = begin->text.substr(end);
    }
    for (std::size_t k = 1; k < count && loops; ++k) {
      const statement &before = begin[static_cast<std::ptrdiff_t>(k - 1)], &s = begin[static_cast<std::ptrdiff_t>(k)];
      loops = s.names.size() == 1 && s.text == numbered(k) + "(" + before.names[0] + rest &&
              count_of_word(of, before.names[0]) == 1;
    }
    if (loops) {
      const auto last = begin + static_cast<std::ptrdiff_t>(count);
      const std::string result = (last - 1)->names[0], comment = (last - 1)->comment;
      if (each.empty()) each = of.name_for("each");
      auto from = begin;
      std::string start = "let(" + argument + ")";
      if (begin != of.statements.begin() && (begin - 1)->names == std::vector{argument} &&
          count_of_word(of, argument) == 1) {
        const std::string& made = (--from)->text;
        const bool is_node =
            made.starts_with("let(") || std::any_of(of.members.begin(), of.members.end(), [&](const member& other) {
              return made.starts_with(other.name + "(") || made.starts_with(other.name + "[");
            });
        start = is_node ? made : "let(" + made + ")";
      }
      statement loop{{}, wrapped("    auto " + result + " = " + start + ";  // " + comment), ""};
      loop.text += wrapped("    for (const auto& " + each + " : " + name + ") " + result + " = " + each + "(" + result +
                           rest + ";");
      of.statements.erase(from + 1, last);
      *from = loop;
    } else {
      const auto replace = [&](std::string& text) {
        for (std::size_t k = 0; k < count; ++k) {
          const std::string old = numbered(k) + "(";
          for (std::size_t at = 0; (at = text.find(old, at)) != text.npos; ++at)
            if (at == 0 || !is_word(text[at - 1])) text.replace(at, old.size(), name + "[" + std::to_string(k) + "](");
        }
      };
      for (statement& s : of.statements) replace(s.text);
      for (std::string& text : of.returned) replace(text);
    }
    member all{"std::array<" + m.type + ", " + std::to_string(count) + ">", name, "", {}, "", m.block};
    for (std::size_t k = 0; k < count; ++k)
      for (weight w : of.members[first + k].weights) {
        w.name = std::to_string(k) + "/" + w.name;
        all.weights.push_back(std::move(w));
      }
    const auto at = of.members.begin() + static_cast<std::ptrdiff_t>(first);
    *at = std::move(all);
    of.members.erase(at + 1, at + static_cast<std::ptrdiff_t>(count));
  }
}

/// Numbers the names x, x_1, x_2 in the order of the statements.
void number_names(importer& of) {
  std::map<std::string, std::string, std::less<>> renamed;
  std::set<std::string> taken = reserved_names();
  for (const member& m : of.members) taken.insert(m.name);
  for (const std::string& name : of.input_names) taken.insert(name);
  for (const value* v : of.inputs) taken.insert(v->text);
  taken.insert("each");
  const auto number = [&](const std::string& name) {
    const std::size_t line = name.find_last_not_of("0123456789");
    const std::string base = line != name.npos && line > 0 && name[line] == '_' ? name.substr(0, line) : name;
    std::string fresh = base;
    for (int i = 1; !taken.insert(fresh).second; ++i) fresh = base + "_" + std::to_string(i);
    renamed[name] = fresh;
  };
  std::vector<std::string> declared;
  for (const statement& s : of.statements) {
    declared.insert(declared.end(), s.names.begin(), s.names.end());
    if (s.names.empty() && s.text.starts_with("    auto "))
      declared.push_back(s.text.substr(9, s.text.find(' ', 9) - 9));
  }
  const std::set<std::string, std::less<>> own(declared.begin(), declared.end());
  for (const statement& s : of.statements)  // functions
    for_each_word(s.text, [&](std::string_view word) {
      if (!own.contains(word)) taken.emplace(word);
    });
  for (const std::string& name : declared) number(name);
  const auto change = [&](std::string& text) {
    std::string changed;
    const char* done = text.data();
    bool quoted = false;
    for_each_word(text, [&](std::string_view word) {
      const std::string_view before(done, static_cast<std::size_t>(word.data() - done));
      quoted ^= std::count(before.begin(), before.end(), '"') % 2 != 0;
      changed += before;
      const auto at = renamed.find(word);
      changed += at == renamed.end() || quoted ? word : std::string_view(at->second);
      done = word.data() + word.size();
    });
    text = changed + std::string(done, static_cast<std::size_t>(text.data() + text.size() - done));
  };
  for (statement& s : of.statements) {
    for (std::string& name : s.names) name = renamed[name];
    change(s.text);
  }
  for (std::string& text : of.returned) change(text);
}

}  // namespace

std::string header_text(importer& of) {
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
  body += blocks_text(of);
  make_sequences(of);
  make_arrays(of);
  of.return_last_statement();
  number_names(of);
  body += "///";
  for (std::size_t i = 0; i < of.outputs.size(); ++i)
    body +=
        (i == 0 ? " Returns " : ", ") + quoted(of.model.main.outputs[i].name) + " " + shape_and_type(*of.outputs[i]);
  body += ".\n";
  for (const value* v : of.inputs) body += "/// " + v->text + ": " + shape_and_type(*v) + "\n";
  body += struct_text(of, "model", true);
  if (body.find("std::array") != body.npos) standard.insert("array");
  if (body.find("std::int") != body.npos || body.find("std::uint") != body.npos) standard.insert("cstdint");
  if (body.find("std::numeric_limits") != body.npos) standard.insert("limits");
  if (body.find("std::string&") != body.npos) standard.insert("string");
  if (body.find("std::tuple") != body.npos) standard.insert("tuple");
  for (const std::string& h : standard) text += "#include <" + h + ">\n";
  for (const std::string& h : headers) text += "#include <weft/" + h + ">\n";
  return text + "\nnamespace " + space + " {\n\nusing namespace weft;\n\n" + with_aligned_comments(body) +
         "\n}  // namespace " + space + "\n";
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
  text += "  std::map<std::string, std::string> flags;\n";
  std::string usage = "usage: " + space;
  for (const value* v : of.inputs) {
    text += "  flags[" + text_literal("--" + v->name) + "];\n";
    usage += " --" + v->name + " FILE.npy";
  }
  text += "  flags[\"--weights\"] = \"" + space + ".safetensors\";\n  flags[\"--out\"] = \".\";\n";
  text += "  for (int i = 1; i < argc; i += 2) {\n    if (i + 1 == argc || !flags.count(argv[i])) {\n";
  text += "      std::fputs(" + text_literal(usage + " [--weights FILE] [--out FOLDER]\n") +
          ", stderr);\n      return 2;\n    }\n";
  text += "    flags[argv[i]] = argv[i + 1];\n  }\n\n  graph g;\n";
  std::string arguments, feeds, reads;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const value& v = *of.inputs[i];
    const std::string type = cpp_type(v.type) + ", " + space + "::" + v.text + "_dims";
    text += wrapped("  const auto " + v.text + " = placeholder<" + type + ">(g, \"" + v.text + "\");");
    arguments += (i > 0 ? ", " : "") + v.text;
    if (of.input_names[i].empty()) continue;
    const std::string given = unused_name(of, "given_" + v.text);
    reads += wrapped("  const auto " + given + " = read_npy<tensor<" + type + ">>(flags.at(" +
                     text_literal("--" + v.name) + "));");
    feeds += ", with(" + v.text + ", " + given + ")";
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
  text += reads + wrapped("  const auto " + (one ? values : "[" + values + "]") + " = s." +
                          (one ? "eval(" + names : "run(fetch(" + names + ")") + feeds + ");");
  std::set<std::string> files;
  for (std::size_t i = 0; i < of.outputs.size(); ++i) {
    std::string clean = of.model.main.outputs[i].name, file;
    for (char& c : clean)
      if (!is_word(c) && c != '.' && c != '-') c = '_';
    file = clean;
    for (int k = 1; !files.insert(file).second; ++k) file = clean + "_" + std::to_string(k);
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
      const dtype type = element_type(w.from->type);
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

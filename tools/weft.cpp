// SPDX-License-Identifier: BSL-1.0
// weft: looks into files of tensors, compares them and converts them; prints TensorBoard's event files.
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <weft/data/record_reader.hpp>
#include <weft/data/records.hpp>
#include <weft/printable.hpp>

#include "event_file.hpp"
#include "onnx/import.hpp"
#include "tensor_file.hpp"

using namespace tool;

namespace {

constexpr const char* help =
    R"(weft: inspects, compares and converts files of tensors; prints TensorBoard's event files; checks TFRecord files

usage:
  weft show FILE [--all]                print the layers with their parameters; of an .onnx file also the operators,
                                        inputs and outputs; --all: also the slots of an optimizer
  weft inspect FILE [--no-statistics]   print names, element types, extents; min, max, mean, standard deviation, NaNs
  weft diff A B [--tolerance T]         print the tensors that differ, by more than T if given, and the operators,
                                        inputs and outputs that do; exit with 1 if any do. Also called compare
  weft convert FROM TO [--tensor NAME]  write TO, a .safetensors, .npz or .npy file; --tensor: only this tensor
  weft import MODEL.onnx [--out FOLDER] [--name NAME] [--program] [--nchw] [--constant INPUT=FILE.npy ...]
                                        write an ONNX model as C++, NAME.hpp, with its weights, NAME.safetensors;
                                        --program: also NAME.cpp, which reads inputs from .npy files and writes outputs;
                                        --nchw: inputs and outputs keep channels before height and width;
                                        --constant: an input has this value; --extent NAME=N: an
                                        extent with a name is N. By default, FOLDER is the current one, and
                                        NAME is that of the file
  weft events PATH [--tag GLOB] [--json]
                                        print the events of a file, or of all event files in a folder: step, time (UTC),
                                        tag, values; --tag: only tags that match, such as 'train/*'; --json: one line of
                                        JSON for each
  weft records check FILE               count records and damaged places of a TFRecord or event file; exit with 1 if any
  weft records repair FILE TO           write the undamaged records of FILE to TO, compressed if TO ends in .gz
  weft --help
  weft --version

A file can be safetensors (PyTorch, Hugging Face), NumPy's .npy or .npz, an ONNX model, the folder of a Weft checkpoint,
a saver's folder (its newest checkpoint), or a checkpoint of TensorFlow's Saver, format V2, given by its prefix or .index
file.

Exit status: 0 on success; 1 if files differ or records are damaged; 2 after an error, with a message on standard error.
)";

/// Throws for what the user has to write otherwise.
[[noreturn]] void misuse(const std::string& why) {
  throw error(error_code::invalid_argument, "command line", why + "; see weft --help");
}

struct arguments {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> options;  ///< with their values, in order

  /// `known`: the options of the command; true for those that a value follows.
  arguments(int count, char** given, const std::map<std::string, bool>& known) {
    for (int i = 2; i < count; ++i) {
      const std::string word = given[i];
      if (!word.starts_with("--")) {
        words.push_back(word);
        continue;
      }
      const std::size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const auto option = known.find(name);
      if (option == known.end()) misuse(std::string(given[1]) + " has no option " + name);
      if (!option->second && equals != std::string::npos) misuse(name + " takes no value");
      if (option->second && equals == std::string::npos && i + 1 == count) misuse(name + " needs a value");
      const std::string value = !option->second               ? ""
                                : equals != std::string::npos ? word.substr(equals + 1)
                                                              : given[++i];
      options.emplace_back(name, value);
    }
  }
  bool has(const std::string& option) const { return find(option) != nullptr; }
  /// Returns the value of an option, the last one if it is given several times; null if it is not given.
  const std::string* find(const std::string& option) const {
    const std::string* value = nullptr;
    for (const auto& [name, given] : options)
      if (name == option) value = &given;
    return value;
  }
};

std::string type_of(const tensor_info& t) { return t.type ? name(*t.type) : t.type_name; }
std::string described(const tensor_info& t) { return type_of(t) + " " + weft::detail::extents_text(t.extents); }

/// Returns true if Weft has tensors of this type and rank.
bool is_readable(const tensor_info& t) { return t.type && t.extents.size() <= max_rank; }

// ---- inspect ----

struct statistics {
  double min = std::numeric_limits<double>::infinity(), max = -min, mean = 0, deviation = 0;
  std::size_t count = 0, nan = 0;  ///< `count`: of numbers
};

/// The statistics of all elements that are not NaN; the deviation is that of the population, as NumPy's.
statistics statistics_of(const untyped_tensor& t) {
  return with_type(t.type, [&]<class T>(T) {
    statistics s;
    const std::size_t size = t.extents.elements();
    const T* const x = elements_of<T>(t);
    double sum = 0;
    constexpr std::size_t block = 4096;  // a sum of sums loses less
    for (std::size_t i = 0; i < size; i += block) {
      double part = 0;
      for (std::size_t j = i; j < std::min(size, i + block); ++j) {
        const double value = number(x[j]);
        if (std::isnan(value)) {
          ++s.nan;
          continue;
        }
        s.min = std::min(s.min, value);
        s.max = std::max(s.max, value);
        part += value;
      }
      sum += part;
    }
    s.count = size - s.nan;
    if (s.count == 0) return s;
    s.mean = sum / static_cast<double>(s.count);
    double squares = 0;
    for (std::size_t i = 0; i < size; i += block) {
      double part = 0;
      for (std::size_t j = i; j < std::min(size, i + block); ++j)
        if (const double value = number(x[j]); !std::isnan(value)) part += (value - s.mean) * (value - s.mean);
      squares += part;
    }
    s.deviation = std::sqrt(squares / static_cast<double>(s.count));
    return s;
  });
}

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// `left`: true for columns that are aligned to the left; all others are aligned to the right.
void print_table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& left) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string room(widths[i] - row[i].size(), ' ');
      line += i < left.size() && left[i] ? row[i] + room : room + row[i];
      if (i + 1 < row.size()) line += "  ";
    }
    while (line.ends_with(' ')) line.pop_back();
    std::puts(line.c_str());
  }
}

int inspect(const arguments& a) {
  if (a.words.size() != 1) misuse("inspect requires one file");
  const auto file = open(a.words[0]);
  std::vector<std::vector<std::string>> rows{{"name", "type", "extents"}};
  const bool numbers = !a.has("--no-statistics");
  if (numbers)
    for (const char* title : {"min", "max", "mean", "std", "NaN"}) rows[0].push_back(title);
  std::uint64_t elements = 0;
  for (const tensor_info& t : file->tensors()) {
    auto& row = rows.emplace_back();
    row = {printable(t.name), type_of(t), weft::detail::extents_text(t.extents)};
    elements += count_of(t.extents);
    if (!numbers || !is_readable(t)) continue;
    const statistics s = statistics_of(file->read(t));
    for (const double value : {s.min, s.max, s.mean, s.deviation}) row.push_back(s.count > 0 ? text_of(value) : "-");
    row.push_back(std::to_string(s.nan));
  }
  print_table(rows, {true, true, true});
  std::printf("%s: %zu tensors, %llu elements\n", file->format().c_str(), file->tensors().size(),
              static_cast<unsigned long long>(elements));
  return 0;
}

// ---- show ----

std::string described(const onnx::value_info& v) {
  if (v.kind != "tensor") return v.kind.empty() ? "of unknown type" : v.kind;
  const std::optional<dtype> type = onnx::element_type(v.type);
  std::string text =
      str_cat({type ? name(*type) : onnx::type_name(v.type), v.has_shape ? " [" : " of unknown extents"});
  for (std::size_t i = 0; i < v.extents.size(); ++i) {
    const onnx::dimension& d = v.extents[i];
    append(text, {i ? ", " : "", d.value >= 0 ? std::to_string(d.value) : d.name.empty() ? "?" : d.name});
  }
  return v.has_shape ? text + "]" : text;
}

/// The model's operator sets, inputs, outputs and operators.
std::map<std::string, std::string> facts_of(const onnx::model& m) {
  std::map<std::string, std::string> facts;
  std::map<std::string, std::size_t> operators;
  for (const auto& [domain, version] : m.opsets)
    facts[domain.empty() ? "opset" : "opset " + domain] = std::to_string(version);
  // Old files list the initializers among the inputs.
  std::set<std::string> constants;
  for (const onnx::tensor_value& t : m.main.initializers) constants.insert(t.name);
  for (const onnx::value_info& v : m.main.inputs)
    if (constants.count(v.name) == 0) facts["input " + v.name] = described(v);
  for (const onnx::value_info& v : m.main.outputs) facts["output " + v.name] = described(v);
  for (const onnx::node& n : m.main.nodes) ++operators["operator " + importer::operator_of(n)];
  for (const auto& [operation, count] : operators) facts[operation] = std::to_string(count);
  return facts;
}

int show(const arguments& a) {
  if (a.words.size() != 1) misuse("show requires one file");
  const auto file = open(a.words[0]);
  struct layer {
    std::string name, tensors;
    std::uint64_t parameters = 0;
  };
  std::vector<layer> layers;
  std::map<std::string, std::size_t> numbers;
  std::uint64_t total = 0;
  std::size_t slots = 0;
  for (const tensor_info& t : file->tensors()) {
    if (file->is_slot(t) && !a.has("--all")) {
      ++slots;
      continue;
    }
    // "block/dense/weights" belongs to the layer "block/dense"; "weights" is one by itself.
    const std::size_t split = t.name.find_last_of("./");
    const bool scoped = split != std::string::npos;
    const std::string scope = t.name.substr(0, split), own = scoped ? t.name.substr(split + 1) + " " : "";
    const auto [known, is_new] = numbers.emplace(scope, layers.size());
    if (is_new) layers.push_back({scope, "", 0});
    layer& l = layers[known->second];
    append(l.tensors, {l.tensors.empty() ? "" : ", ", printable(own), described(t)});
    const std::uint64_t parameters = t.type && is_floating(*t.type) ? count_of(t.extents) : 0;
    l.parameters += parameters;
    total += parameters;
  }
  std::vector<std::vector<std::string>> rows{{"layer", "parameters", "tensors"}};
  for (const layer& l : layers) rows.push_back({printable(l.name), std::to_string(l.parameters), l.tensors});
  print_table(rows, {true, false, true});
  if (const onnx::model* const m = file->model()) {
    rows.clear();
    for (const auto& [what, text] : facts_of(*m)) rows.push_back({printable(what), printable(text)});
    print_table(rows, {true, true});
  }
  std::printf("%s: %zu tensors, %llu parameters", file->format().c_str(), file->tensors().size() - slots,
              static_cast<unsigned long long>(total));
  std::printf(slots > 0 ? ", and %zu slots of an optimizer (--all shows them)\n" : "\n", slots);
  return 0;
}

// ---- diff ----

struct difference {
  std::size_t count = 0;  ///< of elements that differ by more than is let pass
  std::size_t first = 0;  ///< the first of these
  double largest = 0;     ///< NaN if one is and the other is not
};

difference difference_of(const untyped_tensor& a, const untyped_tensor& b, double tolerance) {
  return with_type(a.type, [&]<class T>(T) {
    difference d;
    const T *const x = elements_of<T>(a), *const y = elements_of<T>(b);
    for (std::size_t i = 0, size = a.extents.elements(); i < size; ++i) {
      const double p = number(x[i]), q = number(y[i]);
      bool equal;
      if constexpr (std::is_integral_v<T>)
        equal = x[i] == y[i];  // doubles do not hold all of 64 bits
      else
        equal = p == q || (std::isnan(p) && std::isnan(q));
      double by = equal ? 0 : std::abs(p - q);
      if constexpr (std::is_integral_v<T>)
        if (!equal && by == 0) by = 1;
      if (equal || by <= tolerance) continue;
      if (d.count++ == 0) d.first = i;
      if (std::isnan(by) || by > d.largest) d.largest = std::isnan(d.largest) ? d.largest : by;
    }
    return d;
  });
}

std::string index_text(const shape& extents, std::size_t element) {
  std::vector<std::int64_t> index(extents.rank);
  for (std::size_t axis = extents.rank; axis-- > 0;) {
    index[axis] = static_cast<std::int64_t>(element % static_cast<std::size_t>(extents[axis]));
    element /= static_cast<std::size_t>(extents[axis]);
  }
  return weft::detail::extents_text(index);
}

/// Prints the differences of two models in addition to their initializers, and returns the number of differences.
std::size_t compare_graphs(const onnx::model& a, const onnx::model& b) {
  std::size_t different = 0;
  std::map<std::string, std::pair<std::string, std::string>> facts;
  for (const auto& [what, text] : facts_of(a)) facts[what].first = text;
  for (const auto& [what, text] : facts_of(b)) facts[what].second = text;
  for (const auto& [what, texts] : facts) {
    if (texts.first == texts.second) continue;
    const auto shown = [](const std::string& text) { return text.empty() ? std::string("absent") : printable(text); };
    std::printf("differs: %s is %s, and %s\n", printable(what).c_str(), shown(texts.first).c_str(),
                shown(texts.second).c_str());
    ++different;
  }
  const auto &one = a.main.nodes, &other = b.main.nodes;
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    if (onnx::detail::encoded(one[i]) == onnx::detail::encoded(other[i])) continue;
    std::printf("differs: node %zu is %s '%s', and %s '%s', with other inputs, outputs or attributes\n", i,
                printable(one[i].op_type).c_str(), printable(one[i].name).c_str(), printable(other[i].op_type).c_str(),
                printable(other[i].name).c_str());
    ++different;
  }
  return different;
}

int compare(const arguments& a) {
  if (a.words.size() != 2) misuse("diff requires two files");
  double tolerance = 0;
  if (const std::string* const given = a.find("--tolerance")) {
    char* end = nullptr;
    tolerance = std::strtod(given->c_str(), &end);
    if (given->empty() || *end != '\0' || !(tolerance >= 0))
      misuse("--tolerance must be a number of at least 0, but is " + *given);
  }
  const auto left = open(a.words[0]), right = open(a.words[1]);
  // The only tensor of an .npy file has no name of its own.
  const bool single = left->tensors().size() == 1 && right->tensors().size() == 1 &&
                      (left->format() == std::string_view("npy") || right->format() == std::string_view("npy"));
  std::map<std::string, std::pair<const tensor_info*, const tensor_info*>> both;
  for (const tensor_info& t : left->tensors()) both[single ? "tensor" : t.name].first = &t;
  for (const tensor_info& t : right->tensors()) both[single ? "tensor" : t.name].second = &t;
  std::size_t equal = 0;
  for (const auto& [key, pair] : both) {
    const std::string shown = printable(key);
    const auto [one, other] = pair;
    if (!one || !other) {
      std::printf("only in %s: %s\n", a.words[one ? 0 : 1].c_str(), shown.c_str());
    } else if (type_of(*one) != type_of(*other) || one->extents != other->extents) {
      std::printf("differs: %s is %s, and %s\n", shown.c_str(), described(*one).c_str(), described(*other).c_str());
    } else if (!is_readable(*one)) {
      std::printf("not compared: %s is %s\n", shown.c_str(), described(*one).c_str());
    } else {
      const untyped_tensor x = left->read(*one), y = right->read(*other);
      const difference d = difference_of(x, y, tolerance);
      equal += d.count == 0;
      if (d.count > 0)
        std::printf("differs: %s in %zu of %zu elements, by up to %s, first at %s\n", shown.c_str(), d.count,
                    x.extents.elements(), text_of(d.largest).c_str(), index_text(x.extents, d.first).c_str());
    }
  }
  const bool shares =
      std::any_of(both.begin(), both.end(), [](const auto& each) { return each.second.first && each.second.second; });
  if (!shares && !left->tensors().empty() && !right->tensors().empty())
    std::puts("no tensor was compared: the files have no name in common");
  const bool graphs = left->model() && right->model();
  const std::size_t different = graphs ? compare_graphs(*left->model(), *right->model()) : 0;
  std::printf("%zu of %zu tensors are equal%s\n", equal, both.size(),
              !graphs          ? ""
              : different == 0 ? ", and so are the graphs"
                               : ", but the graphs differ");
  return equal == both.size() && different == 0 ? 0 : 1;
}

// ---- convert ----

int convert(const arguments& a) {
  if (a.words.size() != 2) misuse("convert requires two files");
  const std::string& to = a.words[1];
  const bool npy = to.ends_with(".npy"), npz = to.ends_with(".npz"), safe = to.ends_with(".safetensors");
  if (!npy && !npz && !safe) misuse(to + " must end in .safetensors, .npz or .npy");
  const auto file = open(a.words[0]);
  std::vector<tensor_info> chosen;
  const std::string* const wanted = a.find("--tensor");
  for (const tensor_info& t : file->tensors()) {
    if (wanted && t.name != *wanted) continue;
    if (is_readable(t) || wanted)
      chosen.push_back(t);
    else
      std::fprintf(stderr, "weft: skipped: %s is %s, which Weft does not support\n", printable(t.name).c_str(),
                   described(t).c_str());
  }
  if (wanted && chosen.empty())
    throw error(error_code::not_found, "convert", {a.words[0], " has no tensor ", printable(*wanted)});
  if (npy && chosen.size() != 1)
    misuse(str_cat(
        {to, " can contain one tensor, but ", a.words[0], " has ", chosen.size(), ": select one with --tensor NAME"}));
  if (npy) {
    write_npy(to, file->read(chosen[0]));
  } else if (npz) {
    npz_writer archive(to);
    for (const tensor_info& t : chosen) archive.add(t.name, file->read(t));
    archive.close();
  } else {
    std::vector<untyped_tensor> values;
    std::vector<named_tensor> tensors;
    for (const tensor_info& t : chosen) values.push_back(file->read(t));
    for (std::size_t i = 0; i < chosen.size(); ++i)
      tensors.emplace_back(chosen[i].name, values[i].type, values[i].extents, values[i].bytes.data());
    write_safetensors(to, tensors);
  }
  std::printf("%s: %zu tensors\n", to.c_str(), chosen.size());
  return 0;
}

// ---- import ----

int import_onnx(const arguments& a) {
  if (a.words.size() != 1) misuse("import requires one file");
  importer::options o;
  o.file = a.words[0];
  for (const auto& [name, value] : a.options) {
    if (name == "--out") o.folder = value;
    if (name == "--name") o.name = value;
    o.program |= name == "--program";
    o.nchw |= name == "--nchw";
    if (name != "--constant" && name != "--extent") continue;
    const std::size_t equals = value.rfind('=');
    if (name == "--extent") {
      char* end = nullptr;
      const long long n = equals == std::string::npos ? -1 : std::strtoll(value.c_str() + equals + 1, &end, 10);
      if (n < 0 || *end != '\0') misuse("--extent must be NAME=NUMBER, but is " + value);
      o.extents[value.substr(0, equals)] = n;
      continue;
    }
    if (equals == std::string::npos) misuse("--constant must be INPUT=FILE.npy, but is " + value);
    o.constants[value.substr(0, equals)] = value.substr(equals + 1);
  }
  importer::import_file(o);
  return 0;
}

// ---- events ----

/// The event files of a folder and of those in it, in the order of their names; or the file itself.
std::vector<std::string> event_files(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return {path};
  std::vector<std::string> files;
  for (auto at = fs::recursive_directory_iterator(path, failed); !failed && at != fs::recursive_directory_iterator();
       at.increment(failed)) {
    std::error_code gone;
    const bool is_event_file = at->path().filename().string().find("tfevents") != std::string::npos;
    if (is_event_file && at->is_regular_file(gone)) files.push_back(at->path().string());
  }
  if (failed) throw error(error_code::unavailable, "events", {path, " cannot be read: ", failed.message()});
  if (files.empty())
    throw error(error_code::not_found, "events", {path, " has no event file, whose name contains tfevents"});
  std::sort(files.begin(), files.end());
  return files;
}

/// As 2026-11-25 13:12:41.250.
std::string time_text(double seconds) {
  constexpr double year_9999 = 253402300799;
  if (!(seconds >= 0 && seconds < year_9999)) return shortest(seconds);
  const auto milliseconds = static_cast<long long>(seconds * 1000);
  const std::time_t whole = milliseconds / 1000;
  std::tm utc{};
  ::gmtime_r(&whole, &utc);
  char text[48], fraction[24];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc);
  std::snprintf(fraction, sizeof fraction, ".%03d", static_cast<int>(milliseconds % 1000));
  return std::string(text) + fraction;
}

std::string line_of(const event_line& e) {
  std::string line = str_cat({"step ", e.step, "  ", time_text(e.wall_time), "  "});
  if (!e.tag.empty()) line += printable(e.tag) + "  ";
  if (e.kind == std::string_view("scalar")) return line + e.fields[0].value;
  line += str_cat({e.kind, ":"});
  const auto shown = [](const event_field& f) {  // JSON has all digits
    const bool is_long = !f.is_text && f.value.find('.') != std::string::npos;
    return is_long ? text_of(std::strtod(f.value.c_str(), nullptr)) : printable(f.value);
  };
  for (const event_field& f : e.fields)
    line += e.kind == std::string_view(f.name) ? str_cat({" ", shown(f)}) : str_cat({" ", f.name, " ", shown(f)});
  return line;
}

int events(const arguments& a) {
  if (a.words.size() != 1) misuse("events requires one file or folder");
  const bool json = a.has("--json");
  const std::string* const tag = a.find("--tag");
  const std::vector<std::string> files = event_files(a.words[0]);
  const bool several = files.size() > 1;
  bool damaged = false;
  for (const std::string& path : files) {
    if (several && !json) std::printf("%s:\n", printable(path).c_str());
    try {
      event_reader file(path);
      for (std::vector<event_line> lines; file.next(lines);)
        for (const event_line& line : lines) {
          if (tag && (line.tag.empty() || ::fnmatch(tag->c_str(), line.tag.c_str(), 0) != 0)) continue;
          std::puts((json ? json_line(line, several ? path : "") : line_of(line)).c_str());
        }
    } catch (const error& e) {
      if (!several) throw;
      std::fflush(stdout);
      std::fprintf(stderr, "weft: %s\n", printable(e.what()).c_str());
      damaged = true;
    }
  }
  return damaged ? 2 : 0;
}

// ---- records ----

int records(const arguments& a) {
  const bool repair = !a.words.empty() && a.words[0] == "repair";
  if (!repair && (a.words.empty() || a.words[0] != "check")) misuse("records requires check or repair");
  if (a.words.size() != (repair ? 3u : 2u))
    misuse(repair ? "records repair requires two files" : "records check requires a file");
  data::record_reader file(a.words[1], {.skip_damaged = true});
  std::optional<data::record_writer> out;
  if (repair) {
    std::error_code none;
    if (std::filesystem::equivalent(a.words[1], a.words[2], none)) misuse("records repair must write to another file");
    out.emplace(a.words[2], a.words[2].ends_with(".gz") ? data::compression::gzip : data::compression::none);
  }
  std::uint64_t bytes = 0;
  for (std::string record; file.next(record);) {
    bytes += record.size();
    if (out) out->add(record);
  }
  if (out) out->close();
  const std::string shown = printable(a.words[1]);
  std::printf("%s: %llu records, %llu bytes in them, %llu damaged places\n", shown.c_str(),
              static_cast<unsigned long long>(file.records()), static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(file.damaged()));
  return file.damaged() > 0 && !repair ? 1 : 0;
}

int run(int count, char** given) {
  const std::string_view command = count > 1 ? given[1] : "";
  for (int i = 1; i < count; ++i)
    if (given[i] == std::string_view("--help")) return std::fputs(help, stdout) < 0 ? 2 : 0;
  if (command == "--version") return std::puts("weft " WEFT_VERSION_STRING) < 0 ? 2 : 0;
  if (command == "inspect") return inspect({count, given, {{"--no-statistics", false}}});
  if (command == "show") return show({count, given, {{"--all", false}}});
  if (command == "diff" || command == "compare") return compare({count, given, {{"--tolerance", true}}});
  if (command == "convert") return convert({count, given, {{"--tensor", true}}});
  if (command == "import")
    return import_onnx({count,
                        given,
                        {{"--out", true},
                         {"--name", true},
                         {"--program", false},
                         {"--nchw", false},
                         {"--constant", true},
                         {"--extent", true}}});
  if (command == "events") return events({count, given, {{"--tag", true}, {"--json", false}}});
  if (command == "records") return records({count, given, {}});
  misuse(command.empty() ? "a command is required" : "unknown command " + std::string(command));
}

}  // namespace

int main(int count, char** given) {
  try {
    const int status = run(count, given);
    if (std::fflush(stdout) != 0) throw error(error_code::unavailable, "weft", "the output cannot be written");
    return status;
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "weft: %s\n", printable(e.what()).c_str());
    return 2;
  }
}

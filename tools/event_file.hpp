// SPDX-License-Identifier: BSL-1.0
#pragma once

// TensorBoard's event files, as lines to be shown: what each record is about, in a few fields.

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <weft/data/record_reader.hpp>
#include <weft/encoding/json.hpp>
#include <weft/encoding/protobuf.hpp>
#include <weft/text.hpp>

namespace tool {

using weft::data::protobuf_reader;

/// A number, or text.
struct event_field {
  const char* name;
  std::string value;
  bool is_text = false;
};

/// One value of a record.
struct event_line {
  std::int64_t step = 0;
  double wall_time = 0;
  std::string tag;
  const char* kind = "";
  std::vector<event_field> fields;
};

/// The shortest text that is the number.
template <class Number>
std::string shortest(Number x) {
  char text[48];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}

inline double as_double(std::uint64_t bits) { return std::bit_cast<double>(bits); }
inline float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Reads events one by one. The plugin that shows a tag, which a file has once, holds for the tag's later values.
class event_reader {
 public:
  explicit event_reader(const std::string& path) : file_(path) {}

  /// The lines of the next record, none perhaps; false at the end. Throws data_loss, as record_reader does, and for a
  /// record that is no Event.
  bool next(std::vector<event_line>& lines) {
    lines.clear();
    if (!file_.next(record_)) return false;
    event(protobuf_reader(std::as_bytes(std::span(record_)), file_.path(), file_.record_offset()), lines);
    return true;
  }
  const std::string& path() const { return file_.path(); }

 private:
  void event(protobuf_reader m, std::vector<event_line>& lines) {
    event_line common;
    const auto add = [&](const char* kind, std::vector<event_field> fields) {
      lines.push_back({0, 0, {}, kind, std::move(fields)});
    };
    while (m.next()) switch (m.field()) {
        case 1:
          common.wall_time = as_double(m.fixed64());
          break;
        case 2:
          common.step = static_cast<std::int64_t>(m.varint());
          break;
        case 3:
          add("version", {{"version", std::string(m.text()), true}});
          break;
        case 4:
          add("graph", {{"nodes", shortest(count(m.message(), 1))}});
          break;
        case 5:
          for (auto s = m.message(); s.next();)
            if (s.field() == 1) value(s.message(), lines);
          break;
        case 7:
          add("session", session(m.message()));
          break;
        case 9:
          add("meta_graph", {{"bytes", shortest(m.bytes().size())}});
          break;
        default:
          break;
      }
    for (event_line& line : lines) line.step = common.step, line.wall_time = common.wall_time;
  }

  static std::size_t count(protobuf_reader m, std::uint32_t field) {
    std::size_t all = 0;
    while (m.next()) all += m.field() == field;
    return all;
  }

  static std::vector<event_field> session(protobuf_reader m) {
    static constexpr const char* statuses[] = {"unspecified", "start", "stop", "checkpoint"};
    std::vector<event_field> fields;
    while (m.next()) {
      if (m.field() == 1)
        fields.push_back(
            {"status", m.varint() < std::size(statuses) ? statuses[m.varint()] : shortest(m.varint()), true});
      if (m.field() == 3) fields.push_back({"message", std::string(m.text()), true});
    }
    return fields;
  }

  /// Summary.Value.
  void value(protobuf_reader m, std::vector<event_line>& lines) {
    event_line line;
    std::string plugin, content;
    bool is_known = false;
    protobuf_reader tensor({}, file_.path());
    while (m.next()) switch (m.field()) {
        case 1:
          line.tag = m.text();
          break;
        case 2:
          set(line, is_known, "scalar", {{"value", shortest(as_float(m.fixed32()))}});
          break;
        case 4:
          set(line, is_known, "image", image(m.message()));
          break;
        case 5:
          set(line, is_known, "histogram", histogram(m.message()));
          break;
        case 6:
          set(line, is_known, "audio", {{"bytes", shortest(m.bytes().size())}});
          break;
        case 8:
          tensor = m.message();
          break;
        case 9:
          for (auto metadata = m.message(); metadata.next();)
            if (metadata.field() == 1)
              for (auto data = metadata.message(); data.next();) {
                if (data.field() == 1) plugin = data.text();
                if (data.field() == 2) content = data.text();
              }
          break;
        default:
          break;
      }
    if (!plugin.empty() && plugins_.size() < max_plugins) plugins_[line.tag] = plugin;
    if (!is_known) {
      const auto known = plugins_.find(line.tag);
      if (plugin.empty() && known != plugins_.end()) plugin = known->second;
      of_plugin(line, plugin, content, tensor);
    }
    lines.push_back(std::move(line));
  }

  static void set(event_line& line, bool& is_known, const char* kind, std::vector<event_field> fields) {
    line.kind = kind;
    line.fields = std::move(fields);
    is_known = true;
  }

  static std::vector<event_field> image(protobuf_reader m) {
    std::uint64_t sizes[3] = {};
    std::size_t bytes = 0;
    while (m.next()) {
      if (m.field() >= 1 && m.field() <= 3) sizes[m.field() - 1] = m.varint();
      if (m.field() == 4) bytes = m.bytes().size();
    }
    return {{"height", shortest(sizes[0])},
            {"width", shortest(sizes[1])},
            {"channels", shortest(sizes[2])},
            {"bytes", shortest(bytes)}};
  }

  static std::vector<event_field> histogram_fields(double count, double min, double max, double sum) {
    return {{"count", shortest(count)},
            {"min", shortest(min)},
            {"max", shortest(max)},
            {"mean", shortest(count > 0 ? sum / count : std::nan(""))}};
  }
  static std::vector<event_field> histogram(protobuf_reader m) {
    double numbers[5] = {};
    while (m.next())
      if (m.field() >= 1 && m.field() <= 4) numbers[m.field()] = as_double(m.fixed64());
    return histogram_fields(numbers[3], numbers[1], numbers[2], numbers[4]);
  }

  /// TensorProto, as far as the plugins' summaries go: texts, or numbers as doubles.
  struct tensor_content {
    std::uint64_t type = 0;
    std::vector<std::uint64_t> extents;
    std::vector<double> numbers;
    std::vector<std::string> texts;
  };
  tensor_content content_of(protobuf_reader m) const {
    constexpr std::uint64_t dt_float = 1, dt_double = 2;
    tensor_content all;
    std::string_view raw;
    const auto packed = [&](std::string_view bytes, std::size_t size) {
      for (; bytes.size() >= size; bytes.remove_prefix(size))
        all.numbers.push_back(size == 4
                                  ? static_cast<double>(as_float(weft::detail::get_little<std::uint32_t>(bytes.data())))
                                  : as_double(weft::detail::get_little<std::uint64_t>(bytes.data())));
    };
    while (m.next()) switch (m.field()) {
        case 1:
          all.type = m.varint();
          break;
        case 2:
          for (auto shape = m.message(); shape.next();)
            if (shape.field() == 2) {
              std::uint64_t extent = 0;
              for (auto dim = shape.message(); dim.next();)
                if (dim.field() == 1) extent = dim.varint();
              all.extents.push_back(extent);
            }
          break;
        case 4:
          raw = m.text();
          break;
        case 5:
          m.is_bytes() ? packed(m.text(), 4) : all.numbers.push_back(static_cast<double>(as_float(m.fixed32())));
          break;
        case 6:
          m.is_bytes() ? packed(m.text(), 8) : all.numbers.push_back(as_double(m.fixed64()));
          break;
        case 8:
          all.texts.emplace_back(m.text());
          break;
        default:
          break;
      }
    if (all.type == dt_float) packed(raw, 4);
    if (all.type == dt_double) packed(raw, 8);
    return all;
  }

  void of_plugin(event_line& line, const std::string& plugin, const std::string& content,
                 protobuf_reader tensor) const {
    if (plugin == "hparams") {
      line.kind = "hparams";
      line.fields =
          hyperparameters(protobuf_reader(std::as_bytes(std::span(content)), file_.path(), file_.record_offset()));
      return;
    }
    const tensor_content t = content_of(tensor);
    if (plugin == "text" && !t.texts.empty()) {
      line.kind = "text";
      std::string all;
      for (const std::string& text : t.texts) weft::append(all, {all.empty() ? "" : "\n", text});
      line.fields = {{"text", all, true}};
    } else if (plugin == "scalars" && t.numbers.size() == 1) {
      line.kind = "scalar";
      line.fields = {{"value", t.type == 1 ? shortest(static_cast<float>(t.numbers[0])) : shortest(t.numbers[0])}};
    } else if (plugin == "images" && t.texts.size() >= 2) {
      line.kind = "image";
      line.fields = {
          {"height", t.texts[1], true}, {"width", t.texts[0], true}, {"images", shortest(t.texts.size() - 2)}};
    } else if (plugin == "histograms" && t.extents.size() == 2 && t.extents[1] == 3) {
      // Buckets of a left and a right end and a count: the mean is that of their middles.
      line.kind = "histogram";
      double count = 0, sum = 0, min = std::nan(""), max = min;
      for (std::size_t i = 0; i + 3 <= t.numbers.size(); i += 3) {
        const double left = t.numbers[i], right = t.numbers[i + 1], here = t.numbers[i + 2];
        if (!(here > 0)) continue;
        count += here;
        sum += here * (left + right) / 2;
        if (!(min <= left)) min = left;
        if (!(max >= right)) max = right;
      }
      line.fields = histogram_fields(count, min, max, sum);
    } else {
      line.kind = "tensor";
      std::string extents;
      for (const std::uint64_t e : t.extents) weft::append(extents, {extents.empty() ? "[" : ", ", e});
      line.fields = {{"extents", extents.empty() ? "[]" : extents + "]", true}};
      if (!plugin.empty()) line.fields.push_back({"plugin", plugin, true});
    }
  }

  /// HParamsPluginData: the metrics of an experiment, the values of a run, or how it has ended.
  std::vector<event_field> hyperparameters(protobuf_reader m) const {
    static constexpr const char* statuses[] = {"unknown", "success", "failure", "running"};
    std::vector<event_field> fields;
    while (m.next()) {
      if (m.field() == 2) fields.push_back({"experiment", shortest(count(m.message(), 4)) + " hyperparameters", true});
      if (m.field() == 3) {
        std::string all;
        for (auto start = m.message(); start.next();)
          if (start.field() == 1) weft::append(all, {all.empty() ? "" : ", ", entry(start.message())});
        fields.push_back({"values", all, true});
      }
      if (m.field() == 4)
        for (auto end = m.message(); end.next();)
          if (end.field() == 1)
            fields.push_back(
                {"status", end.varint() < std::size(statuses) ? statuses[end.varint()] : shortest(end.varint()), true});
    }
    return fields;
  }
  /// An entry of map<string, google.protobuf.Value>: "rate=0.5".
  static std::string entry(protobuf_reader m) {
    std::string key, value;
    while (m.next()) {
      if (m.field() == 1) key = m.text();
      if (m.field() == 2)
        for (auto v = m.message(); v.next();) {
          if (v.field() == 2) value = shortest(as_double(v.fixed64()));
          if (v.field() == 3) value = v.text();
          if (v.field() == 4) value = v.varint() ? "true" : "false";
        }
    }
    return key + "=" + value;
  }

  static constexpr std::size_t max_plugins = 100'000;  // tags of a file, which is not trusted

  weft::data::record_reader file_;
  std::string record_;
  std::map<std::string, std::string> plugins_;
};

/// A line of JSON. Numbers that JSON has not are text.
inline std::string json_line(const event_line& line, const std::string& file) {
  const auto text = [](const std::string& s) {
    if (weft::detail::is_utf8(s)) return weft::detail::json_string(s);
    std::string shown;  // every byte as the character of that number
    for (const char c : s) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80)
        shown += c;
      else
        shown += static_cast<char>(0xc0 | byte >> 6), shown += static_cast<char>(0x80 | (byte & 0x3f));
    }
    return weft::detail::json_string(shown);
  };
  const auto number = [&](const std::string& s) { return s.find_first_of("in") == std::string::npos ? s : text(s); };
  std::string all = "{";
  if (!file.empty()) all += "\"file\":" + text(file) + ",";
  all += "\"step\":" + shortest(line.step) + ",\"wall_time\":" + number(shortest(line.wall_time)) + ",\"kind\":\"" +
         line.kind + "\"";
  if (!line.tag.empty()) all += ",\"tag\":" + text(line.tag);
  for (const event_field& f : line.fields)
    all += std::string(",\"") + f.name + "\":" + (f.is_text ? text(f.value) : number(f.value));
  return all + "}";
}

}  // namespace tool

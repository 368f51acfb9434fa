// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <weft/encoding/endian.hpp>
#include <weft/encoding/file.hpp>
#include <weft/encoding/mapped_file.hpp>
#include <weft/encoding/protobuf.hpp>
#include <weft/encoding/protobuf_writer.hpp>
#include <weft/error.hpp>
#include <weft/tensor/dtype.hpp>

/// ONNX files as structures: onnx.ai/onnx/repo-docs/IR.html. Members have the names of onnx.proto, or plainer ones.
WEFT_COLD_BEGIN
namespace weft::onnx {

/// Texts by name, in the file's order.
using texts = std::vector<std::pair<std::string, std::string>>;

/// A constant (TensorProto).
struct tensor_value {
  std::string name;
  int type = 0;  ///< TensorProto.DataType; see element_type and type_name
  std::vector<std::int64_t> extents;
  /// The elements in row-major order, little endian, not aligned; elements of fewer than 8 bits are packed.
  std::span<const std::byte> bytes;
  std::vector<std::string> strings;    ///< the elements if the type is STRING
  std::shared_ptr<const void> memory;  ///< owns `bytes`: a mapped file, or a vector; null if the caller does

  /// Takes ownership of the elements.
  void own(std::vector<std::byte> elements) {
    auto kept = std::make_shared<std::vector<std::byte>>(std::move(elements));
    bytes = *kept;
    memory = std::move(kept);
  }
};

/// An extent of a value: a number, a name, or unknown.
struct dimension {
  std::int64_t value = -1;  ///< -1 if the extent is not a number
  std::string name;
};

/// A value's name and type (ValueInfoProto).
struct value_info {
  std::string name, doc;
  std::string kind;  ///< "tensor", "sequence", "map", "optional", "sparse_tensor", "opaque"; empty without a type
  int type = 0;      ///< TensorProto.DataType of a tensor
  bool has_shape = false;
  std::vector<dimension> extents;
  std::string other;  ///< the encoded TypeProto if the kind is not "tensor"
};

struct graph;

/// A node's attribute (AttributeProto). `type` is AttributeProto.AttributeType and selects the member.
struct attribute {
  enum kind : int {
    undefined,
    float_type,
    int_type,
    string_type,
    tensor_type,
    graph_type,
    floats_type,
    ints_type,
    strings_type,
    tensors_type,
    graphs_type,
    sparse_tensor_type,
    sparse_tensors_type,
    type_proto_type,
    type_protos_type
  };
  std::string name, ref_attr_name;  ///< ref_attr_name: the attribute of the function from which the value comes
  int type = undefined;
  float f = 0;
  std::int64_t i = 0;
  std::string s;  ///< or an encoded SparseTensorProto or TypeProto
  tensor_value t;
  std::shared_ptr<graph> g;  ///< shared by copies of the attribute
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;  ///< or encoded SparseTensorProtos or TypeProtos
  std::vector<tensor_value> tensors;
  std::vector<graph> graphs;
};

/// A call of an operator (NodeProto). The domain "ai.onnx" is read as "".
struct node {
  std::string op_type, domain, name, overload, doc;
  std::vector<std::string> inputs, outputs;  ///< empty: not given
  std::vector<attribute> attributes;
  texts metadata;

  /// Returns null if the node does not have the attribute.
  const attribute* find(std::string_view attribute_name) const {
    for (const attribute& a : attributes)
      if (a.name == attribute_name) return &a;
    return nullptr;
  }
};

/// A graph (GraphProto). Nodes are in an order in which they can be executed.
struct graph {
  std::string name, doc;
  std::vector<node> nodes;
  std::vector<tensor_value> initializers;
  std::vector<value_info> inputs, outputs, values;
};

/// A function that nodes call like an operator (FunctionProto).
struct function {
  std::string name, domain, overload, doc;
  std::vector<std::string> inputs, outputs, attributes;  ///< attributes: those without a default
  std::vector<attribute> defaults;
  std::vector<node> nodes;
  std::vector<value_info> values;
  std::map<std::string, std::int64_t> opsets;  ///< by domain
};

/// A model (ModelProto).
struct model {
  std::int64_t ir_version = 0, model_version = 0;
  std::string producer, producer_version, domain, doc;
  std::map<std::string, std::int64_t> opsets;  ///< by domain; "" is ONNX's own
  graph main;
  std::vector<function> functions;
  texts metadata;
};

/// Returns the element type of a TensorProto.DataType, or none if Weft does not have it.
std::optional<dtype> element_type(int type);
/// Returns the TensorProto.DataType of an element type.
int type_of(dtype type);
/// Returns the name of a TensorProto.DataType: "FLOAT", "INT4".
std::string type_name(int type);

/// Reads an ONNX file. The elements of tensors are not copied: `bytes` refer to the mapped file, or to mapped files
/// with external data, which must be in the model's folder. The file is not trusted: sizes are checked before memory is
/// allocated, and the memory is proportional to the file.
///
/// Throws not_found, permission_denied or unavailable if a file cannot be read; data_loss, with the position in the
/// file, if it is damaged; permission_denied if external data would be outside the model's folder; unimplemented for
/// sparse initializers and tensors in segments.
model read_model(const std::string& path);

/// How write_model stores tensors.
struct write_options {
  /// Initializers with more bytes are written to the file `PATH.data`. By default all are in the model.
  std::uint64_t external_above = ~std::uint64_t{0};
};

/// Writes an ONNX file atomically. Throws invalid_argument if it would exceed 2 GB, the limit of Protocol Buffers:
/// write initializers to an external file then. Throws resource_exhausted if the disk is full, and not_found,
/// permission_denied or unavailable if the file cannot be written.
void write_model(const std::string& path, const model& m, const write_options& options = {});

namespace detail {

struct tensor_type {
  const char* name;
  unsigned bits;        ///< of an element
  std::uint32_t field;  ///< of TensorProto, which has the elements unless they are raw data
  std::optional<dtype> weft;
};
inline constexpr tensor_type tensor_types[] = {{"UNDEFINED", 0, 0, {}},
                                               {"FLOAT", 32, 4, dtype::float32},
                                               {"UINT8", 8, 5, dtype::uint8},
                                               {"INT8", 8, 5, dtype::int8},
                                               {"UINT16", 16, 5, dtype::uint16},
                                               {"INT16", 16, 5, dtype::int16},
                                               {"INT32", 32, 5, dtype::int32},
                                               {"INT64", 64, 7, dtype::int64},
                                               {"STRING", 0, 6, {}},
                                               {"BOOL", 8, 5, dtype::boolean},
                                               {"FLOAT16", 16, 5, dtype::float16},
                                               {"DOUBLE", 64, 10, dtype::float64},
                                               {"UINT32", 32, 11, dtype::uint32},
                                               {"UINT64", 64, 11, dtype::uint64},
                                               {"COMPLEX64", 64, 4, {}},
                                               {"COMPLEX128", 128, 10, {}},
                                               {"BFLOAT16", 16, 5, dtype::bfloat16},
                                               {"FLOAT8E4M3FN", 8, 5, {}},
                                               {"FLOAT8E4M3FNUZ", 8, 5, {}},
                                               {"FLOAT8E5M2", 8, 5, {}},
                                               {"FLOAT8E5M2FNUZ", 8, 5, {}},
                                               {"UINT4", 4, 5, {}},
                                               {"INT4", 4, 5, {}},
                                               {"FLOAT4E2M1", 4, 5, {}},
                                               {"FLOAT8E8M0", 8, 5, {}},
                                               {"UINT2", 2, 5, {}},
                                               {"INT2", 2, 5, {}},
                                               {"FLOAT6E2M3", 6, 5, {}},
                                               {"FLOAT6E3M2", 6, 5, {}}};
inline constexpr int string_tensor = 8, bool_tensor = 9;

inline const tensor_type* find_tensor_type(int type) {
  return type > 0 && static_cast<std::size_t>(type) < std::size(tensor_types) ? &tensor_types[type] : nullptr;
}

/// Reads the messages of a model.
class model_reader {
 public:
  using message = data::protobuf_reader;

  explicit model_reader(const std::string& path) : path_(path), file_(weft::detail::map_file(path)) {}

  model read() {
    model m;
    bool has_graph = false;
    for (message in(*file_, path_); in.next();) {
      const std::uint32_t field = in.field();
      if (field == 1) m.ir_version = integer(in);
      if (field == 2) m.producer = in.text();
      if (field == 3) m.producer_version = in.text();
      if (field == 4) m.domain = in.text();
      if (field == 5) m.model_version = integer(in);
      if (field == 6) m.doc = in.text();
      if (field == 7) {
        read_graph(in.message(), m.main);
        has_graph = true;
      }
      if (field == 8) read_opset(in.message(), m.opsets);
      if (field == 14) m.metadata.push_back(read_entry(in.message()));
      if (field == 25) m.functions.push_back(read_function(in.message()));
    }
    if (!has_graph || m.ir_version <= 0)
      throw error(error_code::invalid_argument, operation,
                  {path_, " must be an ONNX model, but has no ", has_graph ? "ir_version" : "graph"});
    return m;
  }

 private:
  static constexpr const char* operation = "read_model";
  static constexpr int deepest = 50;  ///< graphs in graphs

  static std::int64_t integer(const message& in) { return static_cast<std::int64_t>(in.varint()); }
  static void add_integers(const message& in, std::vector<std::int64_t>& to) {
    if (in.is_bytes())
      in.each_packed_varint([&](std::uint64_t i) { to.push_back(static_cast<std::int64_t>(i)); });
    else
      to.push_back(integer(in));
  }
  static std::string domain_of(std::string_view name) { return name == "ai.onnx" ? "" : std::string(name); }

  std::pair<std::string, std::string> read_entry(message in) {
    std::pair<std::string, std::string> entry;
    while (in.next()) {
      if (in.field() == 1) entry.first = in.text();
      if (in.field() == 2) entry.second = in.text();
    }
    return entry;
  }

  void read_opset(message in, std::map<std::string, std::int64_t>& opsets) {
    std::string domain;
    std::int64_t version = 0;
    while (in.next()) {
      if (in.field() == 1) domain = domain_of(in.text());
      if (in.field() == 2) version = integer(in);
    }
    opsets[domain] = version;
  }

  void read_graph(message in, graph& g) {
    if (++depth_ > deepest) in.bad("graphs are nested too deeply");
    while (in.next()) {
      const std::uint32_t field = in.field();
      if (field == 1) g.nodes.push_back(read_node(in.message()));
      if (field == 2) g.name = in.text();
      if (field == 5) g.initializers.push_back(read_tensor(in.message()));
      if (field == 10) g.doc = in.text();
      if (field == 11) g.inputs.push_back(read_value(in.message()));
      if (field == 12) g.outputs.push_back(read_value(in.message()));
      if (field == 13) g.values.push_back(read_value(in.message()));
      if (field == 15) refuse_sparse(in.message());
    }
    --depth_;
  }

  [[noreturn]] void refuse_sparse(message in) {
    std::string name;
    while (in.next())
      if (in.field() == 1)
        for (message values = in.message(); values.next();)
          if (values.field() == 8) name = values.text();
    throw error(error_code::unimplemented, operation,
                {path_, ": the initializer '", name, "' is sparse: store it as a dense tensor"});
  }

  node read_node(message in) {
    node n;
    while (in.next()) {
      const std::uint32_t field = in.field();
      if (field == 1) n.inputs.emplace_back(in.text());
      if (field == 2) n.outputs.emplace_back(in.text());
      if (field == 3) n.name = in.text();
      if (field == 4) n.op_type = in.text();
      if (field == 5) n.attributes.push_back(read_attribute(in.message()));
      if (field == 6) n.doc = in.text();
      if (field == 7) n.domain = domain_of(in.text());
      if (field == 8) n.overload = in.text();
      if (field == 9) n.metadata.push_back(read_entry(in.message()));
    }
    if (n.op_type.empty()) in.bad("a node has no op_type");
    return n;
  }

  attribute read_attribute(message in) {
    attribute a;
    int found = attribute::undefined;  // files of IR version 1 have no type
    while (in.next()) {
      const std::uint32_t field = in.field();
      if ((field >= 2 && field <= 11) || field == 14 || field == 15) found = static_cast<int>(field) - 1;
      if (field == 22 || field == 23) found = static_cast<int>(field) - 11;
      if (field == 1) a.name = in.text();
      if (field == 2) a.f = std::bit_cast<float>(in.fixed32());
      if (field == 3) a.i = integer(in);
      if (field == 4 || field == 14 || field == 22) a.s = in.text();
      if (field == 5) a.t = read_tensor(in.message());
      if (field == 6) read_graph(in.message(), *(a.g = std::make_shared<graph>()));
      if (field == 7 && !in.is_bytes()) a.floats.push_back(std::bit_cast<float>(in.fixed32()));
      if (field == 7 && in.is_bytes()) {
        if (in.bytes().size() % 4 != 0) in.bad("packed numbers have a wrong size");
        for (std::size_t at = 0; at < in.bytes().size(); at += 4)
          a.floats.push_back(std::bit_cast<float>(weft::detail::get_little<std::uint32_t>(in.bytes().data() + at)));
      }
      if (field == 8) add_integers(in, a.ints);
      if (field == 9 || field == 15 || field == 23) a.strings.emplace_back(in.text());
      if (field == 10) a.tensors.push_back(read_tensor(in.message()));
      if (field == 11) read_graph(in.message(), a.graphs.emplace_back());
      if (field == 20) a.type = static_cast<int>(in.varint());
      if (field == 21) a.ref_attr_name = in.text();
    }
    if (a.name.empty()) in.bad("an attribute has no name");
    if (a.type == attribute::undefined) a.type = found;
    if (found != attribute::undefined && a.type != found) in.bad("an attribute's value does not have its type");
    const bool needs_value = a.type == attribute::tensor_type || a.type == attribute::graph_type;
    if (needs_value && found == attribute::undefined && a.ref_attr_name.empty()) in.bad("an attribute has no value");
    return a;
  }

  value_info read_value(message in) {
    value_info v;
    while (in.next()) {
      if (in.field() == 1) v.name = in.text();
      if (in.field() == 3) v.doc = in.text();
      if (in.field() != 2) continue;
      for (message type = in.message(); type.next();) {
        constexpr const char* kinds[] = {"",       "tensor",        "",        "", "sequence", "map", "",
                                         "opaque", "sparse_tensor", "optional"};
        if (type.field() < std::size(kinds) && kinds[type.field()][0] != '\0') v.kind = kinds[type.field()];
        if (type.field() == 1) read_tensor_type(type.message(), v);
      }
      if (v.kind != "tensor") v.other = in.text();
    }
    return v;
  }

  void read_tensor_type(message in, value_info& v) {
    while (in.next()) {
      if (in.field() == 1) v.type = static_cast<int>(in.varint());
      if (in.field() != 2) continue;
      v.has_shape = true;
      for (message shape = in.message(); shape.next();) {
        if (shape.field() != 1) continue;
        dimension& d = v.extents.emplace_back();
        for (message extent = shape.message(); extent.next();) {
          if (extent.field() == 1) d.value = std::max(integer(extent), std::int64_t{-1});
          if (extent.field() == 2) d.name = extent.text();
        }
      }
    }
  }

  function read_function(message in) {
    function f;
    while (in.next()) {
      const std::uint32_t field = in.field();
      if (field == 1) f.name = in.text();
      if (field == 4) f.inputs.emplace_back(in.text());
      if (field == 5) f.outputs.emplace_back(in.text());
      if (field == 6) f.attributes.emplace_back(in.text());
      if (field == 7) f.nodes.push_back(read_node(in.message()));
      if (field == 8) f.doc = in.text();
      if (field == 9) read_opset(in.message(), f.opsets);
      if (field == 10) f.domain = domain_of(in.text());
      if (field == 11) f.defaults.push_back(read_attribute(in.message()));
      if (field == 12) f.values.push_back(read_value(in.message()));
      if (field == 13) f.overload = in.text();
    }
    return f;
  }

  tensor_value read_tensor(message in) {
    tensor_value t;
    message whole = in;
    texts external;
    bool is_raw = false, is_external = false;
    while (in.next()) {
      const std::uint32_t field = in.field();
      if (field == 1) add_integers(in, t.extents);
      if (field == 2) t.type = static_cast<int>(in.varint());
      if (field == 3)
        throw error(error_code::unimplemented, operation,
                    {path_, " has a tensor in segments: save the model by a current version of ONNX"});
      if (field == 6) t.strings.emplace_back(in.text());
      if (field == 8) t.name = in.text();
      if (field == 9) {
        t.bytes = in.bytes();
        is_raw = true;
      }
      if (field == 13) external.push_back(read_entry(in.message()));
      if (field == 14) is_external = in.varint() == 1;
    }
    const tensor_type* const type = find_tensor_type(t.type);
    if (!type) in.bad("a tensor has an unknown element type");
    std::uint64_t count = 1, bits = 0;
    bool overflows = false, empty = false;
    for (const std::int64_t extent : t.extents) {
      if (extent < 0) in.bad("a tensor has a negative extent");
      empty = empty || extent == 0;
      overflows = __builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count) || overflows;
    }
    if (empty) overflows = false, count = 0;
    if (overflows || __builtin_mul_overflow(count, std::uint64_t{type->bits}, &bits) || bits > ~std::uint64_t{0} - 8)
      in.bad("a tensor has too many elements");
    t.memory = file_;
    if (is_external && t.type != string_tensor)
      read_external(external, (bits + 7) / 8, t);
    else if (!is_raw)
      read_numbers(whole, *type, t);
    if (t.type == string_tensor ? t.strings.size() != count : t.bytes.size() != (bits + 7) / 8)
      in.bad("a tensor's elements do not match its extents");
    if (t.type == bool_tensor &&
        std::any_of(t.bytes.begin(), t.bytes.end(), [](std::byte b) { return b > std::byte{1}; }))
      in.bad("a bool is neither 0 nor 1");
    return t;
  }

  /// Reads the typed fields. Those of floats are little endian on the wire, and are not copied if there is only one.
  void read_numbers(message in, const tensor_type& type, tensor_value& t) {
    std::vector<std::byte> owned;
    std::size_t bit = 0;
    const auto put = [&](std::uint64_t value) {
      const unsigned bits = type.bits == 6 ? 6 : std::max(type.bits, 8u);
      if (bits < 64) {
        // Negative numbers of 8 and 16 bits have 64 bits on the wire.
        if (value >> bits != 0 && (~value >> (bits - 1)) != 0) in.bad("a number does not fit its element type");
        value &= (std::uint64_t{1} << bits) - 1;
      }
      owned.resize((bit + bits + 7) / 8);
      for (unsigned done = 0; done < bits; done += 8) {
        const std::size_t at = (bit + done) / 8, shift = (bit + done) % 8;
        const auto part = static_cast<unsigned>(value >> done & 255u) << shift;
        owned[at] |= static_cast<std::byte>(part & 255u);
        if (part > 255) owned[at + 1] |= static_cast<std::byte>(part >> 8);
      }
      bit += bits;
    };
    const auto append_bytes = [&](std::span<const std::byte> more) {
      if (owned.empty()) owned.assign(t.bytes.begin(), t.bytes.end());
      owned.insert(owned.end(), more.begin(), more.end());
    };
    while (in.next()) {
      const std::uint32_t field = in.field();
      if (field != 4 && field != 5 && field != 7 && field != 10 && field != 11) continue;
      if (field != type.field) in.bad("a tensor's elements are not in the field of their type");
      if (field == 4 || field == 10) {
        std::byte number[8];
        if (in.is_bytes() && t.bytes.empty() && owned.empty())
          t.bytes = in.bytes();
        else if (in.is_bytes())
          append_bytes(in.bytes());
        else if (weft::detail::put_little(number, field == 4 ? in.fixed32() : in.fixed64()); true)
          append_bytes({number, field == 4 ? 4u : 8u});
      } else if (in.is_bytes()) {
        in.each_packed_varint(put);
      } else {
        put(in.varint());
      }
    }
    if (!owned.empty()) t.own(std::move(owned));
  }

  void read_external(const texts& entries, std::uint64_t bytes, tensor_value& t) {
    std::string location;
    std::uint64_t offset = 0, length = bytes;
    const auto fail = [&](error_code code, std::initializer_list<piece> why) {
      throw error(code, operation,
                  {path_, ": the external data of '", t.name, "', in '", location, "', ", str_cat(why)});
    };
    for (const auto& [key, value] : entries) {
      if (key == "location") location = value;
      if (key != "offset" && key != "length") continue;
      std::uint64_t& number = key == "offset" ? offset : length;
      const char* const end = value.data() + value.size();
      if (const auto [at, failed] = std::from_chars(value.data(), end, number); failed != std::errc() || at != end)
        fail(error_code::data_loss, {"have the ", key, " '", value, "', but it must be a number"});
    }
    namespace fs = std::filesystem;
    const fs::path name(location);
    std::error_code failed;
    const fs::path folder = fs::canonical(weft::detail::folder_of(path_), failed);
    const fs::path file = fs::weakly_canonical(folder / name, failed);
    const bool inside =
        !failed && std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
    if (location.empty() || location.find('\0') != std::string::npos || name.is_absolute() || !inside ||
        std::find(name.begin(), name.end(), "..") != name.end())
      fail(error_code::permission_denied, {"must be a file in the model's folder, ", folder.string(),
                                           ": copy it there, and name it without .. and links"});
    auto& mapped = external_[file.string()];
    if (!mapped) mapped = weft::detail::map_file(file.string());
    if (length != bytes || offset > mapped->size() || length > mapped->size() - offset)
      fail(error_code::data_loss, {"are ", length, " bytes from byte ", offset, ", but the tensor has ", bytes,
                                   " bytes and the file ", mapped->size(), ": fetch both files again"});
    t.bytes = mapped->subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
    t.memory = mapped;
  }

  std::string path_;
  std::shared_ptr<const std::span<const std::byte>> file_;
  std::map<std::string, std::shared_ptr<const std::span<const std::byte>>> external_;
  int depth_ = 0;
};

/// Writes the messages of a model.
class model_writer {
 public:
  using message = data::protobuf_writer;

  explicit model_writer(const std::string& path, const write_options& options = {})
      : path_(path), external_path_(path + ".data"), above_(options.external_above) {}

  /// The bytes of tensors in the result are references.
  message encoded(const model& m) {
    message out;
    out.add_integer(1, m.ir_version);
    add(out, 2, m.producer);
    add(out, 3, m.producer_version);
    add(out, 4, m.domain);
    if (m.model_version != 0) out.add_integer(5, m.model_version);
    add(out, 6, m.doc);
    out.add_message(7, written(m.main));
    add(out, 8, m.opsets);
    add(out, 14, m.metadata);
    for (const function& f : m.functions) out.add_message(25, written(f));
    return out;
  }

  void write(const model& m) {
    const message out = encoded(m);
    constexpr std::uint64_t most = (std::uint64_t{1} << 31) - 1;
    if (out.size() > most)
      throw error(error_code::invalid_argument, "write_model",
                  {path_, " must have at most ", most, " bytes, but would have ", out.size(),
                   ": write large initializers to another file by write_options{.external_above = 1024}"});
    weft::detail::atomic_file file(path_, out.size());
    out.each_piece([&](const void* bytes, std::size_t size) { file.write(bytes, size); });
    if (!outside_.empty()) {  // an error leaves both files as they were
      weft::detail::atomic_file outside(external_path_, outside_bytes_);
      const std::vector<std::byte> zeros(page);
      std::uint64_t at = 0;
      for (const auto& [offset, bytes] : outside_) {
        outside.write(zeros.data(), static_cast<std::size_t>(offset - at));
        outside.write(bytes.data(), bytes.size());
        at = offset + bytes.size();
      }
      outside.commit();
    }
    file.commit();
  }

  message encoded(const node& n) {
    message out;
    add(out, 1, n.inputs);
    add(out, 2, n.outputs);
    add(out, 3, n.name);
    out.add_text(4, n.op_type);
    for (const attribute& a : n.attributes) out.add_message(5, written(a));
    add(out, 6, n.doc);
    add(out, 7, n.domain);
    add(out, 8, n.overload);
    add(out, 9, n.metadata);
    return out;
  }

 private:
  static constexpr std::size_t page = 4096;

  static void add(message& out, std::uint32_t field, const std::string& text) {
    if (!text.empty()) out.add_text(field, text);
  }
  static void add(message& out, std::uint32_t field, const std::vector<std::string>& all) {
    for (const std::string& text : all) out.add_text(field, text);
  }
  static void add(message& out, std::uint32_t field, const texts& entries) {
    for (const auto& [key, value] : entries) {
      message entry;
      entry.add_text(1, key);
      entry.add_text(2, value);
      out.add_message(field, entry);
    }
  }
  static void add(message& out, std::uint32_t field, const std::map<std::string, std::int64_t>& opsets) {
    for (const auto& [domain, version] : opsets) {
      message opset;
      opset.add_text(1, domain);
      opset.add_integer(2, version);
      out.add_message(field, opset);
    }
  }

  message written(const graph& g) {
    message out;
    for (const node& n : g.nodes) out.add_message(1, encoded(n));
    add(out, 2, g.name);
    for (const tensor_value& t : g.initializers) out.add_message(5, written(t, true));
    add(out, 10, g.doc);
    for (const value_info& v : g.inputs) out.add_message(11, written(v));
    for (const value_info& v : g.outputs) out.add_message(12, written(v));
    for (const value_info& v : g.values) out.add_message(13, written(v));
    return out;
  }

  message written(const attribute& a) {
    message out;
    out.add_text(1, a.name);
    out.add_integer(20, a.type);
    add(out, 21, a.ref_attr_name);
    if (!a.ref_attr_name.empty()) return out;
    const auto type = a.type;
    if (type == attribute::float_type) out.add_number(2, a.f);
    if (type == attribute::int_type) out.add_integer(3, a.i);
    if (type == attribute::string_type) out.add_text(4, a.s);
    if (type == attribute::tensor_type) out.add_message(5, written(a.t, false));
    if (type == attribute::graph_type && a.g) out.add_message(6, written(*a.g));
    // Lists of numbers are not packed in the schema.
    if (type == attribute::floats_type)
      for (const float f : a.floats) out.add_number(7, f);
    if (type == attribute::ints_type)
      for (const std::int64_t i : a.ints) out.add_integer(8, i);
    if (type == attribute::strings_type) add(out, 9, a.strings);
    if (type == attribute::tensors_type)
      for (const tensor_value& t : a.tensors) out.add_message(10, written(t, false));
    if (type == attribute::graphs_type)
      for (const graph& g : a.graphs) out.add_message(11, written(g));
    if (type == attribute::type_proto_type) out.add_text(14, a.s);
    if (type == attribute::type_protos_type) add(out, 15, a.strings);
    if (type == attribute::sparse_tensor_type) out.add_text(22, a.s);
    if (type == attribute::sparse_tensors_type) add(out, 23, a.strings);
    return out;
  }

  message written(const value_info& v) {
    message out, type, tensor, shape;
    add(out, 1, v.name);
    if (v.kind == "tensor") {
      tensor.add_integer(1, v.type);
      for (const dimension& d : v.extents) {
        message extent;
        if (d.value >= 0)
          extent.add_integer(1, d.value);
        else
          add(extent, 2, d.name);
        shape.add_message(1, extent);
      }
      if (v.has_shape) tensor.add_message(2, shape);
      type.add_message(1, tensor);
      out.add_message(2, type);
    } else {
      add(out, 2, v.other);
    }
    add(out, 3, v.doc);
    return out;
  }

  message written(const function& f) {
    message out;
    add(out, 1, f.name);
    add(out, 4, f.inputs);
    add(out, 5, f.outputs);
    add(out, 6, f.attributes);
    for (const node& n : f.nodes) out.add_message(7, encoded(n));
    add(out, 8, f.doc);
    add(out, 9, f.opsets);
    add(out, 10, f.domain);
    for (const attribute& a : f.defaults) out.add_message(11, written(a));
    for (const value_info& v : f.values) out.add_message(12, written(v));
    add(out, 13, f.overload);
    return out;
  }

  message written(const tensor_value& t, bool may_be_outside) {
    message out;
    for (const std::int64_t extent : t.extents) out.add_integer(1, extent);
    out.add_integer(2, t.type);
    add(out, 6, t.strings);
    add(out, 8, t.name);
    if (t.type == string_tensor) return out;
    if (!may_be_outside || t.bytes.size() <= above_) {
      out.add_reference(9, t.bytes);
      return out;
    }
    const std::uint64_t offset = (outside_bytes_ + page - 1) / page * page;
    outside_.emplace_back(offset, t.bytes);
    outside_bytes_ = offset + t.bytes.size();
    add(out, 13,
        {{"location", external_path_.substr(external_path_.rfind('/') + 1)},
         {"offset", std::to_string(offset)},
         {"length", std::to_string(t.bytes.size())}});
    out.add_integer(14, 1);
    return out;
  }

  std::string path_, external_path_;
  std::uint64_t above_;
  std::vector<std::pair<std::uint64_t, std::span<const std::byte>>> outside_;  // and their offsets
  std::uint64_t outside_bytes_ = 0;
};

/// Returns the bytes of a model, or of a node.
template <class Message>
std::string encoded(const Message& m) {
  std::string all;
  model_writer writer("");
  writer.encoded(m).each_piece(
      [&](const void* at, std::size_t size) { all.append(static_cast<const char*>(at), size); });
  return all;
}

}  // namespace detail

inline std::optional<dtype> element_type(int type) {
  const detail::tensor_type* const known = detail::find_tensor_type(type);
  return known ? known->weft : std::nullopt;
}

inline int type_of(dtype type) {
  int code = 1;
  while (detail::tensor_types[code].weft != type) ++code;
  return code;
}

inline std::string type_name(int type) {
  const detail::tensor_type* const known = detail::find_tensor_type(type);
  return known ? known->name : str_cat({"number ", type});
}

inline model read_model(const std::string& path) { return detail::model_reader(path).read(); }

inline void write_model(const std::string& path, const model& m, const write_options& options) {
  detail::model_writer(path, options).write(m);
}

}  // namespace weft::onnx
WEFT_COLD_END

// SPDX-License-Identifier: BSL-1.0
// The program that test/checkpoint/safetensors.py runs.
//
//   interchange write FILE     writes the tensors that the script knows too
//   interchange read FILE      reads them, and says what differs
//   interchange open FILE...   "FILE ok" or "FILE refused: why", of each

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <weft/checkpoint/safetensors.hpp>

using namespace weft;

namespace {

struct known_tensor {
  std::string name;
  dtype type;
  shape extents;
  std::vector<std::byte> bytes;
};

/// Byte k of the tensor of number n is 7 n + 3 k + 1; of bools, its lowest bit.
std::vector<known_tensor> known_tensors() {
  std::vector<known_tensor> all;
  for (int n = 0; n < 13; ++n) {
    const dtype type = static_cast<dtype>(n);
    all.push_back({str_cat({"layer/", n, "/", name(type)}), type, shape(3, n % 4, 2), {}});
  }
  all.push_back({"scalar", dtype::float32, shape(), {}});
  all.push_back({"\xc3\xa4 \"quoted\" \\ \n \xf0\x9f\x98\x80", dtype::uint8, shape(5), {}});
  for (std::size_t n = 0; n < all.size(); ++n) {
    known_tensor& t = all[n];
    t.bytes.resize(t.extents.elements() * size_of(t.type));
    for (std::size_t k = 0; k < t.bytes.size(); ++k)
      t.bytes[k] = static_cast<std::byte>((7 * n + 3 * k + 1) & (t.type == dtype::boolean ? 1u : 255u));
  }
  return all;
}

int write(const std::string& path) {
  std::vector<named_tensor> tensors;
  const std::vector<known_tensor> all = known_tensors();
  for (const known_tensor& t : all) tensors.emplace_back(t.name, t.type, t.extents, t.bytes.data());
  write_safetensors(path, tensors, {{"format", "pt"}, {"note", "a \"b\""}});
  return 0;
}

int read(const std::string& path) {
  const safetensors_file file(path);
  int faults = 0;
  const auto fault = [&](const std::string& name, const char* what) {
    std::printf("%s: %s\n", name.c_str(), what);
    ++faults;
  };
  const std::vector<known_tensor> all = known_tensors();
  if (file.entries().size() != all.size()) fault(path, "another number of tensors");
  if (file.metadata() != safetensors_metadata{{"format", "pt"}}) fault(path, "other metadata");
  for (const known_tensor& t : all) {
    const safetensors_entry* e = file.find(t.name);
    if (!e) {
      fault(t.name, "is not there");
      continue;
    }
    if (!detail::is_of(*e, t.type, t.extents)) fault(t.name, "has another type or other extents");
    std::vector<std::byte> bytes(static_cast<std::size_t>(e->bytes));
    file.read(*e, bytes.data());
    if (bytes != t.bytes) fault(t.name, "has other values");
  }
  return faults != 0;
}

int open(int count, char** paths) {
  for (int i = 0; i < count; ++i) try {
      const safetensors_file file(paths[i]);
      std::printf("%s ok\n", paths[i]);
    } catch (const error& e) {
      std::printf("%s refused: %s\n", paths[i], e.what());
    }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string how = count > 2 ? arguments[1] : "";
  if (how == "write") return write(arguments[2]);
  if (how == "read") return read(arguments[2]);
  if (how == "open") return open(count - 2, arguments + 2);
  std::fprintf(stderr, "usage: interchange write|read|open FILE...\n");
  return 2;
}

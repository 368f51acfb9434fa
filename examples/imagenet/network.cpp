// SPDX-License-Identifier: BSL-1.0
#include "network.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <weft/checkpoint/safetensors.hpp>

#include "build_network.hpp"

using namespace weft;

namespace imagenet {

namespace {

constexpr network_kind kinds[] = {{"resnet18", 224, 1000, false, make_resnet18},
                                  {"resnet50", 224, 1000, false, make_resnet50},
                                  {"inception_v3", 299, 1000, true, make_inception_v3},
                                  {"small_resnet18", 64, 10, true, make_small},
                                  {"tiny_resnet18", 32, 10, true, make_tiny}};

}  // namespace

network::network(std::uint64_t seed)
    : g(seed),
      images(symbol()),
      labels(placeholder<std::int32_t, label_batch::dims_type>(g, "labels")),
      logits(symbol()),
      top_1(symbol()),
      top_5(symbol()),
      cost(symbol()) {}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const network_kind& k : kinds) names.emplace_back(k.name);
  return names;
}

const network_kind& find_network(const std::string& name) {
  for (const network_kind& k : kinds)
    if (name == k.name) return k;
  throw error(error_code::invalid_argument, "", "unknown network \"" + name + "\"; --help lists them");
}

bool is_pytorch_file(const std::string& path) {
  const safetensors_file file(path);
  const auto& entries = file.entries();
  return std::none_of(entries.begin(), entries.end(), [](const auto& e) { return e.name.starts_with("net/"); });
}

std::string sums_of(const std::string& table, std::string_view without) {
  // A row ends with its parameters, its multiply-adds and its bytes, each with commas.
  std::int64_t parameters = 0, multiply_adds = 0;
  std::size_t begin = 0;
  for (std::size_t end; (end = table.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string row = table.substr(begin, end - begin);
    if (row.starts_with("layer ") || row.starts_with("sum ")) continue;
    std::int64_t numbers[3] = {};
    std::size_t at = row.size();
    for (std::int64_t& number : numbers) {
      std::int64_t unit = 1;
      while (at > 0 && row[at - 1] == ' ') --at;
      for (; at > 0 && row[at - 1] != ' '; --at)
        if (row[at - 1] != ',') number += unit * (row[at - 1] - '0'), unit *= 10;
    }
    parameters += numbers[2];
    if (!row.starts_with(without)) multiply_adds += numbers[1];
  }
  return "parameters " + std::to_string(parameters) + ", multiply-adds " + std::to_string(multiply_adds) + "\n";
}

}  // namespace imagenet

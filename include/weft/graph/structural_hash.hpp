// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/ops/operation.hpp>
#include <weft/tensor/extent.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// An open-addressing hash set of node numbers. The caller computes the hashes.
class index_set {
 public:
  template <class Equal>
  std::uint32_t find(std::uint64_t hash, Equal equal) const {
    if (slots_.empty()) return none;
    for (std::size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].index == none) return none;
      if (slots_[i].hash == hash && equal(slots_[i].index)) return slots_[i].index;
    }
  }
  void insert(std::uint64_t hash, std::uint32_t index) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    put(hash, index);
    ++count_;
  }
  static constexpr std::uint32_t none = ~std::uint32_t{0};

 private:
  struct slot {
    std::uint64_t hash = 0;
    std::uint32_t index = none;
  };
  void put(std::uint64_t hash, std::uint32_t index) {
    std::size_t i = hash & (slots_.size() - 1);
    while (slots_[i].index != none) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {hash, index};
  }
  void grow() {
    sequence<slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const slot& s : old)
      if (s.index != none) put(s.hash, s.index);
  }
  sequence<slot> slots_;
  std::size_t count_ = 0;
};

class hasher {
 public:
  void add(std::uint64_t word) { state_ = hash_word(state_, word); }
  void add(const std::string& text) {
    for (char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    add(text.size());
  }
  void add(const void* p) { add(reinterpret_cast<std::uintptr_t>(p)); }
  void add(const value_info& v) {
    add(static_cast<std::uint64_t>(v.type));
    add(v.extents.rank);
    for (std::size_t i = 0; i < v.extents.rank; ++i) add(static_cast<std::uint64_t>(v.extents[i]));
  }
  std::uint64_t result() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace weft::detail
WEFT_COLD_END

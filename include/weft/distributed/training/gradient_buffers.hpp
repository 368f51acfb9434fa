// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <weft/distributed/training/shared_variables.hpp>
#include <weft/transport/aligned_bytes.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// The memory for gradients that a step computes and the workers exchange. Gradients of one element type that have no
/// other memory are in one block, which an all-reduce can process as a whole.
class gradient_buffers {
 public:
  /// A part of a gradient that a step fetches: the whole gradient or, for a gradient of rows, one of its lists.
  struct part {
    std::size_t variable;
    value what;
    bool whole;
    std::size_t count = 0;  // fetched elements
    aligned_bytes came{};   // their memory
  };

  explicit gradient_buffers(const shared_variables& variables)
      : variables_(variables),
        gradients_(variables.size()),
        offsets_(variables.size(), none),
        marks_(variables.size()) {}

  /// Adds a whole gradient, or one of its lists of rows, to the fetches. Parts of one variable must be consecutive.
  void fetch_whole(std::size_t variable) { parts_.push_back({variable, variables_[variable].gradient, true}); }
  void fetch_list(std::size_t variable, std::size_t list) {
    parts_.push_back({variable, variables_[variable].lists[list], false});
  }
  const std::vector<part>& parts() const { return parts_; }
  void* place(std::size_t number, const shape& extents);

  /// Calls f(variable, first part, end of its parts) for each gradient of rows.
  template <class F>
  void for_each_by_rows(const F& f) const;

  /// Reserves space in a block that is not allocated yet, for a gradient or for other numbers to sum. Returns its
  /// offset.
  std::size_t take_room(bool is_double, std::size_t bytes) {
    const std::size_t begin = block_bytes_[is_double];
    block_bytes_[is_double] += (bytes + alignment - 1) / alignment * alignment;
    return begin;
  }
  void take_room(std::size_t variable) {
    offsets_[variable] = take_room(variables_[variable].is_double(), variables_[variable].bytes());
  }
  /// Reserves one element for each row of a gradient of rows, positive if some worker has a gradient for the row.
  void take_room_for_rows(std::size_t variable) {
    const shared_variable& v = variables_[variable];
    marks_[variable] = take_room(v.is_double(), v.rows * size_of(v.type));
  }
  template <class Element>
  Element* row_marks(std::size_t variable) const {
    return reinterpret_cast<Element*>(blocks_[sizeof(Element) == sizeof(double)].data() + marks_[variable]);
  }

  /// Allocates the blocks for gradients that have space there and no other memory. Memory comes from
  /// `shared_block(bytes)`, or is private if that returns an empty block.
  template <class SharedBlock>
  void make_blocks(const SharedBlock& shared_block);

  /// Releases the blocks. make_blocks() allocates new ones with the same layout.
  void drop_blocks() {
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      if (offsets_[i] != none) gradients_[i] = {};
    for (const bool is_double : {false, true}) {
      blocks_[is_double] = {};
      own_blocks_[is_double] = storage();
    }
  }

  mutable_bytes block(bool is_double) const { return blocks_[is_double]; }
  template <class Element>
  std::span<Element> block() const {
    const mutable_bytes all = blocks_[sizeof(Element) == sizeof(double)];
    return {reinterpret_cast<Element*>(all.data()), all.size() / sizeof(Element)};
  }
  /// Returns the variable whose gradient contains this byte of a block, or the number of variables if there is none.
  std::size_t variable_at(bool is_double, std::size_t byte) const;
  std::size_t offset_of(std::size_t variable) const { return offsets_[variable]; }
  std::size_t room_taken(bool is_double) const { return block_bytes_[is_double]; }

  const std::vector<mutable_bytes>& all() const { return gradients_; }
  mutable_bytes& operator[](std::size_t variable) { return gradients_[variable]; }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  const shared_variables& variables_;
  std::vector<part> parts_;
  std::vector<mutable_bytes> gradients_;  // by variable
  std::vector<std::size_t> offsets_;      // in the block of the element type
  std::vector<std::size_t> marks_;        // in the same block, for gradients of rows
  std::size_t block_bytes_[2] = {0, 0};
  mutable_bytes blocks_[2];  // of float and of double variables
  storage own_blocks_[2];
};

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL void* gradient_buffers::place(std::size_t number, const shape& extents) {
  part& p = parts_[number];
  if (p.whole) return gradients_[p.variable].data();
  p.count = extents.elements();
  const std::size_t bytes = p.count * size_of(variables_.of().info(p.what).type);
  if (p.came.size() < bytes || p.came.size() == 0) p.came = aligned_bytes(bytes + bytes / 4 + 64);
  return p.came.data();
}

WEFT_DISTRIBUTED_DECL std::size_t gradient_buffers::variable_at(bool is_double, std::size_t byte) const {
  std::size_t i = 0;
  while (i < gradients_.size() && (variables_[i].is_double() != is_double || offsets_[i] == none ||
                                   byte < offsets_[i] || byte >= offsets_[i] + variables_[i].bytes()))
    ++i;
  return i;
}
#endif

template <class F>
void gradient_buffers::for_each_by_rows(const F& f) const {
  for (std::size_t p = 0; p < parts_.size();) {
    const std::size_t i = parts_[p].variable;
    std::size_t end = p + 1;
    while (end < parts_.size() && parts_[end].variable == i) ++end;
    if (variables_[i].has_rows()) f(i, p, end);
    p = end;
  }
}

template <class SharedBlock>
void gradient_buffers::make_blocks(const SharedBlock& shared_block) {
  const auto needs_room = [&](std::size_t i) { return gradients_[i].empty() && offsets_[i] != none; };
  bool needed[2] = {false, false};
  for (std::size_t i = 0; i < gradients_.size(); ++i) needed[variables_[i].is_double()] |= needs_room(i);
  for (const bool is_double : {false, true}) {
    const std::size_t bytes = block_bytes_[is_double];
    mutable_bytes& block = blocks_[is_double];
    if (!needed[is_double]) continue;
    block = shared_block(bytes);
    if (!block.empty()) continue;
    own_blocks_[is_double] = storage(bytes);
    block = {own_blocks_[is_double].data(), bytes};
    __builtin_memset(block.data(), 0, bytes);
  }
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (needs_room(i)) gradients_[i] = blocks_[variables_[i].is_double()].subspan(offsets_[i], variables_[i].bytes());
}

}  // namespace weft::detail

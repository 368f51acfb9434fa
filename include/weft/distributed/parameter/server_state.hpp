// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/message_fields.hpp>
#include <weft/distributed/parameter/cluster_state.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft::detail {

/// The state that parameter servers keep in addition to the values of their variables.
struct server_state {
  struct slots_of_variable {
    aligned_bytes arrays;         // array slots, one after another
    std::vector<double> numbers;  // the scalar slots
  };
  std::vector<slots_of_variable> slots;  // one per variable of the list
  cluster_state cluster;
};

// One parameter server's state ends with its scalar slots and its cluster_state, after the values and array slots.

inline constexpr std::size_t cluster_state_bytes(std::size_t workers) { return 8 + 8 + 4 + workers * 8; }

/// Returns the size of one parameter server's share of a checkpoint, in bytes.
inline std::size_t checkpoint_bytes(const parameter_store& store, std::size_t workers) {
  return store.state_bytes() + 8 * store.scalar_slots() + cluster_state_bytes(workers);
}

/// The end of one parameter server's state, after its values and arrays.
struct state_end {
  std::vector<double> scalars;  // scalar slots of its variables; readers know their number
  cluster_state place;          // progress of the training

  void fields(message_fields& io) {
    constexpr std::int64_t far = std::int64_t{1} << 62;
    for (double& x : scalars) io.real(x);
    io.number(place.global_step, 0, far).number(place.last_step, -1, far).number(place.unit);
    io.for_each_peer(place.newest, [&](std::int64_t& step) { io.number(step, -1, far); });
  }
  std::vector<std::byte> bytes(std::size_t workers) && {
    place.newest.resize(workers, -1);
    return write_message(std::move(*this));
  }
  static state_end read(const_bytes from, std::size_t scalars, std::size_t workers) {
    return read_message(from, workers, state_end{std::vector<double>(scalars), {}});
  }
};

/// Merges another parameter server's progress into `all`.
inline void merge_cluster_state(cluster_state& all, const cluster_state& its) {
  all.last_step = std::max(all.last_step, its.last_step);
  all.unit = std::max(all.unit, its.unit);
  for (std::size_t w = 0; w < all.newest.size(); ++w) all.newest[w] = std::max(all.newest[w], its.newest[w]);
}

// The end of the state of a server that holds the variables `held`.

inline std::size_t scalar_state_bytes(const server_state& state, std::span<const std::size_t> held,
                                      std::size_t workers) {
  std::size_t numbers = 0;
  for (const std::size_t i : held) numbers += state.slots[i].numbers.size();
  return 8 * numbers + cluster_state_bytes(workers);
}

inline std::vector<std::byte> scalar_state(const server_state& state, std::span<const std::size_t> held,
                                           std::size_t workers) {
  state_end end{{}, state.cluster};
  for (const std::size_t i : held)
    end.scalars.insert(end.scalars.end(), state.slots[i].numbers.begin(), state.slots[i].numbers.end());
  return std::move(end).bytes(workers);
}

/// Writes the scalar slots to `state`, and returns the server's progress in the training.
inline cluster_state read_scalar_state(const_bytes bytes, server_state& state, std::span<const std::size_t> held,
                                       std::size_t workers) {
  state_end end = state_end::read(bytes, (bytes.size() - cluster_state_bytes(workers)) / 8, workers);
  const double* from = end.scalars.data();
  for (const std::size_t i : held)
    for (double& x : state.slots[i].numbers) x = *from++;
  return std::move(end.place);
}

}  // namespace weft::detail

#pragma pop_macro("slots")

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/parameter/cluster_state.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft::detail {

/// The state that parameter servers keep beside the values of their variables.
struct server_state {
  struct slots_of_variable {
    aligned_bytes arrays;         // one after the other
    std::vector<double> numbers;  // the scalar slots
  };
  std::vector<slots_of_variable> slots;  // of each variable of the list
  cluster_state cluster;
};

// Behind the values and the slots beside them, one parameter server's state has its scalar slots and this.

inline constexpr std::size_t cluster_state_bytes(std::size_t workers) { return 8 + 8 + 4 + workers * 8; }

/// The number of bytes that one parameter server's share of a checkpoint takes.
inline std::size_t checkpoint_bytes(const parameter_store& store, std::size_t workers) {
  return store.state_bytes() + 8 * store.scalar_slots() + cluster_state_bytes(workers);
}

inline void write_cluster_state(message_writer& out, const cluster_state& s, std::size_t workers) {
  out.number(s.global_step).number(s.last_step).number(s.unit);
  for (std::size_t w = 0; w < workers; ++w) out.number(w < s.newest.size() ? s.newest[w] : std::int64_t{-1});
}

inline cluster_state read_cluster_state(message_reader& in, std::size_t workers) {
  constexpr std::int64_t max = std::int64_t{1} << 62;
  cluster_state s;
  s.global_step = in.number<std::int64_t>();
  s.last_step = in.number<std::int64_t>();
  s.unit = in.number<std::uint32_t>();
  if (s.global_step < 0 || s.global_step > max || s.last_step < -1 || s.last_step > max) message_reader::malformed();
  for (std::size_t w = 0; w < workers; ++w) {
    s.newest.push_back(in.number<std::int64_t>());
    if (s.newest.back() < -1 || s.newest.back() > max) message_reader::malformed();
  }
  return s;
}

/// Adds another parameter server's place in the training.
inline void merge_cluster_state(cluster_state& all, const cluster_state& its) {
  all.last_step = std::max(all.last_step, its.last_step);
  all.unit = std::max(all.unit, its.unit);
  for (std::size_t w = 0; w < all.newest.size(); ++w) all.newest[w] = std::max(all.newest[w], its.newest[w]);
}

// The part of a parameter server's state that follows its values and arrays: the scalar slots of its variables, `held`,
// and its place in the training.

inline std::size_t scalar_state_bytes(const server_state& state, std::span<const std::size_t> held,
                                      std::size_t workers) {
  std::size_t numbers = 0;
  for (const std::size_t i : held) numbers += state.slots[i].numbers.size();
  return 8 * numbers + cluster_state_bytes(workers);
}

inline std::vector<std::byte> scalar_state(const server_state& state, std::span<const std::size_t> held,
                                           std::size_t workers) {
  message_writer out;
  for (const std::size_t i : held)
    for (const double x : state.slots[i].numbers) out.real(x);
  write_cluster_state(out, state.cluster, workers);
  return out.take();
}

/// Writes the scalar slots to `state`, and returns the server's place in the training.
inline cluster_state read_scalar_state(const_bytes bytes, server_state& state, std::span<const std::size_t> held,
                                       std::size_t workers) {
  message_reader in(bytes);
  for (const std::size_t i : held)
    for (double& x : state.slots[i].numbers) x = in.real();
  cluster_state its = read_cluster_state(in, workers);
  in.end();
  return its;
}

}  // namespace weft::detail

#pragma pop_macro("slots")

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>

namespace weft {

/// Where a cluster's training is, beside the values of its variables: what its checkpoints have and those of one
/// process do not.
struct cluster_state {
  std::int64_t global_step = 0;
  std::int64_t last_step = -1;  // the number of the last update that all workers have made together
  std::uint32_t unit = 0;       // of how many examples what counts 1 is the mean; 0: not known yet
  /// How far each worker's updates are in the values, so that none is applied twice.
  std::vector<std::uint64_t> incarnations = {};
  std::vector<std::int64_t> newest = {};

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & global_step & last_step & unit & incarnations & newest;
  }
};

namespace detail {

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

inline constexpr std::size_t cluster_state_bytes(std::size_t workers) { return 8 + 8 + 4 + workers * 16; }

inline void write_cluster_state(message_writer& out, const cluster_state& s, std::size_t workers) {
  out.number(s.global_step).number(s.last_step).number(s.unit);
  for (std::size_t w = 0; w < workers; ++w) {
    out.number(w < s.incarnations.size() ? s.incarnations[w] : std::uint64_t{0});
    out.number(w < s.newest.size() ? s.newest[w] : std::int64_t{-1});
  }
}

inline cluster_state read_cluster_state(message_reader& in, std::size_t workers) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  cluster_state s;
  s.global_step = in.number<std::int64_t>();
  s.last_step = in.number<std::int64_t>();
  s.unit = in.number<std::uint32_t>();
  if (s.global_step < 0 || s.global_step > most || s.last_step < -1 || s.last_step > most) message_reader::malformed();
  for (std::size_t w = 0; w < workers; ++w) {
    s.incarnations.push_back(in.number<std::uint64_t>());
    s.newest.push_back(in.number<std::int64_t>());
    if (s.newest.back() < -1 || s.newest.back() > most) message_reader::malformed();
  }
  return s;
}

}  // namespace detail
}  // namespace weft

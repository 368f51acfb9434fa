// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/data/element_count.hpp>
#include <weft/data/stage.hpp>

/// The functions that create a dataset's stages. Stages are untyped; dataset.hpp adds the types.
WEFT_COLD_BEGIN
namespace weft::data::detail {

inline std::size_t as_size(std::uint64_t count) { return count; }

/// The bytes of one entry, a number of any type.
struct entry_bytes {
  std::byte bytes[16] = {};
};

/// How elements are combined to a batch.
struct batching {
  std::size_t size = 1;
  bool drop_remainder = false;
  /// Null, or `pad_batch` for padded batches. A pointer, so that other programs do not compile it.
  void (*pad)(const batching&, const sequence<feature>&, sequence<element>&, std::size_t, element&) = nullptr;
  sequence<entry_bytes> padding = {};  ///< for each feature, the entry to pad with; empty: zeros
};

/// Combines `count` elements of different extents, padded along every axis to the largest, to a batch.
void pad_batch(const batching& how, const sequence<feature>& features, sequence<element>& elements, std::size_t count,
               element& batch);

/// A function that selects elements.
class predicate : public ref_counted {
 public:
  virtual bool operator()(const element&) const = 0;
};

stage_ptr new_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::uint64_t first_epoch);
stage_ptr new_buffer_shuffled_stage(stage_ptr upstream, std::uint64_t seed, std::size_t capacity);
/// Every `step`-th element, beginning with the `first`; at most `most` of them.
stage_ptr new_selected_stage(stage_ptr upstream, std::uint64_t first, std::uint64_t step, std::uint64_t most);
stage_ptr new_batch_stage(stage_ptr upstream, sequence<feature> features, batching how);
stage_ptr new_mapped_stage(stage_ptr upstream, sequence<feature> features, intrusive_ptr<const change> f, int threads);
stage_ptr new_filtered_stage(stage_ptr upstream, intrusive_ptr<const predicate> f);
stage_ptr new_zipped_stage(stage_ptr a, stage_ptr b);
stage_ptr new_repeated_stage(stage_ptr upstream, std::uint64_t times);
stage_ptr new_cached_stage(stage_ptr upstream);
/// If `count` is `all_elements`, produces two elements ahead for each thread.
stage_ptr new_prefetched_stage(stage_ptr upstream, std::uint64_t count);

/// Returns the number of elements in an epoch. Throws failed_precondition if it is unknown.
std::size_t known_size(const stage& s);
stage_ptr new_shard(stage_ptr upstream, element_count index, element_count count);
/// Returns the number of elements in the first part.
std::size_t size_of_share(const stage& s, double share);

}  // namespace weft::data::detail

WEFT_COLD_END

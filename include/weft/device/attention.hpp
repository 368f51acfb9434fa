// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/compiler.hpp>

namespace weft::device {

/// The extents and options of an attention: queries [batch, heads, queries, width], keys [batch, kv_heads, keys, width]
/// and values [batch, kv_heads, keys, value_width]. The heads that share keys are adjacent, so that the queries of
/// `heads / kv_heads` heads are consecutive `rows`.
struct attention_problem {
  std::int64_t batch, heads, kv_heads, queries, keys, width, value_width;
  std::int64_t mask_steps[4];  ///< distances of the mask's elements along batch, heads, queries and keys
  std::int64_t window;
  double scale;
  bool causal, alibi, positions_differ;

  /// The keys [begin, end) to which a query attends.
  struct range {
    std::int64_t begin, end;
  };

  WEFT_HOST_DEVICE std::int64_t groups() const { return batch * kv_heads; }
  WEFT_HOST_DEVICE std::int64_t rows() const { return kv_heads == 0 ? 0 : heads / kv_heads * queries; }
  WEFT_HOST_DEVICE std::int64_t head(std::int64_t group, std::int64_t row) const {
    return group % kv_heads * (heads / kv_heads) + row / queries;
  }
  /// Returns the place among the keys of a query of example b.
  WEFT_HOST_DEVICE std::int64_t place(std::int64_t b, std::int64_t query, const std::int32_t* positions) const {
    return query + (positions ? positions[positions_differ ? b : 0] : 0);
  }
  WEFT_HOST_DEVICE range attended(std::int64_t b, std::int64_t place, const std::int32_t* lengths) const {
    range r{0, keys};
    if (lengths && lengths[b] < r.end) r.end = lengths[b];
    if (causal && place + 1 < r.end) r.end = place + 1;
    if (window > 0 && place - window >= 0) r.begin = place - window + 1;
    if (r.end < 0) r.end = 0;
    if (r.begin > r.end) r.begin = r.end;
    return r;
  }
  WEFT_HOST_DEVICE std::int64_t mask_at(std::int64_t b, std::int64_t head, std::int64_t query) const {
    return b * mask_steps[0] + head * mask_steps[1] + query * mask_steps[2];
  }
  /// Returns the slope of a head's bias: 2^(-8 (head + 1) / heads) (Press et al., ICLR 2022).
  double slope(std::int64_t head) const {
    return alibi ? __builtin_exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(heads)) : 0;
  }
};

}  // namespace weft::device

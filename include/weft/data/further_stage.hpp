// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <utility>

#include <weft/data/stage.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::data::detail {

/// A stage with one upstream stage.
class further_stage : public stage {
 public:
  explicit further_stage(stage_ptr upstream) : stage(upstream->features()), upstream_(std::move(upstream)) {}
  further_stage(stage_ptr upstream, sequence<feature> features)
      : stage(std::move(features)), upstream_(std::move(upstream)) {}

  optional_count size() const override { return upstream().size(); }
  bool has_rows() const override { return upstream().has_rows(); }
  thread_use threads() const override { return upstream().threads(); }

 protected:
  const stage& upstream() const { return *upstream_; }

 private:
  stage_ptr upstream_;
};

/// Saturates on overflow, because positions can come from untrusted files.
inline std::uint64_t product_of_counts(std::uint64_t a, std::uint64_t b) {
  std::uint64_t c;
  return __builtin_mul_overflow(a, b, &c) ? ~std::uint64_t{0} : c;
}
inline std::uint64_t sum_of_counts(std::uint64_t a, std::uint64_t b) { return a + smaller(b, ~a); }

}  // namespace weft::data::detail

WEFT_COLD_END
#endif

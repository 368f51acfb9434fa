// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <weft/encoding/protobuf_writer.hpp>

namespace weft {

/// Counts numbers in TensorFlow's buckets (its lib/histogram). The limits are 0 and, on both sides, 1e-12 times powers
/// of 1.1, up to 1e20; the outermost limit is the largest double.
class summary_histogram {
 public:
  /// Infinities and NaN belong to no bucket and are counted separately.
  void add(double x) {
    if (!std::isfinite(x)) {
      ++not_finite_;
      return;
    }
    const auto& all = limits();
    counts_[static_cast<std::size_t>(std::upper_bound(all.begin(), all.end() - 1, x) - all.begin())] += 1;
    smallest_ = std::min(smallest_, x);
    largest_ = std::max(largest_, x);
    ++count_;
    sum_ += x;
    sum_of_squares_ += x * x;
  }

  double not_finite() const { return not_finite_; }

  /// Encodes a HistogramProto. Adjacent empty buckets are merged.
  data::protobuf_writer message() const {
    const auto& all = limits();
    std::vector<double> ends, counts;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      const bool follows_empty = !counts.empty() && counts.back() == 0 && counts_[i] == 0;
      if (follows_empty) {
        ends.back() = all[i];
      } else {
        ends.push_back(all[i]);
        counts.push_back(counts_[i]);
      }
    }
    data::protobuf_writer m;
    m.add_number(1, smallest_);
    m.add_number(2, largest_);
    m.add_number(3, count_);
    m.add_number(4, sum_);
    m.add_number(5, sum_of_squares_);
    m.add_numbers(6, ends.data(), ends.size());
    m.add_numbers(7, counts.data(), counts.size());
    return m;
  }

  static const std::vector<double>& limits() {
    static const std::vector<double> all = [] {
      std::vector<double> positive, both;
      for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
      positive.push_back(std::numeric_limits<double>::max());
      for (auto i = positive.rbegin(); i != positive.rend(); ++i) both.push_back(-*i);
      both.push_back(0);
      both.insert(both.end(), positive.begin(), positive.end());
      return both;
    }();
    return all;
  }

 private:
  std::vector<double> counts_ = std::vector<double>(limits().size());
  double smallest_ = std::numeric_limits<double>::max(), largest_ = std::numeric_limits<double>::lowest();
  double count_ = 0, sum_ = 0, sum_of_squares_ = 0, not_finite_ = 0;
};

}  // namespace weft

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/distributed/parameter/row_lists.hpp>

namespace weft::detail {

/// The rows of one variable that changed last, so that a worker with an earlier state of the variable needs only these
/// rows. A state is identified by the number of row changes before it.
///
/// Invariant: the remembered rows are the last of the count() changes.
class row_changes {
 public:
  /// Number of row changes; a row counts each time that it changes.
  std::uint64_t count() const { return before_ + rows_.size(); }

  /// Adds changed rows. Remembers at least the last `enough` rows and at most twice as many, but none if more than
  /// `enough` rows change at once.
  void add(const row_list& changed, std::size_t enough) {
    if (changed.count > enough) {
      before_ += rows_.size() + changed.count;
      rows_.clear();
      return;
    }
    for (std::size_t k = 0; k < changed.count; ++k) rows_.push_back(static_cast<std::int64_t>(changed.number(k)));
    if (rows_.size() <= 2 * enough) return;
    const std::size_t forgotten = rows_.size() - enough;
    rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(forgotten));
    before_ += forgotten;
  }

  /// Forgets all changes, because all values have been replaced.
  void forget() {
    before_ += rows_.size() + 1;
    rows_.clear();
  }

  /// Writes the rows that have changed since the state `known` to `rows`, ascending and each once. Returns false if
  /// they are no longer remembered.
  bool since(std::uint64_t known, std::vector<std::int64_t>& rows) const {
    if (known < before_) return false;
    rows.assign(rows_.begin() + static_cast<std::ptrdiff_t>(known - before_), rows_.end());
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return true;
  }

 private:
  std::vector<std::int64_t> rows_;  // in order of change
  std::uint64_t before_ = 0;        // number of changes before these
};

}  // namespace weft::detail

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/distributed/parameter/row_lists.hpp>

namespace weft::detail {

/// The rows of one variable that were changed last, so that whoever knows an earlier state needs these rows only. A
/// state is named by how many rows had been changed before it.
///
/// Invariant: the rows that are remembered are the last ones of count().
class row_changes {
 public:
  /// How many rows have been changed so far, a row counting each time.
  std::uint64_t count() const { return before_ + rows_.size(); }

  /// Adds rows. At least the last `enough` rows are remembered, at most twice as many.
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

  /// All values are others now: no earlier state is of use.
  void forget() {
    before_ += rows_.size() + 1;
    rows_.clear();
  }

  /// Finds the rows that have changed since the state `known`, in order and each once; returns false where they are not
  /// remembered any more.
  bool since(std::uint64_t known, std::vector<std::int64_t>& rows) const {
    if (known < before_) return false;
    rows.assign(rows_.begin() + static_cast<std::ptrdiff_t>(known - before_), rows_.end());
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return true;
  }

 private:
  std::vector<std::int64_t> rows_;  // in the order in which they were changed
  std::uint64_t before_ = 0;        // how many had been changed before these
};

}  // namespace weft::detail

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/graph/graph.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/tensor.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Values of named dynamic extents.
class extent_bindings {
 public:
  void bind(std::int64_t code, std::int64_t size) { known_.push_back({code, size}); }
  const std::int64_t* find(std::int64_t code) const {
    for (const auto& k : known_)
      if (k.first == code) return &k.second;
    return nullptr;
  }
  /// The extents with sizes in place of names. Throws failed_precondition for a name that has none, and
  /// resource_exhausted for more elements than any memory holds.
  shape resolve(const graph& g, const std::string& who, shape s) const {
    for (std::size_t i = 0; i < s.rank; ++i) {
      if (s[i] >= 0) continue;
      const std::int64_t* size = find(s[i]);
      if (!size)
        throw error(error_code::failed_precondition, who,
                    {"the extent ", g.extent_name(s[i]), " is not known: feed a value that has it, or g.set(dyn<\"",
                     g.extent_name(s[i]), "\">, n)"});
      s[i] = *size;
    }
    detail::checked_bytes(who.c_str(), s, sizeof(double));
    return s;
  }

 private:
  sequence<std::pair<std::int64_t, std::int64_t>> known_;
};

}  // namespace weft

WEFT_COLD_END

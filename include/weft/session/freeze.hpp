// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/session/freeze_options.hpp>
#include <weft/session/frozen_folding.hpp>
#include <weft/session/frozen_writer.hpp>
#include <weft/session/session.hpp>

WEFT_COLD_BEGIN
namespace weft {

namespace detail {

/// Writes the frozen step of a request.
inline void freeze_step(const std::string& path, session& s, plan::step_request request, freeze_options o) {
  if (!request.targets.empty())
    throw error(error_code::unimplemented, "freeze", "a frozen model has no effects: fetch only values");
  if (o.name.empty()) {
    o.name = path.substr(path.rfind('/') + 1);
    o.name = o.name.substr(0, o.name.find('.'));
    if (o.name.empty()) o.name = "model";
  }
  const std::size_t feeds = request.feeds.size();
  frozen_folding folding(s.resources(), s.of(), request);
  if (!folding.request.fetches.empty()) {
    prepared_step once(s, folding.request);
    once.run(nullptr, [&](std::size_t i, const shape& extents) { return folding.place(i, extents); });
    request.feeds.append(folding.request.fetches.begin(), folding.request.fetches.size());
  }
  frozen_writer writer(s.resources(), s.of(), std::move(request), feeds, folding.values, std::move(o));
  writer.write(path);
}

}  // namespace detail

/// Writes a step as one C++ header, whose function `predict` computes the fetched values from the fed ones. The header
/// contains the weights and the plan of the step's memory; it needs only <weft/frozen.hpp> and the C++ standard
/// library, has no graph and no session, allocates nothing, starts no thread, and works without exceptions:
///
///     freeze("digits.hpp", s, fetch(probabilities), feed(images));
///
/// Feeds have static extents, except for one named extent, whose maximum is `freeze_options::most`. The state of a
/// recurrent model is a feed and a fetch. See docs/how-to/freeze.md. Throws unimplemented if a kernel has no frozen
/// form, failed_precondition if a variable has no value, and unavailable if the file cannot be written.
template <class... F, class... P>
void freeze(const std::string& path, session& s, const fetch_list<F...>& fetches, const feed_list<P...>& feeds,
            freeze_options options = {}) {
  detail::freeze_step(path, s, detail::request_of(fetches, feeds), std::move(options));
}

}  // namespace weft
WEFT_COLD_END

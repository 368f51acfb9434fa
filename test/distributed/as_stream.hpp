// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <weft/transport/any_transport.hpp>

namespace test {

/// A stream of bytes that no transport knows: it can be read and written, and not be waited for.
template <weft::byte_stream S>
weft::any_transport::stream as_stream(S its) {
  struct stream final : weft::detail::network_stream {
    S of;
    explicit stream(S native) : of(std::move(native)) {}
    std::size_t read_some(std::span<const weft::mutable_bytes> into) override { return of.read_some(into); }
    std::size_t write_some(std::span<const weft::const_bytes> from) override { return of.write_some(from); }
    bool is_open() const override { return of.is_open(); }
    void close() override { of.close(); }
    void write_wait_item(void*, bool, bool) const override { std::abort(); }
    weft::owned<weft::detail::network_watch> watch(weft::detail::network_loop&, handler) const override {
      std::abort();
    }
  };
  return weft::any_transport::stream(weft::owned<weft::detail::network_stream>(new stream(std::move(its))));
}

}  // namespace test

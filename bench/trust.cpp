// SPDX-License-Identifier: BSL-1.0
// Times messages between two threads over loopback: plain (with a checksum), with tags, encrypted. Each message is
// answered by a header. Prints JSON objects, for each case that of plain messages as a peer's; medians of alternating
// rounds.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <vector>
#include <weft/distributed/parameter/parameter_service.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/tcp.hpp>

#if defined(WEFT_HAS_OPENSSL)
  #include "../test/distributed/certificates.hpp"
#endif
#include "timing.hpp"

using namespace weft;

namespace {

struct pair_of_streams {
  any_transport network = tcp();
  any_transport::stream here, there;

  explicit pair_of_streams(const std::optional<tls_credentials>& tls, bool has_tags) {
    if (tls) network.use_tls(*tls);
    any_transport::listener door = network.listen({"127.0.0.1", 0});
    here = network.connect(door.address());
    while (!door.accept(there)) {
    }
    if (!has_tags) return;
    std::array<std::byte, 20> one{std::byte{1}}, other{std::byte{2}};
    here.authenticate(one, other);
    there.authenticate(other, one);
  }
};

void move_frame(any_transport& network, any_transport::stream& by, frame_writer& out, frame_reader& in) {
  waiter idle(network, wait_policy::for_tasks(2));
  while (!out.idle() || !in.complete()) {
    const std::size_t moved = (out.idle() ? 0 : out.advance(by)) + in.advance(by);
    any_transport::wait_item item{&by, true, !out.idle()};
    moved > 0 ? idle.moved() : static_cast<void>(idle.pause({&item, 1}, deadline(std::chrono::seconds(10))));
  }
}

/// Seconds for one message, the median of this round.
double round(const std::optional<tls_credentials>& tls, bool has_tags, std::size_t bytes, double seconds) {
  pair_of_streams both(tls, has_tags);
  const std::vector<std::byte> payload(bytes, std::byte{7});
  std::atomic<bool> ends{false};
  std::thread answers([&] {
    std::vector<std::byte> received(bytes);
    const mutable_bytes whole(received);
    frame_header header;
    header.kind = frame_kind::acknowledge;
    try {
      for (frame_writer out;;) {
        frame_reader in;
        in.expect({&whole, 1});
        move_frame(both.network, both.there, out, in);
        out.start(header);
        while (!out.idle()) out.advance(both.there);
      }
    } catch (const error&) {  // the other side has closed
    }
  });
  frame_header header;
  header.kind = frame_kind::values;
  const auto send = [&] {
    frame_writer out;
    frame_reader in;
    out.start(header, const_bytes(payload));
    in.expect(std::span<const mutable_bytes>{});
    move_frame(both.network, both.here, out, in);
  };
  const double each = bench::time({.seconds = seconds, .warm_up = 20}, send).median;
  both.here.close();
  answers.join();
  return each;
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 0.3);
  const int rounds = a.take("--rounds", 9);
  a.finish("bench_trust [--seconds S] [--rounds N]");
  std::optional<tls_credentials> tls;
#if defined(WEFT_HAS_OPENSSL)
  const test::authority authority;
  tls = authority.credentials("all", "URI:weft:/job:worker");
#endif
  const std::array<const char*, 3> names{"plain", "authenticated", "tls"};
  for (const std::size_t bytes : {std::size_t{1'000}, std::size_t{1'000'000}, std::size_t{16'000'000}}) {
    std::array<std::vector<double>, 3> times;
    for (int i = 0; i < rounds; ++i)
      for (std::size_t how = 0; how < (has_openssl ? 3u : 1u); ++how)
        times[how].push_back(round(how == 2 ? tls : std::nullopt, how == 1, bytes, seconds));
    for (std::size_t how = 0; how < times.size(); ++how) {
      if (how == 0 || times[how].empty() || times[0].empty()) continue;
      for (const std::size_t which : {std::size_t{0}, how}) {
        const double each = bench::summarise(times[which]).median;
        std::printf("{\"peer\": \"%s\", \"trust\": \"%s\", \"bytes\": %zu, \"us\": %.1f, \"GBs\": %.2f}\n",
                    which == 0 ? "plain" : "weft", names[how], bytes, each * 1e6,
                    static_cast<double>(bytes) / each * 1e-9);
      }
      std::fflush(stdout);
    }
  }
}

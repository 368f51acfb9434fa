// SPDX-License-Identifier: BSL-1.0
// How tasks prove to each other that they belong together, and where their secret comes from.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/membership/views/view_message.hpp>
#include <weft/distributed/parameter/enroll_message.hpp>
#include <weft/distributed/parameter/server_state.hpp>
#include <weft/distributed/parameter/shards/shard_messages.hpp>
#include <weft/distributed/parameter/steps/squares_message.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/transport/in_process.hpp>

#include "as_stream.hpp"
#include "errors.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

/// Bytes that one side has sent and the other has not read yet.
struct wire {
  std::vector<std::byte> bytes;
  bool closed = false;
};

/// One end of two wires, both in this thread; it takes and gives at most `most` bytes at a time.
class end_of_wires {
 public:
  end_of_wires() = default;
  end_of_wires(wire& in, wire& out, std::size_t most = 1 << 20) : in_(&in), out_(&out), most_(most) {}

  std::size_t read_some(std::span<const mutable_bytes> into) {
    if (in_->bytes.empty() && in_->closed) throw error(error_code::unavailable, "", "closed");
    const std::size_t n = std::min({most_, into[0].size(), in_->bytes.size()});
    std::copy_n(in_->bytes.begin(), n, into[0].begin());
    in_->bytes.erase(in_->bytes.begin(), in_->bytes.begin() + static_cast<std::ptrdiff_t>(n));
    return n;
  }
  std::size_t write_some(std::span<const const_bytes> from) {
    if (out_->closed) throw error(error_code::unavailable, "", "closed");
    const std::size_t n = std::min(most_, from[0].size());
    out_->bytes.insert(out_->bytes.end(), from[0].begin(), from[0].begin() + static_cast<std::ptrdiff_t>(n));
    return n;
  }
  bool is_open() const { return in_ != nullptr; }
  void close() { in_ = nullptr; }

 private:
  wire *in_ = nullptr, *out_ = nullptr;
  std::size_t most_ = 0;
};

using talk_type = detail::handshake;
static_assert(!std::is_move_constructible_v<talk_type>);  // the bytes that it sends lie in it
using phase = talk_type::phase;

detail::handshake_nonce nonce(int seed) {
  detail::handshake_nonce made;
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::byte>(seed * 131 + static_cast<int>(i) * 7);
  return made;
}

const std::string listener = "/job:ps/task:0";

detail::introduction worker_one() {
  detail::introduction said;
  said.library_version = "the version";
  said.cluster = "ps=the.cluster:1";
  said.from = {"worker", 1};
  said.to = {"ps", 0};
  said.incarnation = 77;
  said.channel = "the channel";
  return said;
}
detail::introduction ps_zero() {
  detail::introduction said = worker_one();
  std::swap(said.from, said.to);
  said.incarnation = 99;
  return said;
}

/// A whole handshake. `between(from_dialler, to_dialler)` may change what is on the wires, between any two moves.
struct play {
  wire to_listener, to_dialler;
  talk_type dialler, listener_side;
  std::string trouble;  // an error of either side

  explicit play(std::string_view dialler_secret = "a secret of many bytes",
                std::string_view listener_secret = "a secret of many bytes", std::size_t most = 1 << 20)
      : dialler(talk_type::dialling(test::as_stream(end_of_wires(to_dialler, to_listener, most)),
                                    cluster_secret(dialler_secret).proof(), nonce(1))),
        listener_side(talk_type::listening(test::as_stream(end_of_wires(to_listener, to_dialler, most)),
                                           cluster_secret(listener_secret).proof(), nonce(2), listener)) {}

  void run(const std::function<void(play&)>& between = [](play&) {}, bool refuses = false) {
    for (int moves = 0; moves < 5000; ++moves) {
      go_on(dialler, [&] {
        if (dialler.at() != phase::challenged) return;
        if (!dialler.proves(listener)) throw error(error_code::unauthenticated, "", "dialler: no proof");
        dialler.introduce(worker_one());
      });
      between(*this);
      go_on(listener_side, [&] {
        if (listener_side.at() != phase::introduced) return;
        if (refuses)
          listener_side.reject(error(error_code::failed_precondition, "", "not today"));
        else
          listener_side.welcome(ps_zero());
      });
      between(*this);
      if (!trouble.empty() || (dialler.at() == phase::over && listener_side.at() == phase::over)) return;
    }
  }

  template <typename Then>
  void go_on(talk_type& side, Then then) {
    try {
      if (side.at() == phase::over) return;
      side.advance();
      then();
    } catch (const error& problem) {
      trouble += std::string(name(problem.code())) + " ";
      to_listener.closed = to_dialler.closed = true;
    }
  }

  bool both_met() const {
    return trouble.empty() && dialler.other() && listener_side.other() && dialler.other()->incarnation == 99 &&
           listener_side.other()->incarnation == 77 && listener_side.other()->channel == "the channel";
  }
};

bool appears(const std::vector<std::byte>& in, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return std::search(in.begin(), in.end(), bytes.begin(), bytes.end()) != in.end();
}

/// The types of a message's fields, as the table of messages shows them: one element of each list.
class outline final : public detail::message_fields {
 public:
  outline() : message_fields(1) {}

  template <typename Message>
  static std::string of() {
    outline all;
    Message message;
    message.fields(all);
    return all.words_;
  }

  message_fields& text(std::string&, std::size_t) override { return add("text"); }
  message_fields& bytes(std::vector<std::byte>&, std::uint64_t, unsigned) override { return add("bytes"); }
  message_fields& rest(const_bytes&) override { return add("rest"); }
  message_fields& must_hold(bool) override { return *this; }
  std::size_t count(std::size_t, std::uint64_t, unsigned) override { return 1; }

 private:
  std::uint64_t word(std::uint64_t, const number_type& type) override {
    add(std::string(1, type.kind) + std::to_string(8 * type.width));
    return 1;
  }
  void mark(const char* bracket) override { add(bracket); }
  outline& add(const std::string& word) {
    words_ += (words_.empty() ? "" : " ") + word;
    return *this;
  }

  std::string words_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(tasks_that_know_the_secret_meet_however_the_bytes_come) {
  for (const std::size_t most : {1u, 3u, 64u, 1u << 20}) {
    play all("a secret of many bytes", "a secret of many bytes", most);
    all.run();
    BOOST_TEST(all.both_met());
    play none("a secret of many bytes", "a secret of many bytes", most);
    none.run([](play&) {}, true);
    BOOST_TEST(none.trouble == "");
    BOOST_REQUIRE(none.dialler.refusal());
    CHECK_SAYS(none.dialler.refusal()->what(), "not today");
    BOOST_TEST(!none.dialler.other());
  }
}

BOOST_AUTO_TEST_CASE(who_does_not_know_the_secret_is_told_nothing) {
  std::vector<std::byte> heard;
  const auto listen = [&](play& all) {
    heard.insert(heard.end(), all.to_listener.bytes.begin(), all.to_listener.bytes.end());
    heard.insert(heard.end(), all.to_dialler.bytes.begin(), all.to_dialler.bytes.end());
  };
  play other("another secret of many bytes", "a secret of many bytes");
  other.run(listen);
  CHECK_SAYS(other.trouble, "unauthenticated");
  BOOST_TEST(!other.listener_side.other());
  BOOST_TEST(!other.dialler.other());
  for (const char* told : {"worker", "the version", "the.cluster", "the channel"}) BOOST_TEST(!appears(heard, told));
  play same;
  heard.clear();
  same.run(listen);
  BOOST_TEST(appears(heard, "the.cluster"));  // so the words would have been found
}

// One bit anywhere, in either direction: the two do not meet, or meet as if nothing had been. The frames' checksums
// notice most of it; so they are mended here, as whoever changes something on purpose would.
BOOST_AUTO_TEST_CASE(a_lie_in_any_field_is_found) {
  std::size_t found = 0;
  for (const bool from_dialler : {true, false})
    for (const std::size_t frame : {0u, 1u})
      for (std::size_t at = 64; at < 64 + 220; at += 1) {
        std::size_t seen = 0;
        bool done = false, lied = false;
        play all;
        all.run([&](play& now) {
          auto& bytes = (from_dialler ? now.to_listener : now.to_dialler).bytes;
          if (bytes.empty() || done || seen++ != frame) return;
          done = true;
          if (at >= bytes.size()) return;
          bytes[at] ^= std::byte{1};
          detail::put_little(bytes.data() + 12, crc32c(std::span(bytes).subspan(64)));
          detail::put_little(bytes.data() + detail::header_crc_at,
                             crc32c(std::span(bytes).first(detail::header_crc_at)));
          lied = true;
        });
        if (!lied) continue;
        BOOST_TEST_INFO((from_dialler ? "from the dialler, frame " : "from the listener, frame ")
                        << frame << ", byte " << at);
        BOOST_TEST(!all.both_met());
        ++found;
      }
  BOOST_TEST(found > 350u);
}

BOOST_AUTO_TEST_CASE(every_cut_ends_it) {
  for (std::size_t cut = 0; cut < 800; ++cut)
    for (const bool from_dialler : {true, false}) {
      std::size_t passed = 0;
      play all;
      all.run([&](play& now) {
        auto& to = from_dialler ? now.to_listener : now.to_dialler;
        if (to.closed || to.bytes.empty()) return;
        if (passed + to.bytes.size() > cut) {
          to.bytes.resize(cut - std::min(cut, passed));
          to.closed = true;
        }
        passed += to.bytes.size();
      });
      if (all.trouble.empty()) BOOST_REQUIRE(all.both_met());  // nothing was left to cut
      if (cut < 64) BOOST_REQUIRE(!all.both_met());
    }
}

// Somebody without the secret who listens in the place of a task, and passes everything on to another one that knows
// it.
BOOST_AUTO_TEST_CASE(a_proof_is_of_no_use_in_another_place) {
  wire a, b, c, d;
  const hmac_sha256 proof = cluster_secret("a secret of many bytes").proof();
  talk_type dialler = talk_type::dialling(test::as_stream(end_of_wires(b, a)), proof, nonce(1));
  talk_type other = talk_type::listening(test::as_stream(end_of_wires(c, d)), proof, nonce(2), "/job:worker/task:0");
  dialler.advance();
  c.bytes.swap(a.bytes);  // the hello, to a task that was not meant
  other.advance();
  b.bytes.swap(d.bytes);
  dialler.advance();
  BOOST_REQUIRE(dialler.at() == phase::challenged);
  BOOST_TEST(!dialler.proves(listener));
  BOOST_TEST(dialler.proves("/job:worker/task:0"));  // which tells who it is that listens there
  BOOST_TEST(dialler.knows_secret());
  // The other learns from a proof that the secret is not the reason, and the wires carry no word of either task.
  dialler.reject(error(error_code::failed_precondition, "", "/job:worker/task:0 is not the task that was meant"));
  BOOST_TEST(!appears(a.bytes, "meant"));
  c.bytes.swap(a.bytes);
  BOOST_CHECK_EXCEPTION(other.advance(), error,
                        test::says(error_code::failed_precondition,
                                   "a task with the same secret expected a task other than /job:worker/task:0"));
}

// Without the secret there is no proof of it, and a rejection that anybody could have sent is not one either.
BOOST_AUTO_TEST_CASE(another_secret_is_told_from_another_name) {
  wire a, b;
  talk_type dialler = talk_type::dialling(test::as_stream(end_of_wires(b, a)),
                                          cluster_secret("another secret of many bytes").proof(), nonce(1));
  talk_type other = talk_type::listening(test::as_stream(end_of_wires(a, b)),
                                         cluster_secret("a secret of many bytes").proof(), nonce(2), listener);
  dialler.advance();
  other.advance();
  dialler.advance();
  BOOST_REQUIRE(dialler.at() == phase::challenged);
  BOOST_TEST(!dialler.proves(listener));
  BOOST_TEST(!dialler.knows_secret());
  dialler.reject(error(error_code::failed_precondition, "", ""));
  BOOST_CHECK_EXCEPTION(other.advance(), error,
                        test::says(error_code::unauthenticated, "does not have this task's secret"));
}

BOOST_AUTO_TEST_CASE(what_was_overheard_once_opens_nothing) {
  std::vector<std::byte> said;
  play first;
  first.run([&](play& now) {
    if (now.to_listener.bytes.size() > 100) said = now.to_listener.bytes;  // the introduction, with its proof
  });
  BOOST_REQUIRE(first.both_met());
  wire in, out;
  talk_type again = talk_type::listening(test::as_stream(end_of_wires(in, out)),
                                         cluster_secret("a secret of many bytes").proof(), nonce(3), listener);
  frame_header header;
  header.kind = frame_kind::hello;
  const detail::handshake_nonce same = nonce(1);
  frame_writer hello;
  end_of_wires stranger(out, in);
  hello.start(header, const_bytes(same));
  hello.advance(stranger);
  again.advance();
  in.bytes.insert(in.bytes.end(), said.begin(), said.end());
  BOOST_CHECK_EXCEPTION(again.advance(), error, test::says(error_code::unauthenticated));
}

BOOST_AUTO_TEST_CASE(words_that_anybody_may_have_said_are_not_repeated) {
  wire in, out;
  talk_type dialler = talk_type::dialling(test::as_stream(end_of_wires(in, out)),
                                          cluster_secret("a secret of many bytes").proof(), nonce(1));
  std::vector<std::byte> words = detail::error_bytes(error_code::failed_precondition, "send your money to mallory");
  words.resize(words.size() + sizeof(sha256_digest));
  frame_header header;
  header.kind = frame_kind::refuse;
  frame_writer refusal;
  end_of_wires stranger(out, in);
  refusal.start(header, const_bytes(words));
  refusal.advance(stranger);
  std::string sentence;
  BOOST_CHECK(test::code_of([&] { dialler.advance(); }, &sentence) == error_code::unavailable);
  BOOST_TEST(!test::contains(sentence, "mallory"));
}

// ---- the secret ----

namespace {

/// A home of its own, and a process with it.
struct home {
  fs::path path = fs::temp_directory_path() / ("weft_test_home_" + std::to_string(::getpid()));
  home() { fs::create_directory(path); }
  ~home() { fs::remove_all(path); }
  fs::path file() const { return path / ".cache/weft/secret"; }

  /// The text that `body` returns in a process whose home this is.
  std::string in_process(const std::function<std::string()>& body, const char* secret = nullptr) const {
    int ends[2];
    BOOST_REQUIRE(::pipe(ends) == 0);
    const pid_t child = start(body, secret, ends[1]);
    ::close(ends[1]);
    return text(child, ends[0]);
  }

  pid_t start(const std::function<std::string()>& body, const char* secret, int to) const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::setenv("HOME", path.c_str(), 1);
    ::unsetenv("WEFT_SECRET");
    if (secret) ::setenv("WEFT_SECRET", secret, 1);
    std::string said;
    try {
      said = body();
    } catch (const error& problem) {
      said = std::string(name(problem.code())) + ": " + problem.what();
    }
    const auto written = ::write(to, said.data(), said.size());
    ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }

  static std::string text(pid_t child, int from) {
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = ::read(from, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<std::size_t>(n));
    ::close(from);
    ::waitpid(child, nullptr, 0);
    return all;
  }
};

/// Something that only who has the same secret can say.
std::string proof_of(const cluster_secret& secret) {
  const std::string text = "text";
  const sha256_digest made = secret.proof()({std::as_bytes(std::span(text))});
  return {reinterpret_cast<const char*>(made.data()), made.size()};
}

std::string own_proof() { return proof_of(cluster_secret::of_user()); }

}  // namespace

BOOST_AUTO_TEST_CASE(the_tasks_of_a_user_share_a_secret_by_themselves) {
  const home here;
  const std::string first = here.in_process(own_proof);
  BOOST_TEST(first.size() == 32u);
  BOOST_TEST(here.in_process(own_proof) == first);
  struct stat status{};
  BOOST_REQUIRE(::stat(here.file().c_str(), &status) == 0);
  BOOST_TEST((status.st_mode & 07777u) == 0600u);
  BOOST_REQUIRE(::stat(here.file().parent_path().c_str(), &status) == 0);
  BOOST_TEST((status.st_mode & 07777u) == 0700u);
  BOOST_TEST(std::distance(fs::directory_iterator(here.file().parent_path()), fs::directory_iterator()) == 1);
  BOOST_TEST(here.in_process(own_proof, "handed over by a launcher") != first);
  BOOST_TEST(here.in_process(own_proof, "handed over by a launcher") ==
             proof_of(cluster_secret("handed over by a launcher")));
  CHECK_SAYS(here.in_process(own_proof, "short"), "from WEFT_SECRET) must have at least 16 bytes; it has 5");
}

// As editors, shells and other systems leave a file: the tasks of all hosts have one secret.
BOOST_AUTO_TEST_CASE(a_secret_is_the_first_line_of_a_file_without_what_editors_add) {
  const home here;
  const auto from_file = [&](const std::string& text) {
    const fs::path file = here.path / "given";
    std::ofstream(file, std::ios::binary) << text;
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    return cluster_secret::from_file(file);
  };
  const std::string words = "the first line, 16 bytes or more", expected = proof_of(cluster_secret(words));
  for (const char* const end : {"", "\n", "\r\n", "\r", " \t\r\n", "\n\n", "\nanother line", "\r\nanother line\r\n"}) {
    BOOST_CHECK(proof_of(from_file(words + end)) == expected);
    BOOST_CHECK(here.in_process(own_proof, (words + end).c_str()) == expected);
  }
  BOOST_CHECK(proof_of(from_file("\xef\xbb\xbf" + words + "\r\n")) == expected);
  BOOST_CHECK(proof_of(from_file(" " + words)) != expected);
  // 16 bytes are enough, 15 are not, wherever they come from.
  from_file("0123456789abcdef\r\n");
  const auto short_one = [](auto make) { return test::failure(error_code::invalid_argument, make); };
  const std::string remedy =
      "must have at least 16 bytes; it has 15; weft_launch --make_secret FILE writes a random one";
  CHECK_SAYS(short_one([&] { from_file("0123456789abcde\r\n"); }), remedy);
  CHECK_SAYS(short_one([&] { from_file("0123456789abcde            "); }), remedy);
  CHECK_SAYS(short_one([&] { cluster_secret("0123456789abcde"); }), remedy);
  CHECK_SAYS(here.in_process(own_proof, "0123456789abcde  "), remedy);
  CHECK_SAYS(short_one([&] { from_file(""); }), "must have at least 16 bytes; it has 0");
  CHECK_SAYS(short_one([&] { from_file("\nthe first line, 16 bytes or more\n"); }), "has 0");
  CHECK_SAYS(short_one([&] { from_file(std::string(5000, 'x')); }), "has more than 4095 bytes");
  CHECK_SAYS(here.in_process([&] {
    ::setenv("WEFT_SECRET_FILE", (here.path / "given").c_str(), 1);
    from_file("too short\n");
    return own_proof();
  }),
             "must have at least 16 bytes; it has 9");
}

BOOST_AUTO_TEST_CASE(a_secret_file_is_made_once_and_for_its_owner_alone) {
  const home here;
  const std::string path = here.path / "made";
  const mode_t before = ::umask(0);
  cluster_secret::make_file(path);
  ::umask(0777);
  cluster_secret::make_file(path + "2");
  ::umask(before);
  struct stat status{};
  for (const std::string& each : {path, path + "2"}) {
    BOOST_REQUIRE(::stat(each.c_str(), &status) == 0);
    BOOST_TEST((status.st_mode & 07777u) == 0600u);
    BOOST_TEST(status.st_size == 65);
  }
  const std::string made = proof_of(cluster_secret::from_file(path));
  BOOST_CHECK(made != proof_of(cluster_secret::from_file(path + "2")));
  const auto refused = [](error_code code, const std::string& file) {
    return test::failure(code, [&] { cluster_secret::make_file(file); });
  };
  CHECK_SAYS(refused(error_code::already_exists, path), path + " exists");
  BOOST_CHECK(proof_of(cluster_secret::from_file(path)) == made);
  fs::create_symlink(here.path / "nowhere", here.path / "dangling");
  refused(error_code::already_exists, here.path / "dangling");
  BOOST_TEST(!fs::exists(here.path / "nowhere"));
  refused(error_code::already_exists, here.path);
  CHECK_SAYS(refused(error_code::unavailable, here.path / "none/secret"), "No such file or directory");
  refused(error_code::unavailable, "");
  BOOST_TEST(std::distance(fs::directory_iterator(here.path), fs::directory_iterator()) == 3);
}

BOOST_AUTO_TEST_CASE(tasks_that_need_a_secret_at_the_same_time_get_the_same) {
  for (int round = 0; round < 5; ++round) {
    const home here;
    std::vector<std::pair<pid_t, int>> tasks;
    for (int i = 0; i < 16; ++i) {
      int ends[2];
      BOOST_REQUIRE(::pipe(ends) == 0);
      tasks.emplace_back(here.start(own_proof, nullptr, ends[1]), ends[0]);
      ::close(ends[1]);
    }
    std::set<std::string> all;
    for (const auto& [child, from] : tasks) all.insert(home::text(child, from));
    BOOST_TEST(all.size() == 1u);
    BOOST_TEST(all.begin()->size() == 32u);
  }
}

BOOST_AUTO_TEST_CASE(a_secret_that_others_could_know_is_refused) {
  const home here;
  BOOST_REQUIRE(here.in_process(own_proof).size() == 32u);
  for (const mode_t mode : {0640u, 0604u, 0620u, 0666u}) {
    ::chmod(here.file().c_str(), mode);
    CHECK_SAYS(here.in_process(own_proof), "permission_denied");
    CHECK_SAYS(here.in_process(own_proof), "mode 0600");
  }
  ::chmod(here.file().c_str(), 0600);
  ::chmod(here.file().parent_path().c_str(), 0777);
  CHECK_SAYS(here.in_process(own_proof), "not writable by others");
  ::chmod(here.file().parent_path().c_str(), 0700);
  const fs::path elsewhere = here.path / "elsewhere";
  fs::rename(here.file(), elsewhere);
  fs::create_symlink(elsewhere, here.file());
  CHECK_SAYS(here.in_process(own_proof), "permission_denied");
  fs::remove(here.file());
  fs::create_directory(here.file());
  CHECK_SAYS(here.in_process(own_proof), "permission_denied");
  fs::remove(here.file());
  BOOST_REQUIRE(::mkfifo(here.file().c_str(), 0600) == 0);
  CHECK_SAYS(here.in_process(own_proof), "permission_denied");  // and does not wait for who writes to it
  fs::remove(here.file());
  std::ofstream(here.file()) << "half";
  ::chmod(here.file().c_str(), 0600);
  CHECK_SAYS(here.in_process(own_proof), "must have at least 16 bytes; it has 4");
}

BOOST_AUTO_TEST_CASE(a_file_may_be_named) {
  const home here;
  const fs::path file = here.path / "named";
  std::ofstream(file) << "a secret of many bytes\nand more\n";
  ::chmod(file.c_str(), 0600);
  BOOST_TEST(proof_of(cluster_secret::from_file(file)) == proof_of(cluster_secret("a secret of many bytes")));
  CHECK_SAYS(cluster_secret::from_file(file).origin(), file.string());
  ::chmod(file.c_str(), 0644);
  BOOST_CHECK_EXCEPTION(cluster_secret::from_file(file), error, test::says(error_code::permission_denied));
  BOOST_CHECK_EXCEPTION(cluster_secret::from_file(here.path / "none"), error, test::says(error_code::not_found));
  BOOST_CHECK_EXCEPTION(cluster_secret("too short"), error, test::says(error_code::invalid_argument));
}

BOOST_AUTO_TEST_CASE(without_a_home_there_is_still_a_place) {
  if (::geteuid() != 0) return;
  const home here;
  const std::string said = here.in_process([]() -> std::string {
    // A user that has no home.
    if (::setgid(61234) != 0 || ::setuid(61234) != 0) return "cannot become another user";
    ::setenv("HOME", "/nonexistent", 1);
    const std::string first = own_proof();
    const bool same = own_proof() == first;
    const bool there = fs::exists("/tmp/weft-61234/secret");
    fs::remove_all("/tmp/weft-61234");
    return same && there && first.size() == 32 ? "well" : "not well";
  });
  BOOST_TEST(said == "well");
}

BOOST_AUTO_TEST_CASE(the_reference_has_the_fields_of_all_messages) {
  const std::pair<const char*, std::string> messages[] = {
      {"introduction", outline::of<detail::introduction>()},
      {"error_message", outline::of<detail::error_message>()},
      {"notice", outline::of<detail::notice>()},
      {"group_message", outline::of<detail::group_message>()},
      {"view_message", outline::of<detail::view_message>()},
      {"offer_message", outline::of<detail::offer_message>()},
      {"enroll_message", outline::of<detail::enroll_message>()},
      {"held_message", outline::of<detail::held_message>()},
      {"decision_message", outline::of<detail::decision_message>()},
      {"squares_message", outline::of<detail::squares_message>()},
      {"shard_status", outline::of<detail::shard_status>()},
      {"shard_order", outline::of<detail::shard_order>()},
      {"state_end", outline::of<detail::state_end>()},
      {"run_message", outline::of<detail::run_message>()},
      {"end_message", outline::of<detail::end_message>()},
      {"task_message", outline::of<detail::task_message>()},
      {"variable_message", outline::of<detail::variable_message>()},
      {"reset_message", outline::of<detail::reset_message>()},
  };
  std::ifstream page("docs/reference/distributed.md");
  std::map<std::string, std::string> rows;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `") && line.ends_with("` |")) {
      const std::size_t fields = line.rfind('`', line.size() - 4) + 1;
      rows[line.substr(3, line.find('`', 3) - 3)] = line.substr(fields, line.size() - 3 - fields);
    }
  for (const auto& [name, fields] : messages) BOOST_TEST(rows[name] == fields, name << " has the fields " << fields);
}

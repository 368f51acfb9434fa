// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <boost/serialization/version.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <weft/checkpoint/archive.hpp>
#include <weft/checkpoint/saver.hpp>
#include <weft/data/element.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/weft.hpp>

#include "data/files.hpp"
#include "errors.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::says;

namespace program {

/// The state that a program keeps beside its model.
struct position {
  std::int64_t epoch = 0;
  std::vector<double> history;
  std::string note;

  template <class Archive>
  void serialize(Archive& archive, unsigned version) {
    archive & epoch & history;
    if (version >= 2) archive & note;
  }
};

/// The same class in an older program, and in a newer one.
struct old_position {
  std::int64_t epoch = 0;
  std::vector<double> history;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & epoch & history;
  }
};
struct newer_position : position {
  double rate = 0.1;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & epoch & history & note & rate;
  }
};

}  // namespace program

BOOST_CLASS_VERSION(program::position, 2)
BOOST_CLASS_VERSION(program::old_position, 1)
BOOST_CLASS_VERSION(program::newer_position, 3)

namespace {

/// A network with dropout and an optimizer with slots, so that a step depends on all that a session has.
struct model {
  graph g{7};
  node<float, dims<4, 8>> x = placeholder<float, dims<4, 8>>(g, "x");
  variable_node<float, dims<8, 16>> w1 = variable<float, dims<8, 16>>(g, "hidden/w", init::glorot_uniform{});
  variable_node<float, dims<16, 1>> w2 = variable<float, dims<16, 1>>(g, "out/w", init::glorot_uniform{});
  variable_node<float, dims<1>> mean = variable<float, dims<1>>(g, "mean", 0, variable_kind::averaged);
  variable_node<float, dims<2>> unset = variable<float, dims<2>>(g, "unset", init::none{}, variable_kind::local);
};

tensor<float, dims<4, 8>> batch(int step) {
  tensor<float, dims<4, 8>> x;
  for (std::size_t i = 0; i < x.elements(); ++i)
    x.data()[i] = static_cast<float>((step * 31 + static_cast<int>(i) * 7) % 11) / 11.0f - 0.4f;
  return x;
}

struct trainer {
  model m;
  session s{m.g, {.threads = 1}};
  node<float, dims<>> loss;
  step<fetch_list<node<float, dims<>>, effect>, feed_list<node<float, dims<4, 8>>>> train;

  trainer() : loss(the_loss(m)), train(s.prepare(fetch(loss, minimize(adam{}, loss)), feed(m.x))) {}

  static node<float, dims<>> the_loss(model& m) {
    const auto hidden = dropout(tanh(matmul(m.x, m.w1)), 0.4f);
    const auto of_rows = matmul(hidden, m.w2);
    return mean(square(of_rows - 0.5f));
  }
  std::vector<float> run(int from, int to) {
    std::vector<float> losses;
    for (int i = from; i < to; ++i) losses.push_back(std::get<0>(train(batch(i))));
    return losses;
  }
};

void flip(const std::string& path, std::streamoff at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const char c = static_cast<char>(file.get() ^ 4);
  file.seekp(at);
  file.put(c);
}

std::vector<std::string> files_of(const std::string& checkpoint) {
  std::vector<std::string> files;
  for (const auto& each : std::filesystem::directory_iterator(checkpoint)) files.push_back(each.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const checkpoint_info& c : list_checkpoints(folder)) steps.push_back(c.step);
  return steps;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_place_in_a_dataset_is_archived) {
  const data::position there{3, 12345678901u};
  data::position here;
  weft::detail::from_archive(weft::detail::to_archive(there), here, "a test");
  BOOST_TEST((here == there));
}

BOOST_AUTO_TEST_CASE(training_goes_on_with_the_same_bits) {
  for (const int shards : {1, 3}) {
    const folder f;
    const std::string at = f.path / "training";
    trainer undisturbed;
    const std::vector<float> wanted = undisturbed.run(0, 20);
    std::string path;
    {
      trainer first;
      first.run(0, 8);
      saver keeper({.shards = shards});
      path = keeper.save(first.s, at, 8);
      first.run(8, 11);  // which the checkpoint does not have
    }
    BOOST_TEST(path == at + "/checkpoint-8");
    BOOST_TEST((latest_checkpoint(at) == path));
    trainer second;
    saver keeper;  // has another number of shards
    const restored_checkpoint report = keeper.restore(second.s, path);
    BOOST_TEST(report.step == 8);
    BOOST_TEST(report.complete());
    BOOST_TEST(second.s.step_number() == 8);
    const std::vector<float> losses = second.run(8, 20);
    BOOST_TEST(losses == std::vector<float>(wanted.begin() + 8, wanted.end()), boost::test_tools::per_element());
    BOOST_TEST((test::code_of([&] { second.s.get(second.m.unset); }) == error_code::failed_precondition));
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_restored_while_clones_read_the_variables) {
  const folder f;
  trainer t;
  t.run(0, 1);
  saver keeper({.background = false});
  const std::string path = keeper.save(t.s, f.path, 1);
  t.run(1, 2);
  const auto w = t.s.get(t.m.w1);
  const std::int64_t steps = t.s.step_number();
  {
    session clone = t.s.clone_for_inference();
    for (session* s : {&t.s, &clone}) {
      BOOST_CHECK_EXCEPTION(keeper.restore(*s, path), error, says(error_code::failed_precondition, "clones"));
      BOOST_CHECK_EXCEPTION(keeper.restore_latest(*s, f.path), error, says(error_code::failed_precondition, "clones"));
      BOOST_TEST(bool(s->get(t.m.w1) == w));
    }
    BOOST_TEST(t.s.step_number() == steps);
    BOOST_TEST(keeper.save(clone, f.path / "of_clone", 2) != "");
  }
  keeper.restore(t.s, path);
  BOOST_TEST(bool(t.s.get(t.m.w1) != w));
}
BOOST_AUTO_TEST_CASE(what_is_in_a_checkpoint) {
  const folder f;
  trainer t;
  t.run(0, 1);
  saver keeper({.shards = 2, .background = false});
  const std::string path = keeper.save(t.s, f.path, 3);
  const checkpoint_reader checkpoint(path);
  checkpoint.verify();
  BOOST_TEST(checkpoint.step() == 3);
  BOOST_TEST(checkpoint.without_value() == std::vector<std::string>{"unset"}, boost::test_tools::per_element());
  BOOST_TEST(checkpoint.variables().size() == variables(t.m.g).size() - 1);
  BOOST_TEST(checkpoint.find_variable("mean")->kind == "averaged");
  BOOST_TEST(checkpoint.find_variable("hidden/w")->kind == "trained");
  const auto* record = checkpoint.find_variable("hidden/w");
  tensor<float, dims<8, 16>> w;
  checkpoint.read(*record, w.data());
  const auto there = t.s.get(t.m.w1);
  BOOST_TEST(std::equal(w.begin(), w.end(), there.begin()));
  BOOST_TEST((safetensors_file(record->file->path()).read<float, dims<8, 16>>("hidden/w")(7, 15)) == there(7, 15));
}

BOOST_AUTO_TEST_CASE(a_programs_own_objects) {
  const folder f;
  graph g;
  const auto v = variable<float>(g, "v", 1);
  session s(g);
  program::position here{3, {0.1, std::numeric_limits<double>::infinity(), std::nan("")}, "a \"note\"\n\xc3\xa4"};
  std::vector<int> more{1, 2};
  std::string path;
  {
    saver keeper;
    keeper.add("position", here);
    keeper.add("more", more);
    BOOST_CHECK_EXCEPTION(keeper.add("more", more), error, says(error_code::already_exists, "more"));
    path = keeper.save(s, f.path, 1);
    here = {};  // the checkpoint has what was there
    more = {};
    keeper.wait();
    keeper.restore(s, path);
  }
  BOOST_TEST(here.epoch == 3);
  BOOST_TEST(here.history[0] == 0.1);
  BOOST_TEST(here.history[1] == std::numeric_limits<double>::infinity());
  BOOST_TEST(std::isnan(here.history[2]));
  BOOST_TEST(here.note == "a \"note\"\n\xc3\xa4");
  BOOST_TEST(more == (std::vector<int>{1, 2}), boost::test_tools::per_element());

  // Missing and extra ones are named, and nothing changes.
  s.set(v, 5.0f);
  saver other;
  int counter = 9;
  other.add("position", here);
  other.add("counter", counter);
  const std::string said = test::failure(error_code::invalid_argument, [&] { other.restore(s, path); });
  CHECK_SAYS(said, "missing in the file: counter; extra in the file: more");
  BOOST_TEST(s.get(v) == 5.0f);
  const restored_checkpoint report = other.restore(s, path, {.partial = true});
  BOOST_TEST(s.get(v) == 1.0f);
  BOOST_TEST(report.missing == std::vector<std::string>{"counter"}, boost::test_tools::per_element());
  BOOST_TEST(report.extra == std::vector<std::string>{"more"}, boost::test_tools::per_element());
  BOOST_TEST(counter == 9);

  // An object of another type is refused before the first has changed.
  here.epoch = 4;
  std::string text;
  saver wrong;
  wrong.add("position", here);
  wrong.add("more", text);
  s.set(v, 5.0f);
  CHECK_SAYS(test::failure(error_code::data_loss, [&] { wrong.restore(s, path); }), "record 'more' at byte ");
  BOOST_TEST(here.epoch == 4);
  BOOST_TEST(s.get(v) == 5.0f);
}

BOOST_AUTO_TEST_CASE(versions_of_a_programs_objects) {
  const folder f;
  graph g;
  session s(g);
  program::old_position old{5, {1.5}};
  program::newer_position newer;
  newer.epoch = 6;
  saver before, after;
  before.add("position", old);
  after.add("position", newer);
  const std::string first = before.save(s, f.path, 1);
  before.wait();
  const std::string second = after.save(s, f.path, 2);
  after.wait();
  program::position here{0, {}, "stays"};
  saver now;
  now.add("position", here);
  now.restore(s, first);
  BOOST_TEST(here.epoch == 5);
  BOOST_TEST(here.note == "stays");
  BOOST_CHECK_EXCEPTION(now.restore(s, second), error, says(error_code::data_loss, "or by a newer program"));
  BOOST_TEST(here.epoch == 5);
}

BOOST_AUTO_TEST_CASE(old_checkpoints_go) {
  const folder f;
  const std::string at = f.path;
  graph g;
  const auto v = variable<float>(g, "v", 1);
  session s(g);
  std::filesystem::create_directories(f.path / "checkpoint-notes");
  std::filesystem::create_directories(f.path / "checkpoint-77");  // left by a process that was killed
  std::ofstream(f.path / "checkpoint-77/0-00000-of-00001.safetensors") << "x";
  {
    saver keeper({.max_to_keep = 3});
    for (int step : {10, 20, 30, 40, 50}) keeper.save(s, at, step);
  }
  BOOST_TEST(steps_in(at) == (std::vector<std::int64_t>{30, 40, 50}), boost::test_tools::per_element());
  BOOST_TEST(std::filesystem::exists(f.path / "checkpoint-notes"));
  BOOST_TEST(!std::filesystem::exists(f.path / "checkpoint-77"));
  BOOST_TEST(!std::filesystem::exists(f.path / "checkpoint-10"));
  // A program that is started again counts on; the last one is the one that was saved last, not that of the largest
  // step.
  {
    saver keeper({.max_to_keep = 3, .background = false});
    s.set(v, 7.0f);
    keeper.save(s, at, 35);
    keeper.save(s, at, 40);  // again
    BOOST_TEST((latest_checkpoint(at) == at + "/checkpoint-40"));
    BOOST_TEST(files_of(at + "/checkpoint-40").size() == 3u);  // nothing is left of the first one
    keeper.restore(s, at + "/checkpoint-50");
    BOOST_TEST(s.get(v) == 1.0f);
    keeper.restore(s, at + "/checkpoint-40");
    BOOST_TEST(s.get(v) == 7.0f);
  }
  BOOST_TEST(steps_in(at) == (std::vector<std::int64_t>{50, 35, 40}), boost::test_tools::per_element());
  saver all({.max_to_keep = 0, .background = false});
  for (int step = 100; step < 110; ++step) all.save(s, at, step);
  BOOST_TEST(steps_in(at).size() == 13u);
  BOOST_TEST((latest_checkpoint((f.path / "none").string()) == std::nullopt));
}

BOOST_AUTO_TEST_CASE(some_checkpoints_are_kept_for_good) {
  const folder f;
  const std::string at = f.path;
  graph g;
  variable<float>(g, "v", 1);
  session s(g);
  constexpr auto every = 100ms;
  std::vector<checkpoint_info> saved;
  for (int run = 0; run < 4; ++run) {  // the program is started again in between
    saver keeper({.max_to_keep = 2, .keep_every = every, .background = false});
    for (int i = 0; i < 4; ++i) {
      keeper.save(s, at, run * 4 + i);
      saved.push_back(list_checkpoints(at).back());
      std::this_thread::sleep_for(30ms);
    }
  }
  const std::vector<checkpoint_info> left = list_checkpoints(at);
  const auto is_left = [&](const checkpoint_info& c) {
    return std::any_of(left.begin(), left.end(), [&](const checkpoint_info& l) { return l.step == c.step; });
  };
  auto last = saved[0].written;
  int kept = 0;
  for (std::size_t i = 0; i < saved.size() - 2; ++i) {
    const bool wanted = saved[i].written - last >= every;
    BOOST_TEST(is_left(saved[i]) == wanted);
    if (wanted) last = saved[i].written, ++kept;
  }
  BOOST_TEST(kept >= 3);
  BOOST_TEST(is_left(saved[saved.size() - 2]));
  BOOST_TEST(is_left(saved.back()));
}

BOOST_AUTO_TEST_CASE(damage_is_found_wherever_it_is) {
  const folder f;
  graph g;
  const auto v = variable<float, dims<50>>(g, "v", 1);
  variable<bool, dims<3>>(g, "b", false);
  session s(g);
  int counter = 9;
  saver keeper({.shards = 2, .background = false});
  keeper.add("counter", counter);
  const std::string path = keeper.save(s, f.path, 1);
  tensor<float, dims<50>> other;
  s.set(v, other);
  counter = 10;
  std::size_t flips = 0;
  for (const std::string& file : files_of(path)) {
    const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file));
    for (std::streamoff at = 0; at < size; ++at, ++flips) {
      flip(file, at);
      std::string said;
      const error_code code = test::code_of([&] { keeper.restore(s, path); }, &said);
      BOOST_TEST((code == error_code::data_loss));
      BOOST_TEST(test::contains(said, file));
      flip(file, at);
    }
    // Cut off anywhere, and longer than it was.
    const bytes whole = [&] {
      std::ifstream in(file, std::ios::binary);
      return bytes(std::istreambuf_iterator<char>(in), {});
    }();
    const auto becomes = [&](const bytes& content) {
      std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(content.data()), std::ssize(content));
      std::string said;
      BOOST_TEST((test::code_of([&] { keeper.restore(s, path); }, &said) == error_code::data_loss));
      BOOST_TEST(test::contains(said, file));
    };
    for (std::size_t n = 0; n < whole.size(); n += 7) becomes(cut(whole, n));
    bytes longer = whole;
    longer.push_back(0);
    becomes(longer);
    std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(whole.data()), std::ssize(whole));
  }
  BOOST_TEST(flips > 1000u);
  BOOST_TEST(s.get(v)(0) == 0.0f);  // nothing has changed
  BOOST_TEST(counter == 10);
  keeper.restore(s, path);
  BOOST_TEST(s.get(v)(0) == 1.0f);
  BOOST_TEST(counter == 9);

  flip(path + "/index.json", 40);
  BOOST_CHECK_EXCEPTION(latest_checkpoint(f.path), error,
                        says(error_code::data_loss, "remove the checkpoint's folder"));
  BOOST_CHECK_EXCEPTION(keeper.restore_latest(s, f.path), error,
                        says(error_code::data_loss, "each of the 1 checkpoints in"));
  keeper.save(s, f.path, 2);  // goes on beside a damaged one
  std::filesystem::remove_all(path);
  BOOST_TEST((latest_checkpoint(f.path) == (f.path / "checkpoint-2").string()));
  BOOST_CHECK_EXCEPTION(keeper.restore(s, f.path), error, says(error_code::not_found, "latest_checkpoint(folder)"));
}

BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_is_passed_over_for_the_newest_whole_one) {
  const auto shard_of = [](const std::string& checkpoint) {
    for (const std::string& file : files_of(checkpoint))
      if (test::contains(file, "-00000-of-")) return file;
    throw std::runtime_error("no shard");
  };
  const auto reads = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  struct damage {
    std::string words;
    bool found_by_headers, of_index;
    std::function<void(const std::string& checkpoint)> make;
  };
  const std::vector<damage> kinds{
      {"checksum does not match its contents", true, true, [](const std::string& at) { flip(at + "/index.json", 60); }},
      {"it is not the index of a checkpoint", true, true,
       [](const std::string& at) { std::filesystem::resize_file(at + "/index.json", 0); }},
      {"has version 2", true, true,
       [&](const std::string& at) {
         std::string text = reads(at + "/index.json");
         text.replace(text.find("\"version\":1"), 11, "\"version\":2");
         const std::string body = text.substr(0, text.rfind(",\"crc32c\":\""));
         std::ofstream(at + "/index.json", std::ios::binary)
             << body << ",\"crc32c\":\"" << weft::detail::eight_digits(weft::detail::crc_of_text(body)) << "\"}\n";
       }},
      {"truncated", true, false,
       [&](const std::string& at) {
         const std::string file = shard_of(at);
         std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
       }},
      {"No such file", true, false, [&](const std::string& at) { std::filesystem::remove(shard_of(at)); }},
      {"checksum of its header", true, false, [&](const std::string& at) { flip(shard_of(at), 20); }},
      {"a wrong checksum", false, false, [&](const std::string& at) {
         flip(shard_of(at), static_cast<std::streamoff>(std::filesystem::file_size(shard_of(at))) - 3);
       }}};
  for (const damage& kind : kinds)
    for (const int damaged : {1, 3, 2}) {
      BOOST_TEST_INFO(kind.words << ", checkpoint " << damaged);
      const folder f;
      graph g;
      const auto v = variable<float, dims<50>>(g, "v", 0);
      session s(g);
      std::vector<damaged_checkpoint> told;
      saver keeper({.background = false, .on_damaged = [&](const damaged_checkpoint& d) { told.push_back(d); }});
      for (int step = 1; step <= 3; ++step) {
        tensor<float, dims<50>> value;
        value(7) = static_cast<float>(step);
        s.set(v, value);
        keeper.save(s, f.path, step);
      }
      const auto at = [&](int step) { return (f.path / ("checkpoint-" + std::to_string(step))).string(); };
      kind.make(at(damaged));
      const std::int64_t whole = damaged == 3 ? 2 : 3;
      const auto restored = keeper.restore_latest(s, f.path);
      BOOST_REQUIRE(restored.has_value());
      BOOST_TEST((restored->step == whole && restored->path == at(static_cast<int>(whole))));
      BOOST_TEST(s.get(v)(7) == static_cast<float>(whole));
      if (kind.found_by_headers) BOOST_TEST((latest_checkpoint(f.path) == restored->path));
      // One before the whole one matters where the folder is listed, that is for a damaged index.
      const bool seen = damaged == 3 || kind.of_index;
      if (seen) {
        BOOST_REQUIRE(told.size() == 1u);
        BOOST_TEST(told[0].path == at(damaged));
        CHECK_SAYS(told[0].why, kind.words);
        CHECK_SAYS(told[0].why, at(damaged));
      }
      // It goes on beside the damaged one, and over it.
      keeper.save(s, f.path, whole + 1);
      BOOST_TEST((keeper.restore_latest(s, f.path)->step == whole + 1));
    }
}

// Whoever can write to the folder chooses what its lock file is, and says.
BOOST_AUTO_TEST_CASE(a_lock_overwrites_nothing_and_shows_no_control_characters) {
  const folder f;
  const std::filesystem::path precious = f.path / "precious", lock = f.path / "checkpoint.lock";
  std::ofstream(precious) << "precious";
  std::filesystem::create_symlink(precious, lock);
  saver keeper;
  std::string said;
  BOOST_TEST((test::code_of([&] { keeper.lock(f.path); }, &said) == error_code::failed_precondition));
  CHECK_SAYS(said, lock.string() + " must be a regular file, but is a symbolic link");
  BOOST_TEST(std::filesystem::file_size(precious) == 8u);
  std::filesystem::remove(lock);
  std::filesystem::create_hard_link(precious, lock);
  {
    saver linked;
    linked.lock(f.path);
  }
  BOOST_TEST(std::filesystem::file_size(precious) == 8u);
  std::filesystem::remove(lock);
  std::ofstream(lock) << "\x1b[31mnobody\nat all";
  const int holder = ::open(lock.c_str(), O_RDWR);
  BOOST_REQUIRE(::flock(holder, LOCK_EX) == 0);
  BOOST_TEST((test::code_of([&] { keeper.lock(f.path); }, &said) == error_code::failed_precondition));
  CHECK_SAYS(said, "is in use by \\x1b[31mnobody, which");
  ::close(holder);
  keeper.lock(f.path);
  // The file of another user who shares the folder names the new holder.
  const std::filesystem::path shared = f.path / "shared";
  std::filesystem::create_directory(shared);
  std::ofstream(shared / "checkpoint.lock") << "process 1 on another host\n";
  if (::geteuid() == 0) BOOST_REQUIRE(::chown((shared / "checkpoint.lock").c_str(), 65534, 65534) == 0);
  saver sharing;
  sharing.lock(shared);
  std::string signature;
  std::getline(std::ifstream(shared / "checkpoint.lock"), signature);
  BOOST_TEST(signature.starts_with("process " + std::to_string(::getpid()) + " on "), signature);
}

// A killed process cannot release a lock; the kernel does.
BOOST_AUTO_TEST_CASE(two_processes_do_not_save_into_one_folder) {
  const folder f;
  graph g;
  const auto v = variable<float, dims<2>>(g, "v", 1);
  session s(g);
  int ready[2];
  BOOST_REQUIRE(::pipe(ready) == 0);
  const pid_t other = ::fork();
  BOOST_REQUIRE(other >= 0);
  if (other == 0) {
    try {
      saver keeper({.background = false});
      keeper.save(s, f.path, 1);
      if (::write(ready[1], "1", 1) == 1) ::pause();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(1);
  }
  ::close(ready[1]);
  char c = 0;
  BOOST_REQUIRE(::read(ready[0], &c, 1) == 1);
  ::close(ready[0]);
  {
    saver keeper;
    std::string said;
    BOOST_TEST((test::code_of([&] { keeper.lock(f.path); }, &said) == error_code::failed_precondition));
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    CHECK_SAYS(said, f.path.string() + " is in use by process " + std::to_string(other) + " on " + host + " since 20");
    keeper.save(s, f.path, 2);
    BOOST_CHECK_EXCEPTION(keeper.wait(), error, says(error_code::failed_precondition, "choose another folder"));
    saver others({.background = false, .name = "model"});  // its checkpoints are not the other's
    others.save(s, f.path, 1);
    // Whoever only reads needs no lock.
    BOOST_TEST((keeper.restore_latest(s, f.path)->step == 1));
    BOOST_TEST(s.get(v)(0) == 1.0f);
  }
  ::kill(other, SIGKILL);
  int status = 0;
  BOOST_REQUIRE(::waitpid(other, &status, 0) == other);
  saver keeper({.background = false});
  keeper.lock(f.path);
  keeper.save(s, f.path, 2);
  // Savers of one process share it.
  saver second({.background = false});
  second.save(s, f.path, 3);
  BOOST_TEST(steps_in(f.path) == (std::vector<std::int64_t>{1, 2, 3}), boost::test_tools::per_element());
  // A folder that somebody removes is another one afterwards.
  std::filesystem::remove_all(f.path);
  keeper.save(s, f.path, 4);
  BOOST_TEST(steps_in(f.path) == (std::vector<std::int64_t>{4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(restored_by_name_into_another_graph) {
  const folder f;
  graph a;
  variable<float, dims<2>>(a, "encoder/w", 3);
  variable<float, dims<2>>(a, "head/w", 4);
  session s(a);
  saver keeper({.background = false});
  const std::string path = keeper.save(s, f.path, 1);
  graph b;
  const auto w = variable<float, dims<2>>(b, "w", 0);
  const auto head = variable<float, dims<5>>(b, "head/w", 0);
  session t(b);
  const std::string said = test::failure(error_code::invalid_argument, [&] { keeper.restore(t, path); });
  CHECK_SAYS(said,
             "missing in the file: w; extra in the file: encoder/w; different: head/w is F32 [2] in the file and "
             "float [5] in the graph");
  const auto report = keeper.restore(t, path, {.partial = true, .rename = {{"encoder/w", "w"}}});
  BOOST_TEST(t.get(w)(1) == 3.0f);
  BOOST_TEST(t.get(head)(4) == 0.0f);
  BOOST_TEST(report.different.size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_keeps_a_checkpoint_from_being_written_is_said_at_the_next) {
  const folder f;
  graph g;
  variable<float, dims<100'000>>(g, "v", 1);
  session s(g);
  saver keeper;
  const std::string first = keeper.save(s, f.path, 1);
  keeper.wait();
  struct rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit little{100'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &little);
  keeper.save(s, f.path, 2);
  BOOST_CHECK_EXCEPTION(keeper.wait(), error, says(error_code::resource_exhausted, "make room"));
  keeper.save(s, f.path, 3);
  BOOST_CHECK_EXCEPTION(keeper.save(s, f.path, 4), error, says(error_code::resource_exhausted, "checkpoint-3/"));
  BOOST_TEST((latest_checkpoint(f.path) == first));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  keeper.save(s, f.path, 5);
  keeper.wait();
  BOOST_TEST((latest_checkpoint(f.path) == (f.path / "checkpoint-5").string()));
  BOOST_CHECK_EXCEPTION(keeper.save(s, f.path, -1), error, says(error_code::invalid_argument, "at least 0"));
  BOOST_CHECK_EXCEPTION(saver({.shards = 0}), error, says(error_code::invalid_argument, "shards = 0"));
}

BOOST_AUTO_TEST_CASE(a_disk_that_does_not_answer_is_not_waited_for_without_end) {
  const folder f;
  graph g;
  variable<float, dims<30'000'000>>(g, "v", 1);
  session s(g);
  saver keeper;
  keeper.save(s, f.path, 1);
  std::string said;
  const error_code code = test::code_of([&] { keeper.wait(0ns); }, &said);
  BOOST_TEST((code == error_code::deadline_exceeded));
  CHECK_SAYS(said, "checkpoint-1 was not written within 0 ms");
  keeper.wait();
  BOOST_TEST(latest_checkpoint(f.path).has_value());
}

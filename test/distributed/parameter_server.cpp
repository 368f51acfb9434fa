// SPDX-License-Identifier: BSL-1.0
#include <atomic>
#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>
#include <weft/distributed/parameter/parameter_server.hpp>

#include "local_cluster.hpp"

using namespace weft;
using namespace std::chrono_literals;
using test::contains;

namespace {

using transports = boost::mpl::list<in_process, tcp>;

std::vector<parameter_spec> two_variables(int ps_tasks, const update_rule& rule = {"gradient_descent", {1.0}},
                                          std::size_t elements = 1000) {
  return {{"w", element_type::float32, elements, 0, rule}, {"b", element_type::float64, 10, ps_tasks - 1, rule}};
}

/// One worker's copy of two_variables().
struct values {
  std::vector<float> w;
  std::vector<double> b = std::vector<double>(10);

  explicit values(double with, std::size_t elements = 1000) : w(elements, static_cast<float>(with)) {
    std::fill(b.begin(), b.end(), with);
  }
  std::vector<const_bytes> in() const { return {std::as_bytes(std::span(w)), std::as_bytes(std::span(b))}; }
  std::vector<mutable_bytes> out() {
    return {std::as_writable_bytes(std::span(w)), std::as_writable_bytes(std::span(b))};
  }
};

template <typename T, typename Work>
std::vector<std::string> run(int ps_tasks, int workers, Work work, std::vector<join_report>* reports = nullptr,
                             const server_options& options = {}) {
  return test::run_tasks(ps_tasks, workers, T{}, work, options, reports);
}

void all_well(const std::vector<std::string>& problems) {
  for (const std::string& each : problems) BOOST_TEST(each == "");
}

struct answered {
  frame_kind kind = frame_kind::heartbeat;  // which nobody answers with: none came
  std::vector<std::byte> payload;
};

/// Sends one frame and waits for the answer, as a peer that knows of nothing else.
template <class Stream>
answered ask(Stream& stream, frame_kind kind, std::uint32_t flags, const std::vector<std::byte>& payload) {
  frame_header header;
  header.kind = kind;
  header.flags = flags;
  frame_writer out;
  out.start(header, const_bytes(payload));
  frame_reader in;
  in.expect(std::uint64_t{1 << 20});
  answered got;
  for (const deadline until = 5s; !in.complete() && !until.expired();) {
    out.advance(stream);
    in.advance(stream);
    if (in.needs_destination()) {
      got.payload.resize(static_cast<std::size_t>(in.header().payload_length));
      in.payload_to(mutable_bytes(got.payload));
    }
  }
  if (in.complete()) got.kind = in.header().kind;
  return got;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(asynchronous_updates_are_applied_once_each, T, transports) {
  constexpr int workers = 3, steps = 100;
  std::mutex mutex;
  double last = 0;
  std::vector<join_report> reports;
  all_well(run<T>(
      2, workers,
      [&](basic_server<T>& here) {
        parameter_client client(here, two_variables(2), consistency::asynchronous, 7, 20s);
        client.initialise(values(5).in(), 20s);
        values gradient(1), now(0);
        for (int step = 0; step < steps; ++step) {
          const auto applied = client.push_pull(step, gradient.in(), now.out(), 20s);
          if (client.was_duplicate() || applied < step + 1) throw std::runtime_error("not applied");
          if (step % 3 == 0) {  // the network repeats it
            client.push_pull(step, gradient.in(), now.out(), 20s);
            if (!client.was_duplicate()) throw std::runtime_error("applied twice");
          }
        }
        here.wait_ready(10s);
        client.done(10s);
        std::lock_guard lock(mutex);
        last = std::min(last, static_cast<double>(now.w[0]));
        if (std::any_of(now.w.begin(), now.w.end(), [&](float x) { return x != now.w[0]; }))
          throw std::runtime_error("the snapshot is not consistent");
      },
      &reports));
  BOOST_TEST(last == 5 - workers * steps);
  for (const join_report& each : reports) {
    BOOST_TEST(each.finished.size() == static_cast<std::size_t>(workers));
    BOOST_TEST(each.lost.empty());
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(synchronous_steps_give_the_same_bits_in_every_order, T, transports) {
  constexpr int workers = 3, steps = 20;
  constexpr std::size_t elements = 5000;
  const auto gradient_of = [](int worker, int step) {
    std::mt19937 random(static_cast<unsigned>(worker * 1000 + step));
    std::normal_distribution<double> normal;
    values gradient(0, elements);
    for (float& x : gradient.w) x = static_cast<float>(normal(random));
    for (double& x : gradient.b) x = normal(random);
    return gradient;
  };
  std::vector<float> expected(elements, 1.0f);
  for (int step = 0; step < steps; ++step) {
    const values g[] = {gradient_of(0, step), gradient_of(1, step), gradient_of(2, step)};
    for (std::size_t i = 0; i < elements; ++i) {
      volatile float sum = g[0].w[i] + g[1].w[i];
      sum = sum + g[2].w[i];
      volatile float move = 0.1f * (sum / 3.0f);
      expected[i] = expected[i] - move;
    }
  }
  std::atomic<int> equal{0};
  all_well(run<T>(2, workers, [&](basic_server<T>& here) {
    parameter_client client(here, two_variables(2, {"gradient_descent", {0.1}}, elements), consistency::synchronous, 7,
                            20s);
    client.initialise(values(1, elements).in(), 20s);
    values now(0, elements);
    for (int step = 0; step < steps; ++step) {
      std::this_thread::sleep_for(std::chrono::microseconds((here.index() * 7 + step * 13) % 5 * 300));
      const values gradient = gradient_of(here.index(), step);
      if (client.push_pull(step, gradient.in(), now.out(), 20s) != step + 1) throw std::runtime_error("not one step");
      if (step % 4 == 1) {
        client.push_pull(step, gradient.in(), now.out(), 20s);
        if (!client.was_duplicate()) throw std::runtime_error("applied twice");
      }
    }
    equal += now.w == expected;
    client.done(10s);
  }));
  BOOST_TEST(equal == workers);
}

BOOST_AUTO_TEST_CASE(what_lies_in_shared_memory_is_not_copied_and_has_the_same_bits) {
  constexpr int workers = 2, steps = 10;
  constexpr std::size_t elements = 300'001;
  const auto gradient_of = [](int worker, int step) {
    values gradient(0, elements);
    for (std::size_t i = 0; i < elements; ++i)
      gradient.w[i] = 1e-3f * static_cast<float>((i * 7 + static_cast<std::size_t>(worker * 31 + step)) % 97);
    std::fill(gradient.b.begin(), gradient.b.end(), 0.1 * worker + step);
    return gradient;
  };
  for (const auto mode : {consistency::synchronous, consistency::asynchronous}) {
    const int count = mode == consistency::synchronous ? workers : 1;
    std::vector<values> in_memory(2, values(0, elements)), sent(2, values(0, elements));
    for (const bool shared : {true, false}) {
      server_options options;
      options.shared_memory = shared;
      all_well(run<tcp>(
          2, count,
          [&](basic_server<tcp>& here) {
            parameter_client client(here, two_variables(2, {"momentum", {0.1, 0.9}}, elements), mode, 7, 20s);
            client.initialise(values(1, elements).in(), 20s);
            values gradient(0, elements), now(0, elements);
            std::vector<mutable_bytes> places = gradient.out(), out = now.out();
            for (std::size_t i = 0; i < 2; ++i) {
              const auto place = client.place_of(i);
              if (shared != static_cast<bool>(place.memory))
                throw std::runtime_error("shared memory: not as asked for");
              if (shared) places[i] = place.gradient, out[i] = place.value;
            }
            for (int step = 0; step < steps; ++step) {
              const values fresh = gradient_of(here.index(), step);
              for (std::size_t i = 0; i < 2; ++i) std::copy_n(fresh.in()[i].data(), places[i].size(), places[i].data());
              client.push_pull(step, std::vector<const_bytes>(places.begin(), places.end()), out, 20s);
              client.push_pull(step, std::vector<const_bytes>(places.begin(), places.end()), out, 20s);
              if (!client.was_duplicate()) throw std::runtime_error("applied twice");
            }
            values& result = (shared ? in_memory : sent)[static_cast<std::size_t>(here.index())];
            for (std::size_t i = 0; i < 2; ++i) std::copy_n(out[i].data(), out[i].size(), result.out()[i].data());
            client.done(10s);
          },
          nullptr, options));
    }
    for (std::size_t worker = 0; worker < static_cast<std::size_t>(count); ++worker) {
      BOOST_CHECK(in_memory[worker].w == sent[0].w);
      BOOST_CHECK(in_memory[worker].b == sent[0].b);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_shared_memory_is_sent_everything) {
  const auto cluster = test::local_cluster(2, 2);
  std::vector<std::thread> threads;
  std::atomic<int> well{0};
  for (int task = 0; task < 2; ++task)
    threads.emplace_back([&, task] {
      server_options options;
      options.shared_memory = task == 1;
      server here(cluster, "ps", task, options);
      here.join(20s, 60s);
    });
  for (int task = 0; task < 2; ++task)
    threads.emplace_back([&, task] {
      server here(cluster, "worker", task);
      parameter_client client(here, two_variables(2), consistency::synchronous, 7, 20s);
      client.initialise(values(0).in(), 20s);
      values gradient(1), now(0);
      for (int step = 0; step < 5; ++step) client.push_pull(step, gradient.in(), now.out(), 20s);
      well += !client.place_of(0).memory && client.place_of(1).memory && now.w[999] == -5.0f && now.b[9] == -5.0;
      client.done(10s);
    });
  for (std::thread& each : threads) each.join();
  BOOST_TEST(well == 2);
}

// A worker that is broken, or no worker at all, may say this about shared memory.
BOOST_AUTO_TEST_CASE(false_offers_and_requests_without_a_segment_do_no_harm) {
  const auto cluster = test::local_cluster(1, 2);
  std::thread ps([&] {
    server_options options;
    options.min_workers = 1;  // the training goes on without the worker that is rejected
    server here(cluster, "ps", 0, options);
    here.join(20s, 60s);
  });
  // The honest worker's: checked when its thread has ended.
  int step = 0;
  values now(0);
  std::thread honest([&] {
    server here(cluster, "worker", 0);
    parameter_client client(here, two_variables(1), consistency::asynchronous, 7, 20s);
    client.initialise(values(0).in(), 20s);
    here.wait_ready(20s);
    values gradient(1);
    for (const auto end = deadline(1s); !end.expired(); ++step) client.push_pull(step, gradient.in(), now.out(), 20s);
    client.done(10s);
  });
  {
    server here(cluster, "worker", 1);
    const auto enroll = detail::enroll_message{consistency::asynchronous, 7, two_variables(1)}.bytes();
    const std::vector<parameter_spec> variables = two_variables(1);
    const auto order = detail::wire_order(variables, 0);
    const detail::segment_layout layout(variables, order);
    const auto open = [&] {
      any_transport::stream stream = here.open_channel(here.cluster().rank({"ps", 0}), "parameters", 20s).stream;
      BOOST_CHECK(ask(stream, frame_kind::enroll, 0, enroll).kind == frame_kind::acknowledge);
      return stream;
    };
    {
      any_transport::stream stream = open();
      const auto small = shared_segment::create(layout.bytes - 64), right = shared_segment::create(layout.bytes);
      shared_offer lie = small.offer();
      BOOST_CHECK(ask(stream, frame_kind::share, 0, detail::offer_bytes(lie)).kind == frame_kind::failure);
      lie.bytes = layout.bytes;
      BOOST_CHECK(ask(stream, frame_kind::share, 0, detail::offer_bytes(lie)).kind == frame_kind::failure);
      lie = right.offer();
      lie.nonce[0] ^= 1;
      BOOST_CHECK(ask(stream, frame_kind::share, 0, detail::offer_bytes(lie)).kind == frame_kind::failure);
      BOOST_CHECK(ask(stream, frame_kind::share, 0, std::vector<std::byte>(7)).kind == frame_kind::failure);
      BOOST_CHECK(ask(stream, frame_kind::share, 0, detail::offer_bytes(right.offer())).kind ==
                  frame_kind::acknowledge);
      BOOST_CHECK(ask(stream, frame_kind::pull, in_segment, {}).kind == frame_kind::values);
    }
    {
      any_transport::stream stream = open();
      BOOST_CHECK_THROW(ask(stream, frame_kind::push_pull, in_segment, {}), error);  // the connection ends
    }
    {
      any_transport::stream stream = open();
      BOOST_CHECK_THROW(ask(stream, frame_kind::share, 0, std::vector<std::byte>(100'000)), error);
    }
  }
  honest.join();
  BOOST_TEST(now.w[0] == static_cast<float>(-step));
  ps.join();
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_worker_that_is_done_is_not_waited_for, T, transports) {
  all_well(run<T>(1, 3, [&](basic_server<T>& here) {
    parameter_client client(here, two_variables(1), consistency::synchronous, 7, 20s);
    client.initialise(values(0).in(), 20s);
    values gradient(1), now(0);
    const int steps = 5 + 5 * here.index();
    for (int step = 0; step < steps; ++step) client.push_pull(step, gradient.in(), now.out(), 20s);
    if (now.w[3] != static_cast<float>(-steps)) throw std::runtime_error("wrong mean");
    client.done(10s);
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(large_values_and_slow_readers, T, transports) {
  constexpr std::size_t elements = 3'000'000;  // 12 MB: answers are cut, and other updates come in between
  all_well(run<T>(1, 3, [&](basic_server<T>& here) {
    parameter_client client(here, two_variables(1, {"gradient_descent", {1.0}}, elements), consistency::asynchronous, 7,
                            20s);
    client.initialise(values(0, elements).in(), 20s);
    values gradient(1, elements), now(0, elements);
    for (int step = 0; step < 6; ++step) {
      client.push_pull(step, gradient.in(), now.out(), 30s);
      if (std::any_of(now.w.begin(), now.w.end(), [&](float x) { return x != now.w[0]; }))
        throw std::runtime_error("the snapshot is not consistent");
    }
    client.done(10s);
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(another_model_is_refused_in_words, T, transports) {
  std::atomic<int> first{0};
  const auto problems = run<T>(1, 6, [&](basic_server<T>& here) {
    here.wait_ready(20s);
    auto variables = two_variables(1);
    auto mode = consistency::asynchronous;
    std::uint64_t hash = 7;
    if (here.index() == 1) hash = 8;
    if (here.index() == 2) variables[0].elements = 999;
    if (here.index() == 3) variables[1].rule.parameters = {0.5};
    if (here.index() == 4) mode = consistency::synchronous;
    if (here.index() == 5) variables[0].rule = {"adam", {0.001, 0.9, 0.999, 1e-8}};
    while (here.index() != 0 && first == 0) std::this_thread::sleep_for(1ms);
    parameter_client client(here, variables, mode, hash, 20s);
    first = 1;
    client.done(10s);
  });
  BOOST_TEST(problems[0] == "");
  CHECK_SAYS(problems[1], "/job:worker/task:1 does not train the same model: its graph has hash 8");
  CHECK_SAYS(problems[2], "variable 'w' has 999 elements, but the first worker's has 1000");
  CHECK_SAYS(problems[3], "' is trained by gradient_descent with a different learning rate");
  CHECK_SAYS(problems[5], "variable 'w' is trained by adam, but the first worker's by gradient_descent");
  CHECK_SAYS(problems[4], "its training is synchronous, but the first worker's is asynchronous");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(whoever_waits_is_told_for_whom, T, transports) {
  const auto problems = run<T>(1, 2, [&](basic_server<T>& here) {
    parameter_client client(here, two_variables(1), consistency::synchronous, 7, 20s);
    values now(0);
    if (here.index() == 1) {
      try {
        client.initialise(1s);
      } catch (const error& problem) {
        if (problem.code() != error_code::deadline_exceeded || !contains(problem.what(), "/job:worker/task:0")) throw;
      }
    } else {
      std::this_thread::sleep_for(1500ms);
    }
    client.initialise(now.in(), 20s);
    if (here.index() == 0) client.push_pull(0, now.in(), now.out(), 1s);
    std::this_thread::sleep_for(1500ms);
    client.done(10s);
  });
  CHECK_SAYS(problems[0], "step 0 still waits for /job:worker/task:1");
  BOOST_TEST(problems[1] == "");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(mistakes_of_the_caller, T, transports) {
  all_well(run<T>(1, 1, [&](basic_server<T>& here) {
    const auto code_of = [](auto action) {
      try {
        action();
      } catch (const error& problem) {
        return problem.code();
      }
      return error_code::unknown;
    };
    auto elsewhere = two_variables(1);
    elsewhere[0].ps_task = 3;
    auto unknown_rule = two_variables(1);
    unknown_rule[0].rule.name = "magic";
    const auto open = [&](const auto& variables) {
      return code_of([&] { parameter_client(here, variables, consistency::asynchronous, 7, 20s); });
    };
    if (open(elsewhere) != error_code::invalid_argument) throw std::runtime_error("ps_task");
    if (open(unknown_rule) != error_code::not_found) throw std::runtime_error("rule");
    auto long_name = two_variables(1);
    long_name[0].name.assign(5000, 'w');
    const std::string too_long = test::failure(
        error_code::invalid_argument, [&] { parameter_client(here, long_name, consistency::asynchronous, 7, 20s); });
    if (!contains(too_long, "must have at most 4096 bytes; it has 5000")) throw std::runtime_error(too_long);
    const graph_identity wordy(7, 0, std::string(5000, 's'));  // settings are cut, by all alike
    parameter_client client(here, two_variables(1), consistency::asynchronous, wordy, 20s);
    values gradient(1), now(0), short_one(0, 10);
    const auto push = [&](auto& g, auto& o) { return code_of([&] { client.push_pull(0, g.in(), o.out(), 20s); }); };
    if (push(gradient, now) != error_code::failed_precondition) throw std::runtime_error("before initialise");
    client.initialise(now.in(), 20s);
    if (push(short_one, now) != error_code::invalid_argument) throw std::runtime_error("short gradient");
    if (push(gradient, short_one) != error_code::invalid_argument) throw std::runtime_error("short output");
    for (const std::int64_t step : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()})
      if (code_of([&] { client.push_pull(step, gradient.in(), now.out(), 20s); }) != error_code::invalid_argument)
        throw std::runtime_error("negative step");
    client.push_pull(0, gradient.in(), now.out(), 20s);  // the connection has survived it all
    client.push_pull(std::numeric_limits<std::int64_t>::max(), gradient.in(), now.out(), 20s);
    client.done(10s);
  }));
}

// ---- exactly once ----

BOOST_AUTO_TEST_CASE(workers_without_a_number_between_are_refused_at_once) {
  const std::string all = test::free_addresses(tcp(), 3);
  const std::size_t first = all.find(','), second = all.find(',', first + 1);
  const cluster_spec cluster{
      {"ps", all.substr(0, first)},
      {"worker", "1@" + all.substr(first + 1, second - first - 1) + ",2@" + all.substr(second + 1)}};
  server here(cluster, "worker", 1);
  BOOST_CHECK_EXCEPTION(parameter_client(here, two_variables(1), consistency::asynchronous, 7, 20s), error,
                        [](const error& e) {
                          return e.code() == error_code::failed_precondition &&
                                 contains(e.what(), "the tasks of job 'worker' must be numbered from 0 without gaps");
                        });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(one_client_after_the_other_goes_on_counting, T, transports) {
  all_well(run<T>(2, 1, [&](basic_server<T>& here) {
    values gradient(1), now(0);
    for (int client_number = 0; client_number < 3; ++client_number) {
      parameter_client client(here, two_variables(2), consistency::asynchronous, 7, 20s);
      if (client_number == 0) client.initialise(now.in(), 20s);
      if (client.first_step() != 10 * client_number) throw std::runtime_error("the count does not go on");
      for (int step = 0; step < 10; ++step) {
        client.push_pull(client.first_step() + step, gradient.in(), now.out(), 20s);
        if (client.was_duplicate()) throw std::runtime_error("taken for an earlier one");
      }
      if (client_number == 2) client.done(10s);
    }
    if (now.w[0] != -30.0f || now.b[0] != -30.0) throw std::runtime_error("some were dropped");
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_step_that_ran_out_of_time_is_repeated_and_nobody_else_suffers, T, transports) {
  std::atomic<int> late{0};
  all_well(run<T>(2, 2, [&](basic_server<T>& here) {
    parameter_client client(here, two_variables(2), consistency::synchronous, 7, 20s);
    values gradient(1), now(0);
    client.initialise(now.in(), 20s);
    for (int step = 0; step < 6; ++step) {
      if (here.index() == 1 && step % 2 == 1) std::this_thread::sleep_for(250ms);
      const auto limit = here.index() == 0 ? 100ms : 20s;
      for (bool made = false; !made;) try {
          client.push_pull(step, gradient.in(), now.out(), limit);
          made = true;
        } catch (const error& problem) {
          if (problem.code() != error_code::deadline_exceeded) throw;
          ++late;
        }
    }
    if (now.w[0] != -6.0f || now.b[9] != -6.0) throw std::runtime_error("not each step once");
    client.done(10s);
  }));
  BOOST_TEST(late >= 3);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(whoever_leaves_out_a_step_is_told_not_the_others, T, transports) {
  const auto problems = run<T>(1, 2, [&](basic_server<T>& here) {
    parameter_client client(here, two_variables(1), consistency::synchronous, 7, 20s);
    values gradient(1), now(0);
    client.initialise(now.in(), 20s);
    here.wait_ready(20s);
    if (here.index() == 0) {  // ahead, and there first
      try {
        client.push_pull(1, gradient.in(), now.out(), 20s);
      } catch (const error& problem) {
        if (problem.code() != error_code::aborted) throw;
      }
    } else {
      std::this_thread::sleep_for(200ms);
    }
    client.push_pull(0, gradient.in(), now.out(), 20s);
    client.done(10s);
    if (now.w[0] != -1.0f) throw std::runtime_error("not one step");
  });
  all_well(problems);
}

// ---- what is not to be applied ----

BOOST_AUTO_TEST_CASE_TEMPLATE(gradients_that_are_not_finite_are_refused_in_words, T, transports) {
  for (const auto mode : {consistency::asynchronous, consistency::synchronous})
    for (const int servers : {1, 2})
      all_well(run<T>(servers, mode == consistency::synchronous ? 2 : 1, [&](basic_server<T>& here) {
        parameter_client client(here, two_variables(servers, {"momentum", {1.0, 0.5}}, 5000), mode, 7, 20s);
        values gradient(1, 5000), now(0, 5000);
        client.initialise(now.in(), 20s);
        std::int64_t step = client.first_step();
        client.push_pull(step, gradient.in(), now.out(), 20s);
        ++step;
        if (here.index() == 0)
          for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity()})
            for (const bool wide : {false, true}) {
              values poison(1, 5000), before = now;
              if (wide)
                poison.b[7] = bad;
              else
                poison.w[4321] = static_cast<float>(bad);
              std::string said;
              try {
                client.push_pull(step, poison.in(), now.out(), 20s);
              } catch (const error& problem) {
                if (problem.code() != error_code::invalid_argument) throw;
                said = problem.what();
              }
              const std::string due = std::string("the gradient of '") + (wide ? "b" : "w") +
                                      "' from /job:worker/task:0 is not finite in step 1 (element " +
                                      (wide ? "7" : "4321") + ")";
              if (!contains(said, due)) throw std::runtime_error("says: " + said);
              client.pull(now.out(), 20s);
              if (now.w != before.w || now.b != before.b) throw std::runtime_error("applied by halves");
            }
        client.push_pull(step, gradient.in(), now.out(), 20s);  // a better one takes its place
        if (now.w[4321] != -2.5f || now.b[7] != -2.5) throw std::runtime_error("something of it was kept");
        client.done(10s);
      }));
}

BOOST_AUTO_TEST_CASE(gradients_that_are_not_finite_are_applied_where_one_says_so) {
  server_options options;
  options.not_finite = nonfinite_gradients::apply;
  for (const auto mode : {consistency::asynchronous, consistency::synchronous})
    all_well(run<in_process>(
        2, 1,
        [&](basic_server<in_process>& here) {
          parameter_client client(here, two_variables(2), mode, 7, 20s);
          values gradient(1), now(0);
          client.initialise(now.in(), 20s);
          gradient.w[3] = std::numeric_limits<float>::quiet_NaN();
          client.push_pull(0, gradient.in(), now.out(), 20s);
          if (!std::isnan(now.w[3]) || now.w[4] != -1.0f) throw std::runtime_error("not applied");
          client.done(10s);
        },
        nullptr, options));
}

// ---- words of peers ----

BOOST_AUTO_TEST_CASE(what_a_peer_says_cannot_write_on_the_terminal) {
  std::atomic<int> first{0};
  const auto problems = run<in_process>(1, 2, [&](basic_server<in_process>& here) {
    here.wait_ready(20s);
    auto variables = two_variables(1);
    if (here.index() == 1) {
      variables[0].name = "\x1b[2J\x1b]0;yours\x07w\n";
      while (first == 0) std::this_thread::sleep_for(1ms);
    }
    parameter_client client(here, variables, consistency::asynchronous, 7, 20s);
    first = 1;
    client.done(10s);
  });
  CHECK_SAYS(problems[1], "variable 0 is '\\x1b[2J\\x1b]0;yours\\x07w\\x0a', but the first worker's is 'w'");
  for (const char c : problems[1]) BOOST_TEST(static_cast<unsigned char>(c) >= 0x20);
}

// ---- no wait without an end ----

BOOST_AUTO_TEST_CASE_TEMPLATE(a_worker_that_asks_for_nothing_does_not_hold_a_server, T, transports) {
  T network;
  const auto cluster = test::local_cluster(1, 3, network);
  std::vector<join_report> reports(1);
  std::atomic<bool> over{false};
  server_options options;
  options.idle_worker = 600ms;
  std::vector<std::thread> tasks;
  tasks.emplace_back([&] {
    basic_server<T> here(cluster, "ps", 0, options, network);
    reports[0] = here.join(20s, 60s);
    over = true;
  });
  for (int index = 0; index < 3; ++index)
    tasks.emplace_back([&, index] {
      basic_server<T> here(cluster, "worker", index, {}, network);
      here.wait_ready(20s);
      std::optional<parameter_client> client;
      values gradient(1), now(0);
      if (index != 2) client.emplace(here, two_variables(1), consistency::asynchronous, 7, 20s);
      if (index == 0) {
        client->initialise(now.in(), 20s);
        for (int step = 0; step < 20; ++step) {  // slow, but it goes on
          client->push_pull(step, gradient.in(), now.out(), 20s);
          std::this_thread::sleep_for(60ms);
        }
        client->done(10s);
      }
      for (const deadline until = 20s; !over && !until.expired();) std::this_thread::sleep_for(5ms);
    });
  for (std::thread& each : tasks) each.join();
  BOOST_REQUIRE(reports[0].finished.size() == 1u);
  BOOST_REQUIRE(reports[0].lost.size() == 2u);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK_SAYS(reports[0].lost[i],
               "/job:worker/task:" + std::to_string(i + 1) + " is alive, but has sent no request for");
}

BOOST_AUTO_TEST_CASE(a_request_that_stops_in_the_middle_is_given_up) {
  const auto cluster = test::local_cluster(1, 1);
  server_options options;
  options.stalled = 300ms;
  join_report report;
  std::thread ps([&] {
    server here(cluster, "ps", 0, options);
    report = here.join(20s, 20s);
  });
  auto worker = std::make_unique<server>(cluster, "worker", 0);
  server& here = *worker;
  here.wait_ready(10s);
  for (const std::size_t part : {std::size_t{10}, std::size_t{64}, std::size_t{70}}) {
    auto stream = here.open_channel(here.cluster().rank({"ps", 0}), "parameters", 10s).stream;
    frame_header header;
    header.kind = frame_kind::enroll;
    header.payload_length = 100;
    const auto bytes = encode(header);
    std::vector<std::byte> all(bytes.begin(), bytes.end());
    all.resize(164);
    const const_bytes piece = std::span(all).first(part);
    stream.write_some({&piece, 1});
    std::array<std::byte, 64> some;
    const mutable_bytes into(some);
    const auto start = std::chrono::steady_clock::now();
    BOOST_CHECK_EXCEPTION(
        while (test::seconds_since(start) < 10) {
          stream.read_some({&into, 1});
          std::this_thread::sleep_for(1ms);
        },
        error, test::says(error_code::unavailable));
    BOOST_TEST(test::seconds_since(start) < 5 + test::slack);
  }
  worker.reset();
  ps.join();
  BOOST_REQUIRE(report.lost.size() == 1u);
}

namespace {

std::vector<parameter_spec> a_table(std::size_t row_elements = 4) {
  return {{"bias", element_type::float32, 3, 0, {"gradient_descent", {1.0}}},
          {"table", element_type::float32, 4000, 0, {"gradient_descent", {1.0}}, row_elements}};
}

/// One worker's copy of a_table().
struct table_values {
  std::vector<float> bias = std::vector<float>(3), table = std::vector<float>(4000);
  std::vector<const_bytes> in() const { return {std::as_bytes(std::span(bias)), std::as_bytes(std::span(table))}; }
  std::vector<mutable_bytes> out() {
    return {std::as_writable_bytes(std::span(bias)), std::as_writable_bytes(std::span(table))};
  }
};

/// A gradient of some rows.
struct row_gradient {
  std::vector<float> bias = {1, 1, 1};
  std::vector<std::byte> rows;
  row_gradient(const std::vector<std::int64_t>& numbers, float x) : rows(numbers.size() * (8 + 16)) {
    if (numbers.empty()) return;
    std::memcpy(rows.data(), numbers.data(), 8 * numbers.size());
    for (std::size_t i = 0; i < 4 * numbers.size(); ++i)
      std::memcpy(rows.data() + 8 * numbers.size() + 4 * i, &x, sizeof x);
  }
  std::vector<const_bytes> in() const { return {std::as_bytes(std::span(bias)), const_bytes(rows)}; }
};

}  // namespace

// Each worker is told what the others have changed, whatever lies between two of its answers.
BOOST_AUTO_TEST_CASE_TEMPLATE(rows_travel_alone, T, transports) {
  constexpr int steps = 60;
  for (const bool shared : {false, true}) {
    server_options options;
    options.shared_memory = shared;
    all_well(run<T>(
        1, 2,
        [&](basic_server<T>& here) {
          parameter_client client(here, a_table(), consistency::asynchronous, 7, 20s);
          client.initialise(table_values().in(), 20s);
          table_values now, elsewhere, all;
          client.pull(now.out(), 20s);
          for (int step = 0; step < steps; ++step) {
            const std::int64_t at = here.index() == 0 ? step % 9 * 100 : 999 - step;
            // Once in a while many, and sometimes to another place, so that all values are due.
            std::vector<std::int64_t> numbers{at};
            for (std::int64_t k = at + 1; step % 20 == 7 && k < 1000; ++k) numbers.push_back(k);
            table_values& to = step % 13 == 5 ? elsewhere : now;
            client.push_pull(client.first_step() + step, row_gradient(numbers, 1).in(), to.out(), 20s);
            if (step % 13 == 5) client.push_pull(client.first_step() + step, row_gradient({}, 1).in(), now.out(), 20s);
            for (const std::int64_t k : numbers)
              test::require_in_task(now.table[static_cast<std::size_t>(4 * k)] <= -1, "a worker's own rows are back");
          }
          if (here.index() == 1) {
            client.done(20s);
          } else {  // Once no more come, what was brought in parts is what there is.
            for (const deadline until = 20s; !until.expired() && all.bias[0] > -2 * steps;) client.pull(all.out(), 20s);
            test::require_in_task(all.bias[0] == -2.0f * steps, "all steps count");
            client.push_pull(client.first_step() + steps, row_gradient({}, 1).in(), elsewhere.out(), 20s);
            client.pull(all.out(), 20s);
            test::require_in_task(elsewhere.table == all.table, "parts and the whole agree");
            float sum = 0, expected = 0;
            for (const float x : all.table) sum += x;
            for (int step = 0; step < steps; ++step)
              for (const std::int64_t first : {step % 9 * 100, 999 - step})
                expected -= step % 20 == 7 ? 4.0f * static_cast<float>(1000 - first) : 4.0f;
            test::require_in_task(sum == expected, "the sum of all rows");
            client.done(20s);
          }
        },
        nullptr, options));
  }
}

BOOST_AUTO_TEST_CASE(rows_that_nobody_may_send_are_refused_and_the_connection_goes_on) {
  server_options options;
  options.min_workers = 1;  // the training goes on without the worker that is rejected
  all_well(run<in_process>(
      1, 2,
      [](basic_server<in_process>& here) {
        parameter_client client(here, a_table(), consistency::asynchronous, 7, 20s);
        client.initialise(table_values().in(), 20s);
        table_values now;
        if (here.index() == 1) {  // as a worker that does not know how
          const auto refusal = [](auto& stream, frame_kind kind, const std::vector<std::byte>& payload) -> std::string {
            const answered got = ask(stream, kind, 0, payload);
            if (got.kind == frame_kind::heartbeat) return "no answer";
            return got.kind == frame_kind::failure ? detail::read_error(got.payload, "").sentence() : "";
          };
          auto stream = here.open_channel(here.cluster().rank({"ps", 0}), "parameters", 20s).stream;
          const auto enroll = detail::enroll_message{consistency::asynchronous, 7, a_table()}.bytes();
          const auto refused = [&](const std::vector<std::byte>& payload, const std::string& words) {
            test::require_says_in_task(refusal(stream, frame_kind::push_pull, payload), words);
          };
          const auto ends = [&](auto& connection, const std::vector<std::byte>& payload) {
            try {
              refusal(connection, frame_kind::push_pull, payload);
            } catch (const error&) {
              return;
            }
            test::require_in_task(false, "the connection ends");
          };
          test::require_in_task(refusal(stream, frame_kind::enroll, enroll).empty(), "it enrolls");
          const auto gradient = [](std::uint64_t count, const std::vector<std::int64_t>& numbers, std::size_t floats) {
            std::vector<std::byte> bytes(16 + 8);
            std::memcpy(bytes.data() + 16, &count, 8);
            const auto* from = reinterpret_cast<const std::byte*>(numbers.data());
            bytes.insert(bytes.end(), from, from + 8 * numbers.size());
            bytes.resize(bytes.size() + 4 * floats);
            return bytes;
          };
          refused(gradient(1, {1000}, 4), "the index 1000, which is not in [0, 1000)");
          refused(gradient(2, {7, 7}, 8), "index 7 after 7");
          refused(gradient(std::uint64_t{1} << 61, {}, 0), "has bytes for 0");
          refused(gradient(1, {3}, 5), "4 bytes follow them");
          test::require_in_task(refusal(stream, frame_kind::push_pull, gradient(1, {3}, 4)).empty(),
                                "a right one counts");
          ends(stream, std::vector<std::byte>(16));
          auto another = here.open_channel(here.cluster().rank({"ps", 0}), "parameters", 20s).stream;
          test::require_in_task(refusal(another, frame_kind::enroll, enroll).empty(), "it enrolls again");
          ends(another, std::vector<std::byte>(16 + 8 + 1001 * 24));
        } else {
          const auto refused = [&](const row_gradient& g, const std::string& words) {
            test::require_says_in_task(
                test::failure(error_code::invalid_argument, [&] { client.push_pull(0, g.in(), now.out(), 20s); }),
                words);
          };
          refused({{5, 4}, 1}, "index 4 after 5");
          refused({{-1}, 1}, "the index -1, which is not in [0, 1000)");
          refused({{3, 70}, std::numeric_limits<float>::infinity()}, "'table' from");
          refused({{3, 70}, std::numeric_limits<float>::infinity()}, "(element 12)");
          client.push_pull(0, row_gradient({3, 70}, 2).in(), now.out(), 20s);
          test::require_in_task(now.table[12] == -2 && now.table[283] == -2 && now.table[0] == 0,
                                "the right rows change");
          client.push_pull(0, row_gradient({3, 70}, 2).in(), now.out(), 20s);  // again: it counts once
          test::require_in_task(client.was_duplicate() && now.table[12] == -2, "a step counts once");
          test::require_says_in_task(
              test::failure(error_code::failed_precondition,
                            [&] { parameter_client(here, a_table(8), consistency::asynchronous, 7, 20s); }),
              "sparse or dense");
        }
        parameter_client(here, a_table(), consistency::asynchronous, 7, 20s).done(20s);
      },
      nullptr, options));
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep memory
// Beside the values a server maps what each worker of its host shares with it, the values and the gradients.
BOOST_AUTO_TEST_CASE(a_server_needs_no_second_copy_of_a_large_variable) {
  constexpr std::size_t elements = std::size_t{16} << 20, bytes = 4 * elements;
  const auto peak = [] {
    std::ifstream status("/proc/self/status");
    std::string word;
    std::size_t kilobytes = 0;
    while (status >> word && word != "VmHWM:") {
    }
    status >> kilobytes;
    return 1024 * kilobytes;
  };
  for (const consistency mode : {consistency::synchronous, consistency::asynchronous})
    for (const bool shared : {true, false}) {
      const cluster_spec cluster = test::local_cluster(1, 1);
      server_options options;
      options.shared_memory = shared;
      test::process serves([&] {
        server here(cluster, "ps", 0, options);
        const std::size_t before = peak();
        here.join(20s, 60s);
        return std::to_string(peak() - before);
      });
      test::process works([&]() -> std::string {
        server here(cluster, "worker", 0, options);
        parameter_client client(here, {{"w", element_type::float32, elements, 0, {"gradient_descent", {0.5}}}}, mode, 7,
                                20s);
        std::vector<float> w(elements, 1), g(elements, 1);
        const const_bytes gradient = std::as_bytes(std::span(g)), first = std::as_bytes(std::span(w));
        const mutable_bytes out = std::as_writable_bytes(std::span(w));
        client.initialise({&first, 1}, 20s);
        for (int step = 0; step < 2; ++step) client.push_pull(step, {&gradient, 1}, {&out, 1}, 20s);
        client.done(10s);
        return w.front() == 0 && w.back() == 0 ? "done" : "other values";
      });
      BOOST_TEST(works.text() == "done");
      const double copies = std::stod(serves.text()) / static_cast<double>(bytes);
      BOOST_TEST_INFO((shared ? "shared memory, " : "the connection, ") << static_cast<int>(mode));
      BOOST_TEST(copies < (shared ? 3.25 : 2.25));
    }
}
#endif

// SPDX-License-Identifier: BSL-1.0
#pragma once

#pragma GCC system_header  // comparisons convert as the tests mean them to

// The part of Boost.Test that Weft's tests use, for compiling them by nvcc: a GPU machine need not have Boost, and this
// compiles in no time. Found before Boost's own by the programs in test/cuda alone.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

// Names of test cases that do not run, with blanks between them.
namespace standin {

struct test_case {
  const char* name;
  void (*run)();
};
inline std::vector<test_case>& cases() {
  static std::vector<test_case> all;
  return all;
}
struct enter {
  enter(const char* name, void (*run)()) { cases().push_back({name, run}); }
};

struct give_up {};

inline int failures = 0;
inline const char* current = "";
inline std::vector<std::string> contexts;

inline void report(const char* file, int line, const std::string& what) {
  ++failures;
  std::printf("%s(%d): in \"%s\": %s", file, line, current, what.c_str());
  for (const std::string& c : contexts) std::printf(" [%s]", c.c_str());
  std::printf("\n");
}

template <class T>
std::string text(const T& value) {
  if constexpr (requires(std::ostream& o) { o << value; }) {
    std::ostringstream out;
    out.precision(17);
    out << value;
    return out.str();
  } else {
    return "a value";
  }
}

inline bool check(bool good, const char* file, int line, const std::string& what) {
  if (!good) report(file, line, what);
  return good;
}
inline void require(bool good) {
  if (!good) throw give_up{};
}

template <class A, class B>
bool equal(const A& a, const B& b) {
  if constexpr (requires { std::strcmp(a, b); })
    return std::strcmp(a, b) == 0;
  else
    return a == b;
}

template <class A, class B>
bool close(A a, B b, double percent) {
  const double x = static_cast<double>(a), y = static_cast<double>(b), d = std::fabs(x - y);
  return d <= std::fabs(x) * percent / 100 && d <= std::fabs(y) * percent / 100;
}

struct context {
  explicit context(const std::string& what) { contexts.push_back(what); }
  ~context() { contexts.pop_back(); }
  explicit operator bool() const { return true; }
};

/// Runs them all but those left out, or the one that --run_test=NAME names; returns what main returns, as Boost.Test.
inline int run(int count, char** arguments, const std::string& leaves_out = "") {
  const char* const program = arguments[0];
  std::string wanted;
  for (int i = 1; i < count; ++i)
    if (const std::string given = arguments[i]; given.rfind("--run_test=", 0) == 0) wanted = given.substr(11);
  int broken = 0;
  const std::string left_out = std::string(" ") + leaves_out + " ";
  for (const test_case& c : cases()) {
    current = c.name;
    if (!wanted.empty() && wanted != c.name) continue;
    if (left_out.find(std::string(" ") + c.name + " ") != std::string::npos) continue;
    const int before = failures;
    try {
      c.run();
    } catch (const give_up&) {
    } catch (const std::exception& e) {
      report(program, 0, std::string("threw: ") + e.what());
    }
    broken += failures != before;
  }
  std::printf("%s: %zu test cases, %d failed\n", program, cases().size(), broken);
  return broken ? 201 : 0;
}

}  // namespace standin

#define BOOST_AUTO_TEST_CASE(name)                                        \
  static void weft_test_##name();                                         \
  static const standin::enter weft_enter_##name(#name, weft_test_##name); \
  static void weft_test_##name()
#define BOOST_FIXTURE_TEST_CASE(name, fixture)                     \
  namespace {                                                      \
  struct weft_fixture_##name : fixture {                           \
    void weft_run();                                               \
  };                                                               \
  }                                                                \
  BOOST_AUTO_TEST_CASE(name) { weft_fixture_##name().weft_run(); } \
  void weft_fixture_##name::weft_run()
#define BOOST_AUTO_TEST_SUITE(name) namespace name {
#define BOOST_AUTO_TEST_SUITE_END() }

#define STANDIN_CHECK(good, what) standin::check((good), __FILE__, __LINE__, what)
#define STANDIN_COMPARE(a, b, good, sign)                                                                           \
  [&](const auto& weft_a, const auto& weft_b) {                                                                     \
    return standin::check(                                                                                          \
        good, __FILE__, __LINE__,                                                                                   \
        std::string(#a " " sign " " #b " has failed: ") + standin::text(weft_a) + " and " + standin::text(weft_b)); \
  }(a, b)

#define BOOST_TEST(...) STANDIN_CHECK(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__ " has failed")
#define BOOST_CHECK(...) STANDIN_CHECK(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__ " has failed")
#define BOOST_CHECK_MESSAGE(good, message)                 \
  [&] {                                                    \
    const bool weft_good = static_cast<bool>(good);        \
    if (!weft_good) {                                      \
      std::ostringstream weft_out;                         \
      weft_out << message;                                 \
      standin::report(__FILE__, __LINE__, weft_out.str()); \
    }                                                      \
    return weft_good;                                      \
  }()
#define BOOST_ERROR(message) BOOST_CHECK_MESSAGE(false, message)
#define BOOST_FAIL(message) standin::require(BOOST_CHECK_MESSAGE(false, message))
#define BOOST_CHECK_EQUAL(a, b) STANDIN_COMPARE(a, b, standin::equal(weft_a, weft_b), "==")
#define BOOST_CHECK_NE(a, b) STANDIN_COMPARE(a, b, !standin::equal(weft_a, weft_b), "!=")
#define BOOST_CHECK_LT(a, b) STANDIN_COMPARE(a, b, weft_a < weft_b, "<")
#define BOOST_CHECK_LE(a, b) STANDIN_COMPARE(a, b, weft_a <= weft_b, "<=")
#define BOOST_CHECK_GT(a, b) STANDIN_COMPARE(a, b, weft_a > weft_b, ">")
#define BOOST_CHECK_GE(a, b) STANDIN_COMPARE(a, b, weft_a >= weft_b, ">=")
#define BOOST_CHECK_CLOSE(a, b, percent) STANDIN_COMPARE(a, b, standin::close(weft_a, weft_b, percent), "is close to")
#define BOOST_CHECK_SMALL(a, tolerance) \
  STANDIN_COMPARE(a, tolerance, std::fabs(static_cast<double>(weft_a)) <= static_cast<double>(weft_b), "within")
#define BOOST_CHECK_THROW(statement, type)                           \
  do {                                                               \
    bool weft_thrown = false;                                        \
    try {                                                            \
      statement;                                                     \
    } catch (const type&) {                                          \
      weft_thrown = true;                                            \
    }                                                                \
    STANDIN_CHECK(weft_thrown, #statement " does not throw " #type); \
  } while (false)
#define BOOST_CHECK_EXCEPTION(statement, type, predicate)                               \
  do {                                                                                  \
    bool weft_thrown = false;                                                           \
    try {                                                                               \
      statement;                                                                        \
    } catch (const type& weft_e) {                                                      \
      weft_thrown = true;                                                               \
      STANDIN_CHECK(predicate(weft_e), std::string("another error: ") + weft_e.what()); \
    }                                                                                   \
    STANDIN_CHECK(weft_thrown, #statement " does not throw " #type);                    \
  } while (false)
#define BOOST_CHECK_NO_THROW(statement) statement

#define BOOST_REQUIRE(...) standin::require(BOOST_CHECK(__VA_ARGS__))
#define BOOST_REQUIRE_MESSAGE(good, message) standin::require(BOOST_CHECK_MESSAGE(good, message))
#define BOOST_REQUIRE_EQUAL(a, b) standin::require(BOOST_CHECK_EQUAL(a, b))
#define BOOST_REQUIRE_LE(a, b) standin::require(BOOST_CHECK_LE(a, b))
#define BOOST_REQUIRE_CLOSE(a, b, percent) standin::require(BOOST_CHECK_CLOSE(a, b, percent))
#define BOOST_REQUIRE_SMALL(a, tolerance) standin::require(BOOST_CHECK_SMALL(a, tolerance))
#define BOOST_TEST_REQUIRE(...) standin::require(BOOST_TEST(__VA_ARGS__))
#define BOOST_TEST_CONTEXT(what)                \
  if (const standin::context weft_context{[&] { \
        std::ostringstream weft_out;            \
        weft_out << what;                       \
        return weft_out.str();                  \
      }()})
#define BOOST_TEST_MESSAGE(message)
#define BOOST_TEST_INFO(message)

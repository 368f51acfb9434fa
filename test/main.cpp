// SPDX-License-Identifier: BSL-1.0
#define BOOST_TEST_MODULE weft
#if defined(WITHOUT_LIBRARIES)
  #include <boost/test/included/unit_test.hpp>
#else
  #define BOOST_TEST_DYN_LINK
  #include <boost/test/unit_test.hpp>
#endif
#include <boost/test/tree/observer.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

/// Boost.Test's checks are for the main thread alone, even those that hold: each writes down where the test is. A check
/// in another thread fails one time in a hundred, with an error that has nothing to do with the test.
class main_thread_alone : boost::unit_test::test_observer {
 public:
  main_thread_alone() { boost::unit_test::framework::register_observer(*this); }
  ~main_thread_alone() override { boost::unit_test::framework::deregister_observer(*this); }

 private:
  void assertion_result(boost::unit_test::assertion_result) override {
    if (std::this_thread::get_id() == main_) return;
    std::fputs("a check of Boost.Test in another thread than the main one\n", stderr);
    std::abort();
  }
  const std::thread::id main_ = std::this_thread::get_id();
};
BOOST_TEST_GLOBAL_FIXTURE(main_thread_alone);

}  // namespace

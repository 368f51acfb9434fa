// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <weft/graph/device_spec.hpp>

#include "errors.hpp"

using namespace weft;

namespace {

constexpr bool equal(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

constexpr device_spec whole = "/job:ps/task:12/device:CPU:3"_device;
static_assert(equal(whole.job, "ps") && whole.task == 12 && equal(whole.kind, "CPU") && whole.ordinal == 3);
static_assert(""_device == device_spec() && "/device:cpu:3"_device == device_spec(cpu{3}));
static_assert(!"/task:0"_device.has_job() && "/task:0"_device.task == 0 && "/task:0"_device.ordinal == -1);
static_assert("/job:worker/replica:0/task:1/device:GPU:0"_device.ordinal == 0);
static_assert(merge("/job:ps/task:1/device:CPU:0"_device, "/task:2"_device) == "/job:ps/task:2/device:CPU:0"_device);
static_assert(merge("/job:ps"_device, ""_device) == "/job:ps"_device &&
              merge(""_device, "/job:ps"_device) == "/job:ps"_device);
static_assert("/cpu:0"_device == device_spec(cpu{0}) && "/GPU:1"_device == device_spec(cuda{1}));
static_assert("/job:worker/task:1/cpu:0"_device == "/job:worker/task:1/device:CPU:0"_device);
static_assert("/device:Gpu:2"_device == device_spec(cuda{2}) && "/cpu:2/task:3/job:ps"_device.task == 3);
static_assert("/"_device == ""_device && "/job:*/task:*/device:*"_device == ""_device);
static_assert("/job:ps/task:*"_device == "/job:ps"_device && "/device:CPU:*"_device == "/device:CPU"_device);
static_assert("/gpu:*"_device == "/device:GPU"_device && "/replica:*/task:1"_device == "/task:1"_device);
static_assert(merge("/job:ps/task:1"_device, "/task:*/gpu:0"_device) == "/job:ps/task:1/device:GPU:0"_device);

}  // namespace

BOOST_AUTO_TEST_CASE(names_survive_a_round_trip) {
  for (const char* name :
       {"", "/job:ps", "/job:ps/task:12/device:CPU:3", "/device:CPU", "/task:0", "/job:worker_2/device:GPU:1"})
    BOOST_CHECK_EQUAL(to_string(parse_device(name, std::strlen(name))), name);
}

BOOST_AUTO_TEST_CASE(malformed_names_are_refused) {
  const std::string long_name(40, 'x');
  for (const std::string& name : {std::string("ps"),
                                  std::string("//"),
                                  std::string("/cpu"),
                                  std::string("/cpu:"),
                                  std::string("/cpu:0/gpu:0"),
                                  std::string("/device:CPU:0/device:CPU:0"),
                                  std::string("/cpux:0"),
                                  std::string("/task:*1"),
                                  std::string("/**"),
                                  std::string("/job"),
                                  std::string("/job:"),
                                  std::string("/job:/task:0"),
                                  std::string("/jobs:ps"),
                                  std::string("/task:"),
                                  std::string("/task:x"),
                                  std::string("/task:-1"),
                                  std::string("/task:99999999999"),
                                  std::string("/device:"),
                                  std::string("/device:GPV:0"),
                                  std::string("/device:CPU:"),
                                  std::string("/device:CPU:x"),
                                  std::string("/device:CPU:0/"),
                                  std::string("/job:ps "),
                                  std::string("job:ps"),
                                  std::string("/job:p s"),
                                  std::string("/device:3"),
                                  std::string("/job:1ps"),
                                  ("/job:" + long_name),
                                  ("/device:" + long_name)}) {
    BOOST_TEST_INFO(name);
    BOOST_CHECK_EXCEPTION(parse_device(name.data(), name.size()), error,
                          test::says(error_code::invalid_argument, "/job:NAME/task:N/device:KIND:N"));
  }
}

BOOST_AUTO_TEST_CASE(devices_have_no_negative_numbers) {
  const auto refused = [](const error& e) { return e.code() == error_code::invalid_argument; };
  BOOST_CHECK_EXCEPTION(device_spec(cpu{-3}), error, refused);
  BOOST_CHECK_EXCEPTION(device_spec(cuda{-1}), error, refused);
}

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <weft/text.hpp>

namespace weft {

/// The kind of failure that an error reports: the canonical codes of gRPC and TensorFlow.
enum class error_code : unsigned char {
  cancelled = 1,
  unknown,
  invalid_argument,
  deadline_exceeded,
  not_found,
  already_exists,
  permission_denied,
  resource_exhausted,
  failed_precondition,
  aborted,
  out_of_range,
  unimplemented,
  internal,
  unavailable,
  data_loss,
  unauthenticated,
};

/// Returns the code's name as in TensorFlow's messages, in lower case.
constexpr const char* name(error_code code) {
  constexpr const char* names[] = {
      "ok",        "cancelled",      "unknown",           "invalid_argument",   "deadline_exceeded",
      "not_found", "already_exists", "permission_denied", "resource_exhausted", "failed_precondition",
      "aborted",   "out_of_range",   "unimplemented",     "internal",           "unavailable",
      "data_loss", "unauthenticated"};
  const auto index = static_cast<unsigned>(code);
  return index < sizeof names / sizeof *names ? names[index] : "unknown";
}

/// The type of all exceptions that Weft throws: a code, the operation that failed, and a message that says what to do.
class WEFT_API error : public std::exception {
 public:
  // Not inlined: errors are constructed in many places, but rarely at run time.
  error(error_code code, piece operation, std::initializer_list<piece> sentence);
  error(error_code code, piece operation, piece sentence);

  error_code code() const noexcept { return code_; }

  // The codes are also members, for code in which another error_code is visible: `e.code() == error::not_found` works
  // under `using namespace std`.
  static constexpr error_code cancelled = error_code::cancelled, unknown = error_code::unknown,
                              invalid_argument = error_code::invalid_argument,
                              deadline_exceeded = error_code::deadline_exceeded, not_found = error_code::not_found,
                              already_exists = error_code::already_exists,
                              permission_denied = error_code::permission_denied,
                              resource_exhausted = error_code::resource_exhausted,
                              failed_precondition = error_code::failed_precondition, aborted = error_code::aborted,
                              out_of_range = error_code::out_of_range, unimplemented = error_code::unimplemented,
                              internal = error_code::internal, unavailable = error_code::unavailable,
                              data_loss = error_code::data_loss, unauthenticated = error_code::unauthenticated;

  /// The operation's name, given by the user or derived by Weft; empty if no operation caused the error.
  const std::string& operation() const noexcept { return operation_; }

  /// The message without the operation's name, to rethrow it under another name.
  const char* sentence() const noexcept { return message_.c_str() + (operation_.empty() ? 0 : operation_.size() + 2); }

  /// "operation: sentence".
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  error_code code_;
  std::string operation_;
  std::string message_;
};

#if WEFT_DEFINITIONS

WEFT_COLD_BEGIN

__attribute__((noinline)) WEFT_DECL error::error(error_code code, piece operation,
                                                 std::initializer_list<piece> sentence)
    : code_(code) {
  operation.append_to(operation_);
  if (!operation_.empty()) append(message_, {operation, ": "});
  append(message_, sentence);
}
__attribute__((noinline)) WEFT_DECL error::error(error_code code, piece operation, piece sentence)
    : error(code, operation, {sentence}) {}

WEFT_COLD_END

#endif

}  // namespace weft

// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <weft/transport/opaque.hpp>
#include <weft/transport/separate.hpp>

namespace weft {

/// The credentials of a task for encrypted connections: its certificate, the certificate's key, and the authority that
/// has signed the certificates of all tasks. Both sides of a connection present a certificate (mutual TLS 1.3, RFC
/// 8446). A certificate names its task by a URI in its subjectAltName: weft:/job:worker/task:1, or weft:/job:worker for
/// all tasks of that job. It can contain several names.
class tls_credentials {
 public:
  tls_credentials(const tls_credentials& other);
  tls_credentials(tls_credentials&& other) noexcept;
  tls_credentials& operator=(const tls_credentials& other);
  tls_credentials& operator=(tls_credentials&& other) noexcept;
  ~tls_credentials();

  /// Reads PEM files. The certificate's file may also contain intermediate certificates.
  /// Throws weft::error: not_found for a missing file; permission_denied for a key that other users can read;
  /// invalid_argument for a file with the wrong contents or a key of another certificate; failed_precondition if this
  /// program was built without OpenSSL.
  static tls_credentials from_files(const std::string& certificate, const std::string& key,
                                    const std::string& authority);

  /// Reads the files that WEFT_TLS_CERT, WEFT_TLS_KEY and WEFT_TLS_CA name. Returns nothing if none of them is set.
  /// Throws weft::error: invalid_argument if only some are set, and the errors of from_files().
  static std::optional<tls_credentials> from_environment();

  /// Returns why peers reject the certificate because of its dates, or an empty string if it is valid by this machine's
  /// clock.
  std::string date_problem() const;

  /// The certificate's file, for messages.
  const std::string& origin() const { return certificate_; }
  /// The authority's file, for messages.
  const std::string& authority() const { return authority_; }

 private:
  friend class detail::tls_session;
  tls_credentials() = default;

  std::shared_ptr<void> context_;  // an SSL_CTX
  std::string certificate_, authority_;
};

}  // namespace weft

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <weft/transport/tls_session.hpp>
#endif

#pragma once

#include <memory>
#include <optional>
#include <string>

#include <weft/transport/opaque.hpp>
#include <weft/transport/separate.hpp>

namespace weft {

/// The credentials that a task shows to others, and expects of them, where what travels is encrypted: its certificate,
/// the certificate's key, and the authority that has signed the certificates of all tasks. Both sides of a connection
/// show theirs (mutual TLS 1.3, RFC 8446). A certificate names its task as a URI in its subjectAltName:
/// weft:/job:worker/task:1, or weft:/job:worker for all tasks of that job; it may have several.
class tls_credentials {
 public:
  tls_credentials(const tls_credentials& other);
  tls_credentials(tls_credentials&& other) noexcept;
  tls_credentials& operator=(const tls_credentials& other);
  tls_credentials& operator=(tls_credentials&& other) noexcept;
  ~tls_credentials();

  /// From PEM files; that of the certificate may hold intermediate ones too.
  /// Throws weft::error: not_found for a file that is not there, permission_denied for a key that others could read,
  /// invalid_argument for a file that does not hold what it should or a key of another certificate, failed_precondition
  /// where this program was built without OpenSSL.
  static tls_credentials from_files(const std::string& certificate, const std::string& key,
                                    const std::string& authority);

  /// From the files that WEFT_TLS_CERT, WEFT_TLS_KEY and WEFT_TLS_CA name; nothing where none of them is set.
  /// Throws weft::error: invalid_argument where only some are set, and as from_files().
  static std::optional<tls_credentials> from_environment();

  /// Why others reject the certificate because of its dates; empty where this machine's clock is between them.
  std::string date_problem() const;

  /// The certificate's file, for messages.
  const std::string& origin() const { return certificate_; }
  /// The authority's.
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

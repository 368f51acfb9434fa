// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(WEFT_HAS_OPENSSL)
  #include <openssl/err.h>
  #include <openssl/ssl.h>
  #include <openssl/x509v3.h>
#endif

#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/transport/frame.hpp>
#include <weft/transport/frame_authentication.hpp>
#include <weft/transport/opaque.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/tls.hpp>
#include <weft/transport/transport.hpp>

namespace weft {

namespace detail {

/// One side of a TLS connection on a non-blocking socket, with the functions of a byte_stream. After a failure, it
/// throws the error once. It then drops all output, and reads and drops all input until the other side closes the
/// connection: closing earlier could lose the alert that reports the reason.
class tls_session {
 public:
  /// The first reads and writes perform the handshake.
  tls_session(const tls_credentials& mine, int descriptor, bool dials);
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;

  /// Throws weft::error: unauthenticated if one side rejects the other's certificate, failed_precondition if the other
  /// side does not use TLS, data_loss for data changed in transit, unavailable if the other side has closed the
  /// connection.
  std::size_t read_some(std::span<const mutable_bytes> into);
  /// Returns the number of bytes accepted. The caller must offer the rest again, unchanged.
  std::size_t write_some(std::span<const const_bytes> from);

  /// Returns true if OpenSSL has read data that the caller has not.
  bool has_more() const { return more_; }
  /// Returns the events for poll().
  short events(bool read, bool write) const;

  /// Returns true if the certificate of the other side contains this name, "/job:worker/task:1", or the name of its
  /// job.
  bool certifies(std::string_view name) const;
  /// The names in the certificate of the other side, for messages.
  std::string certified_names() const;

 private:
#if defined(WEFT_HAS_OPENSSL)
  struct release {
    void operator()(SSL* session) const { SSL_free(session); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(BIO* bio) const { BIO_free(bio); }
    void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
  };
  friend class weft::tls_credentials;

  static std::vector<std::string> names_of(X509* certificate);
  static std::string joined(const std::vector<std::string>& names);
  static std::string date_of(const X509* certificate, bool last);
  static BIO_METHOD* socket_method();
  static int read_socket(BIO* from, char* to, int size);
  static int write_socket(BIO* to, const char* from, int size);
  static int verify(int verdict, X509_STORE_CTX* chain);

  void flush();
  error describe(int result);
  std::vector<std::string> peer_names() const;

  tls_credentials mine_;
  std::unique_ptr<SSL, release> session_;
  int descriptor_ = -1;
  bool closed_ = false;
  bool has_heard_ = false, is_plain_ = false;  // input has arrived; it began a frame without TLS
  std::vector<char> out_;                      // encrypted bytes to send
  std::size_t held_ = 0;   // 0 or 1: encrypted bytes that the caller offers again, because out_ is not empty
  std::string rejection_;  // why this side rejects the other's certificate
  std::optional<error> failure_;
  bool is_told_ = false;
#endif
  bool more_ = false;
};

#if defined(WEFT_HAS_OPENSSL)

inline tls_session::tls_session(const tls_credentials& mine, int descriptor, bool dials)
    : mine_(mine), session_(SSL_new(static_cast<SSL_CTX*>(mine.context_.get()))), descriptor_(descriptor) {
  BIO* const socket = session_ ? BIO_new(socket_method()) : nullptr;
  if (!socket) throw error(error_code::resource_exhausted, "TLS", "OpenSSL cannot allocate another connection");
  BIO_set_data(socket, this);
  BIO_set_init(socket, 1);
  SSL_set_bio(session_.get(), socket, socket);
  SSL_set_app_data(session_.get(), this);
  SSL_set_verify(session_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
  dials ? SSL_set_connect_state(session_.get()) : SSL_set_accept_state(session_.get());
}

inline std::size_t tls_session::read_some(std::span<const mutable_bytes> into) {
  if (failure_) {
    if (!std::exchange(is_told_, true)) throw *failure_;
    more_ = false;
    std::array<char, 1024> dropped;
    const ssize_t n = ::recv(descriptor_, dropped.data(), dropped.size(), 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
      throw error(error_code::unavailable, "TLS", "the other side closed the connection");
    return 0;
  }
  flush();
  std::size_t total = 0;
  for (mutable_bytes piece : into)
    while (!piece.empty()) {
      std::size_t n = 0;
      ERR_clear_error();
      if (const int result = SSL_read_ex(session_.get(), piece.data(), piece.size(), &n); result != 1) {
        more_ = false;
        if (SSL_get_error(session_.get(), result) == SSL_ERROR_WANT_READ) {
          flush();
          return total;
        }
        failure_ = describe(result);
        if (total == 0) return read_some(into);
        more_ = true;  // so that the caller reads again and gets the error
        return total;
      }
      piece = piece.subspan(n);
      total += n;
    }
  more_ = SSL_has_pending(session_.get()) == 1;
  flush();
  return total;
}

inline std::size_t tls_session::write_some(std::span<const const_bytes> from) {
  constexpr std::size_t of_record = std::size_t{16} << 10, at_once = std::size_t{64} << 10;
  std::size_t total = 0, accepted = held_, piece = 0, at = 0;
  for (const const_bytes each : from) total += each.size();
  if (failure_) return total;
  const auto skip = [&](std::size_t n) {
    for (at += n; piece < from.size() && at >= from[piece].size(); ++piece) at -= from[piece].size();
  };
  skip(held_);
  std::array<std::byte, of_record> gathered;
  for (bool blocked = false; !blocked;) {
    flush();
    if (!out_.empty() || accepted == total) break;
    while (accepted < total && out_.size() < at_once) {
      const_bytes next = from[piece].subspan(at);
      if (next.size() > of_record) next = next.first(of_record);
      if (next.size() < of_record && next.size() < total - accepted) {  // small pieces share a record
        std::size_t filled = 0, rest = at;
        for (std::size_t i = piece; i < from.size() && filled < of_record; ++i, rest = 0) {
          const std::size_t n = std::min(of_record - filled, from[i].size() - rest);
          if (n > 0) std::memcpy(gathered.data() + filled, from[i].data() + rest, n);
          filled += n;
        }
        next = const_bytes(gathered).first(filled);
      }
      std::size_t n = 0;
      ERR_clear_error();
      if (const int result = SSL_write_ex(session_.get(), next.data(), next.size(), &n); result != 1) {
        if (SSL_get_error(session_.get(), result) != SSL_ERROR_WANT_READ) {
          failure_ = describe(result);
          is_told_ = true;
          throw *failure_;
        }
        flush();
        blocked = true;
        break;
      }
      accepted += n;
      skip(n);
    }
  }
  // A caller without more data would not call again, so the session reports one byte less until out_ is empty.
  held_ = !out_.empty() && accepted > 0 ? 1 : 0;
  return accepted - held_;
}

inline short tls_session::events(bool read, bool write) const {
  const bool shakes_hands = !failure_ && SSL_is_init_finished(session_.get()) == 0;
  return static_cast<short>((read || (write && shakes_hands) ? POLLIN : 0) |
                            (!out_.empty() || (write && !shakes_hands) ? POLLOUT : 0));
}

inline bool tls_session::certifies(std::string_view name) const {
  constexpr std::string_view scheme = "weft:";
  for (const std::string_view each : peer_names()) {
    if (!each.starts_with(scheme)) continue;
    const std::string_view named = each.substr(scheme.size());
    if (named == name || (!named.empty() && name.starts_with(named) && name[named.size()] == '/')) return true;
  }
  return false;
}

inline std::string tls_session::certified_names() const { return joined(peer_names()); }

inline std::vector<std::string> tls_session::peer_names() const {
  const std::unique_ptr<X509, release> certificate(SSL_get_peer_certificate(session_.get()));
  return certificate ? names_of(certificate.get()) : std::vector<std::string>{};
}

inline std::vector<std::string> tls_session::names_of(X509* certificate) {
  std::vector<std::string> found;
  const std::unique_ptr<GENERAL_NAMES, release> all(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; all && i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* const each = sk_GENERAL_NAME_value(all.get(), i);
    if (each->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = each->d.uniformResourceIdentifier;
    found.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                       static_cast<std::size_t>(ASN1_STRING_length(uri)));
  }
  return found;
}

inline std::string tls_session::joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& each : names) append(text, {text.empty() ? "" : ", ", printable(each, 128)});
  return text.empty() ? "no task" : text;
}

/// Formats a date of a certificate: ", valid until Nov 26 14:19:25 2026 GMT", or ", valid from ...".
inline std::string tls_session::date_of(const X509* certificate, bool last) {
  const std::unique_ptr<BIO, release> text(BIO_new(BIO_s_mem()));
  if (!text) return {};
  ASN1_TIME_print(text.get(), last ? X509_get0_notAfter(certificate) : X509_get0_notBefore(certificate));
  const char* words = nullptr;
  const long size = BIO_get_mem_data(text.get(), &words);
  return str_cat(
      {last ? ", valid until " : ", valid from ", std::string(words, static_cast<std::size_t>(std::max(size, 0l)))});
}

/// Sends the encrypted bytes that the socket accepts.
inline void tls_session::flush() {
  std::size_t sent = 0;
  while (sent < out_.size()) {
    const ssize_t n = ::send(descriptor_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) break;
    out_.clear();
    if (failure_) return;
    // The other side has closed the connection, perhaps after an alert.
    char next;
    std::size_t none = 0;
    ERR_clear_error();
    closed_ = true;
    const int result = SSL_peek_ex(session_.get(), &next, 1, &none);
    failure_ = result == 1 || SSL_get_error(session_.get(), result) == SSL_ERROR_WANT_READ
                   ? error(error_code::unavailable, "TLS", "the other side closed the connection")
                   : describe(result);
    is_told_ = true;
    throw *failure_;
  }
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(sent));
}

/// Sends the alert and returns the error for a failed call of OpenSSL.
inline error tls_session::describe(int result) {
  const int kind = SSL_get_error(session_.get(), result);
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  if (is_plain_) {  // OpenSSL sends no alert to a peer without TLS. A Weft peer recognizes this one: fatal,
                    // protocol_version
    constexpr std::array<char, 7> alert{21, 3, 3, 0, 2, 2, 70};
    out_.assign(alert.begin(), alert.end());
  }
  // Sends the alert to the other side.
  for (std::size_t sent = 0; sent < out_.size();) {
    const ssize_t n = ::send(descriptor_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<std::size_t>(n);
  }
  out_.clear();
  held_ = 0;
  const auto because = [](error_code what, std::initializer_list<piece> why) { return error(what, "TLS", why); };
  const int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
  if (is_plain_)
    return because(error_code::failed_precondition, {"the peer does not use TLS, but this task has a certificate (",
                                                     mine_.origin(), "); give every task a certificate, or none"});
  if (!rejection_.empty())
    return because(error_code::unauthenticated, {"the peer's certificate is rejected: ", rejection_});
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return because(error_code::unauthenticated, {"the peer shows no certificate"});
  if (reason >= SSL_AD_REASON_OFFSET) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    const std::string says = SSL_alert_desc_string_long(alert);
    if ((alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) || alert == SSL_AD_UNKNOWN_CA ||
        alert == SSL_AD_CERTIFICATE_REQUIRED || alert == SSL_AD_DECRYPT_ERROR)  // decrypt_error: a wrong signature
      return because(error_code::unauthenticated,
                     {"the peer rejects this task's certificate (", mine_.origin(), "): ", says});
    return because(error_code::invalid_argument, {"the peer ended the connection: ", says});
  }
  if (kind == SSL_ERROR_ZERO_RETURN || closed_)
    return because(error_code::unavailable, {"the other side closed the connection"});
  if (reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC)
    return because(error_code::data_loss, {"the received data was changed in transit"});
  const char* const words = ERR_reason_error_string(code);
  return because(error_code::invalid_argument, {"the peer broke the protocol: ", words ? words : "unknown"});
}

inline BIO_METHOD* tls_session::socket_method() {
  struct deleter {
    void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
  };
  static const std::unique_ptr<BIO_METHOD, deleter> method = [] {
    std::unique_ptr<BIO_METHOD, deleter> made(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft"));
    if (!made) throw error(error_code::resource_exhausted, "TLS", "OpenSSL cannot allocate a socket method");
    BIO_meth_set_read(made.get(), read_socket);
    BIO_meth_set_write(made.get(), write_socket);
    BIO_meth_set_ctrl(made.get(), [](BIO*, int what, long, void*) -> long { return what == BIO_CTRL_FLUSH; });
    return made;
  }();
  return method.get();
}

inline int tls_session::read_socket(BIO* from, char* to, int size) {
  auto& here = *static_cast<tls_session*>(BIO_get_data(from));
  BIO_clear_retry_flags(from);
  const ssize_t n = ::recv(here.descriptor_, to, static_cast<std::size_t>(size), 0);
  if (n > 0) {
    if (!std::exchange(here.has_heard_, true))
      here.is_plain_ = n >= 4 && get_little<std::uint32_t>(reinterpret_cast<const std::byte*>(to)) == frame_magic;
    return static_cast<int>(n);
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    BIO_set_retry_read(from);
  else
    here.closed_ = true;
  return n < 0 ? -1 : 0;
}

/// Buffers everything; flush() sends many records at once. BIO_s_socket would raise SIGPIPE.
inline int tls_session::write_socket(BIO* to, const char* from, int size) try {
  auto& here = *static_cast<tls_session*>(BIO_get_data(to));
  here.out_.insert(here.out_.end(), from, from + size);
  return size;
} catch (const std::exception&) {  // out of memory; exceptions must not pass through OpenSSL
  return -1;
}

/// Records why OpenSSL rejects a certificate.
inline int tls_session::verify(int verdict, X509_STORE_CTX* chain) try {
  if (verdict == 1) return 1;
  SSL* const session = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& here = *static_cast<tls_session*>(SSL_get_app_data(session));
  const int reason = X509_STORE_CTX_get_error(chain);
  here.rejection_ = X509_verify_cert_error_string(reason);
  X509* const certificate = X509_STORE_CTX_get_current_cert(chain);
  if (!certificate) return 0;
  append(here.rejection_, {" (a certificate of ", joined(names_of(certificate))});
  if (reason == X509_V_ERR_CERT_HAS_EXPIRED || reason == X509_V_ERR_CERT_NOT_YET_VALID) {
    here.rejection_ += date_of(certificate, reason == X509_V_ERR_CERT_HAS_EXPIRED);
  } else {
    append(here.rejection_, {"; this task's authority: ", here.mine_.authority()});
  }
  here.rejection_ += ")";
  return 0;
} catch (const std::exception&) {
  return 0;
}

#else

inline tls_session::tls_session(const tls_credentials&, int, bool) {}
inline std::size_t tls_session::read_some(std::span<const mutable_bytes>) { return 0; }
inline std::size_t tls_session::write_some(std::span<const const_bytes>) { return 0; }
inline short tls_session::events(bool, bool) const { return 0; }
inline bool tls_session::certifies(std::string_view) const { return false; }
inline std::string tls_session::certified_names() const { return {}; }

#endif

}  // namespace detail

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL tls_credentials::tls_credentials(const tls_credentials&) = default;
WEFT_DISTRIBUTED_DECL tls_credentials::tls_credentials(tls_credentials&&) noexcept = default;
WEFT_DISTRIBUTED_DECL tls_credentials& tls_credentials::operator=(const tls_credentials&) = default;
WEFT_DISTRIBUTED_DECL tls_credentials& tls_credentials::operator=(tls_credentials&&) noexcept = default;
WEFT_DISTRIBUTED_DECL tls_credentials::~tls_credentials() = default;

WEFT_DISTRIBUTED_DECL void detail::opaque_delete::operator()(tls_session* what) const { delete what; }

  #if defined(WEFT_HAS_OPENSSL)

WEFT_DISTRIBUTED_DECL tls_credentials tls_credentials::from_files(const std::string& certificate,
                                                                  const std::string& key,
                                                                  const std::string& authority) {
  using release = detail::tls_session::release;
  const auto fail = [](error_code code, std::initializer_list<piece> why) { return error(code, "TLS", why); };
  const auto reason = [] {
    const char* const words = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return std::string(words ? words : "invalid contents");
  };
  for (const std::string* each : {&certificate, &authority})
    if (::access(each->c_str(), R_OK) != 0)
      throw fail(errno == ENOENT ? error_code::not_found : error_code::permission_denied,
                 {"cannot read the certificate: ", *each, ": ", std::strerror(errno)});
  ERR_clear_error();
  tls_credentials made;
  made.certificate_ = certificate;
  made.authority_ = authority;
  made.context_ = std::shared_ptr<SSL_CTX>(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* const context = static_cast<SSL_CTX*>(made.context_.get());
  if (!context || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") !=
          1)
    throw fail(error_code::failed_precondition, {"this OpenSSL does not support TLS 1.3: ", reason()});
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
    throw fail(error_code::invalid_argument, {certificate, " does not contain a PEM certificate: ", reason()});
  if (SSL_CTX_load_verify_locations(context, authority.c_str(), nullptr) != 1)
    throw fail(error_code::invalid_argument,
               {authority, " does not contain a PEM certificate of an authority: ", reason()});

  // Checks the key's file after opening it, so that it cannot be replaced in between.
  struct file {
    int number;
    ~file() {
      if (number >= 0) ::close(number);
    }
  };
  const file in{::open(key.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  if (in.number < 0)
    throw fail(errno == ENOENT ? error_code::not_found : error_code::permission_denied,
               {"cannot read the key: ", key, ": ", std::strerror(errno)});
  struct stat status{};
  if (::fstat(in.number, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw fail(error_code::permission_denied,
               {key,
                " must be owned by this user and readable by nobody else (mode 0600), because its readers could join "
                "the cluster; create a new key, or change its mode"});
  std::array<char, 65536> text;
  std::size_t size = 0;
  for (ssize_t n; size < text.size() && (n = ::read(in.number, text.data() + size, text.size() - size)) > 0;)
    size += static_cast<std::size_t>(n);
  const std::unique_ptr<BIO, release> from(BIO_new_mem_buf(text.data(), static_cast<int>(size)));
  const auto no_password = [](char*, int, int, void*) { return 0; };
  const std::unique_ptr<EVP_PKEY, release> read(
      from ? PEM_read_bio_PrivateKey(from.get(), nullptr, no_password, nullptr) : nullptr);
  OPENSSL_cleanse(text.data(), text.size());
  if (!read)
    throw fail(error_code::invalid_argument, {key, " does not contain a PEM key without a password: ", reason()});
  if (SSL_CTX_use_PrivateKey(context, read.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    throw fail(error_code::invalid_argument, {key, " is not the key of ", certificate, ": ", reason()});

  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context, 1);  // recv() reads many records at once
  SSL_CTX_set_default_read_buffer_len(context, std::size_t{128} << 10);
  return made;
}

WEFT_DISTRIBUTED_DECL std::string tls_credentials::date_problem() const {
  const X509* const certificate = SSL_CTX_get0_certificate(static_cast<SSL_CTX*>(context_.get()));
  if (!certificate) return {};
  const bool is_over = X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0;
  if (!is_over && X509_cmp_current_time(X509_get0_notBefore(certificate)) <= 0) return {};
  return str_cat({"this task's certificate (", certificate_, ") is rejected by others: it ",
                  is_over ? "has expired" : "is not valid yet", detail::tls_session::date_of(certificate, is_over),
                  "; create a new certificate"});
}

  #else

WEFT_DISTRIBUTED_DECL std::string tls_credentials::date_problem() const { return {}; }

WEFT_DISTRIBUTED_DECL tls_credentials tls_credentials::from_files(const std::string&, const std::string&,
                                                                  const std::string&) {
  throw error(error_code::failed_precondition, "TLS", {"this program was built without OpenSSL; ", build_with_openssl});
}

  #endif

WEFT_DISTRIBUTED_DECL std::optional<tls_credentials> tls_credentials::from_environment() {
  constexpr std::array<const char*, 3> names{"WEFT_TLS_CERT", "WEFT_TLS_KEY", "WEFT_TLS_CA"};
  std::array<std::string, 3> files;
  std::string set, missing;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const char* const given = std::getenv(names[i]);
    if (given) files[i] = given;
    std::string& list = files[i].empty() ? missing : set;
    append(list, {list.empty() ? "" : ", ", names[i]});
  }
  if (set.empty()) return {};
  if (!missing.empty())
    throw error(error_code::invalid_argument, "TLS",
                {set, " requires ", missing, " too: the files of the certificate, its key and the authority"});
  return from_files(files[0], files[1], files[2]);
}

#endif

}  // namespace weft
